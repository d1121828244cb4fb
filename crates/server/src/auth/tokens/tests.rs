use std::fs;
use std::os::unix::fs::PermissionsExt;

use jobhall_protocol::{CreateToken, Span, TokenKind, TokenRole};
use jobhall_store::Memory;

use super::*;

fn keys() -> Arc<HallKeys> {
    Arc::new(HallKeys::fixed(&[1; 32]))
}

async fn open(dir: &tempfile::TempDir) -> Result<Tokens, TokenError> {
    Tokens::open(dir.path(), keys(), Arc::new(Memory::new())).await
}

fn admin() -> Identity {
    Identity::new("", "admin", Role::Admin)
}

fn wanted(name: &str, role: TokenRole) -> CreateToken {
    let name = Some(name.to_owned());
    CreateToken { name, role, kind: TokenKind::Plain, queues: Vec::new(), uses: None, expires_in: None }
}

#[tokio::test]
async fn the_first_start_writes_private_secrets_that_the_next_one_reads() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(&dir).await.unwrap();
    let token = fs::read_to_string(dir.path().join(ADMIN_FILE)).unwrap();
    let mode = fs::metadata(dir.path().join(ADMIN_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let role = |tokens: &Tokens| tokens.who(token.trim()).map(|who| (who.name.clone(), who.role));
    assert_eq!(role(&first), Some(("admin".to_owned(), Role::Admin)));
    assert_eq!(role(&open(&dir).await.unwrap()), Some(("admin".to_owned(), Role::Admin)));
    let other = tempfile::tempdir().unwrap();
    assert_eq!(role(&open(&other).await.unwrap()), None, "two halls, two tokens");
}

#[tokio::test]
async fn a_secret_file_that_is_open_or_spoilt_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir).await.unwrap();
    let path = dir.path().join(ADMIN_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(open(&dir).await, Err(TokenError::Open(_))));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "jh_short").unwrap();
    assert!(matches!(open(&dir).await, Err(TokenError::Content(_))));
}

#[tokio::test]
async fn ground_16_requests_of_one_token_share_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = open(&dir).await.unwrap();
    let stored = tokens.create(&admin(), &wanted("c", TokenRole::Client)).await.unwrap();
    for token in [tokens.mint("w", Role::Worker), stored.secret] {
        let [one, other] = [(); 2].map(|()| tokens.who(&token).unwrap());
        assert!(Arc::ptr_eq(&one.facts, &other.facts), "a request copies no name and no scope");
    }
}

#[tokio::test]
async fn only_the_whole_token_is_good_and_only_until_it_is_revoked() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tokens = open(&dir).await.unwrap();
    let token = tokens.mint("w", Role::Worker);
    assert!(token.starts_with("jh_") && token.len() == 3 + 16 + 1 + 64);
    assert_eq!(tokens.who(&token).unwrap().role, Role::Worker);
    let mut wrong = token.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    let foreign = open(&other).await.unwrap().mint("w", Role::Worker);
    for bad in [wrong.as_str(), "", "jh_", "jh__", &token[3..], &token[..20], &foreign] {
        assert_eq!(tokens.who(bad), None, "{bad}");
    }
    assert_eq!((tokens.revoke("w"), tokens.revoke("w")), (1, 0));
    assert_eq!(tokens.who(&token), None);
    assert_eq!(format!("{tokens:?}"), "Tokens(…)");
}

#[tokio::test]
async fn what_one_node_makes_and_revokes_the_other_knows_after_reading() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let one = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let two = Tokens::open(dir.path(), keys(), store).await.unwrap();
    let made = one.create(&admin(), &wanted("c", TokenRole::Client)).await.unwrap();
    assert_eq!(two.who(&made.secret), None);
    two.refresh().await.unwrap();
    let who = two.who(&made.secret).unwrap();
    assert_eq!((who.name.as_str(), who.role), ("c", Role::Client));
    one.remove(&admin(), &made.token.id).await.unwrap();
    assert_eq!(one.who(&made.secret), None, "at once here");
    two.refresh().await.unwrap();
    two.gone(&who).await;
    assert_eq!(two.who(&made.secret), None);
}

#[tokio::test]
async fn an_expired_token_is_good_for_nothing_and_gives_its_name_back() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let tokens = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let made = tokens.create(&admin(), &wanted("c", TokenRole::Client)).await.unwrap();
    let who = tokens.who(&made.secret).unwrap();
    for stored in tokens.write().stored.values_mut() {
        stored.expires_at = Some(now());
    }
    assert_eq!(tokens.who(&made.secret), None);
    assert_eq!(tokens.list(), []);
    let again = tokens.create(&admin(), &wanted("c", TokenRole::Viewer)).await.unwrap();
    tokens.gone(&who).await;
    tokens.refresh().await.unwrap();
    assert_eq!(tokens.who(&again.secret).unwrap().role, Role::Viewer);
    assert_eq!(tokens.list().len(), 1);
}

#[tokio::test]
async fn expired_tokens_are_removed_from_the_store() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let tokens = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let made = tokens.create(&admin(), &wanted("c", TokenRole::Client)).await.unwrap();
    let mut old = tokens.read().stored[&made.token.id].clone();
    old.expires_at = Some(now());
    let unit = jobhall_store::Unit { settings: vec![old.write(1)], ..Default::default() };
    assert!(store.commit_now(vec![unit]).results[0].is_ok());
    tokens.refresh().await.unwrap();
    assert_eq!(store.settings_now(), []);
}

#[tokio::test]
async fn bounds_of_a_token_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = open(&dir).await.unwrap();
    let viewer = || wanted("v", TokenRole::Viewer);
    let join = CreateToken { kind: TokenKind::Join, role: TokenRole::Worker, ..viewer() };
    for bad in [
        CreateToken { name: None, ..viewer() },
        CreateToken { name: Some("a b".to_owned()), ..viewer() },
        CreateToken { name: Some("admin".to_owned()), ..viewer() },
        CreateToken { queues: vec!["a b".to_owned()], ..viewer() },
        CreateToken { expires_in: Some(Span(0)), ..viewer() },
        CreateToken { expires_in: Some(Span(3_600_001)), ..join.clone() },
        CreateToken { role: TokenRole::Admin, ..join.clone() },
        CreateToken { uses: Some(2), ..viewer() },
        CreateToken { uses: Some(0), ..join.clone() },
        CreateToken { uses: Some(10_001), ..join.clone() },
    ] {
        assert!(tokens.create(&admin(), &bad).await.is_err(), "{bad:?}");
    }
    assert_eq!(tokens.list(), []);
    let made = tokens.create(&admin(), &CreateToken { name: None, ..join }).await.unwrap();
    assert!(made.token.name.starts_with("join-") && made.token.expires_at.is_some());
    assert!(!format!("{made:?}").contains(&made.secret[20..]));
}

#[tokio::test]
async fn a_join_token_that_one_node_took_is_used_up_on_the_other_before_it_has_read_so() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let one = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let join = CreateToken { kind: TokenKind::Join, ..wanted("j", TokenRole::Worker) };
    let join = one.create(&admin(), &join).await.unwrap();
    let two = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let who = two.who(&join.secret).unwrap();
    one.join(&who, "gpu-1").await.unwrap();
    assert!(two.join(&who, "gpu-2").await.is_err(), "as stored");
    for tokens in [&one, &two] {
        tokens.refresh().await.unwrap();
        assert_eq!(tokens.who(&join.secret), None);
        assert_eq!(tokens.list().iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["gpu-1"]);
    }
}

#[tokio::test]
async fn of_two_nodes_that_give_one_name_at_once_one_does() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let one = Tokens::open(dir.path(), keys(), store.clone()).await.unwrap();
    let two = Tokens::open(dir.path(), keys(), store).await.unwrap();
    assert!(one.create(&admin(), &wanted("c", TokenRole::Client)).await.is_ok());
    assert!(two.create(&admin(), &wanted("c", TokenRole::Client)).await.is_err(), "as stored");
}

#[tokio::test(start_paused = true)]
async fn audit_l8_what_a_cookie_opened_ends_with_its_time_or_its_sign_out() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = open(&dir).await.unwrap();
    let enter = || {
        let cookie = tokens.browsers.enter(&tokens.code()).unwrap();
        (tokens.who_of_cookie(&cookie).unwrap(), cookie)
    };
    let (who, cookie) = enter();
    let before = tokio::time::Instant::now();
    tokens.gone(&who).await;
    assert!(before.elapsed() >= SESSION_TIME, "not before its time");
    assert_eq!(tokens.who_of_cookie(&cookie), None);
    let ((one, cookie), (two, other)) = (enter(), enter());
    let before = tokio::time::Instant::now();
    assert!(tokens.sign_out(&one) && !tokens.sign_out(&admin()));
    tokens.gone(&one).await;
    assert_eq!(before.elapsed(), std::time::Duration::ZERO, "at once");
    assert_eq!(tokens.who_of_cookie(&cookie), None);
    assert!(tokens.knows(&two) && tokens.who_of_cookie(&other).is_some(), "the other one stays");
}

#[tokio::test]
async fn of_many_workers_that_join_at_once_on_two_nodes_as_many_get_in_as_the_token_allows() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let one = Arc::new(Tokens::open(dir.path(), keys(), store.clone()).await.unwrap());
    let join = CreateToken {
        kind: TokenKind::Join,
        queues: vec!["ci-*".to_owned()],
        uses: Some(3),
        expires_in: Some(Span(90 * 24 * 3_600_000)),
        ..wanted("fleet", TokenRole::Worker)
    };
    let join = one.create(&admin(), &join).await.unwrap();
    assert_eq!(join.token.uses, Some(3));
    let two = Arc::new(Tokens::open(dir.path(), keys(), store.clone()).await.unwrap());
    let who = two.who(&join.secret).unwrap();
    let joining = (0..10).map(|n| {
        let (tokens, who) = (if n % 2 == 0 { one.clone() } else { two.clone() }, who.clone());
        tokio::spawn(async move { tokens.join(&who, &format!("gpu-{n}")).await })
    });
    let mut joined = Vec::new();
    for task in joining.collect::<Vec<_>>() {
        joined.extend(task.await.unwrap().ok());
    }
    assert_eq!(joined.len(), 3);
    assert!(joined.iter().all(|worker| worker.token.queues == ["ci-*"] && worker.token.uses.is_none()));
    one.refresh().await.unwrap();
    assert_eq!(one.who(&join.secret), None, "used up");
    assert_eq!(one.list().len(), 3, "the workers stay");
}

#[tokio::test]
async fn a_revoked_join_token_stops_further_joins_and_leaves_its_workers() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = open(&dir).await.unwrap();
    let join = CreateToken { kind: TokenKind::Join, uses: Some(9), ..wanted("fleet", TokenRole::Worker) };
    let join = tokens.create(&admin(), &join).await.unwrap();
    let who = tokens.who(&join.secret).unwrap();
    let worker = tokens.join(&who, "gpu-1").await.unwrap();
    let left = tokens.list().into_iter().find(|token| token.name == "fleet").unwrap();
    assert_eq!(left.uses, Some(8));
    tokens.refresh().await.unwrap();
    assert!(tokens.who(&join.secret).is_some(), "stored with its remaining uses");
    tokens.remove(&admin(), &join.token.id).await.unwrap();
    assert!(tokens.join(&who, "gpu-2").await.is_err());
    assert!(tokens.who(&worker.secret).is_some());
}

#[tokio::test]
async fn every_join_is_told_the_same_hall_and_another_store_is_another_hall() {
    let join_on = |tokens: Arc<Tokens>, name: &'static str| async move {
        let join = CreateToken { name: None, kind: TokenKind::Join, ..wanted("", TokenRole::Worker) };
        let join = tokens.create(&admin(), &join).await.unwrap();
        assert_eq!(join.hall, None);
        let who = tokens.who(&join.secret).unwrap();
        tokens.join(&who, name).await.unwrap().hall.unwrap()
    };
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()));
    let node = || Tokens::open(dir.path(), keys(), store.clone());
    let (one, two) = (Arc::new(node().await.unwrap()), Arc::new(node().await.unwrap()));
    let (a, b) = tokio::join!(join_on(one, "a"), join_on(two, "b"));
    assert_eq!(a, b, "two nodes that join the first workers at once");
    assert!(a.len() == 32 && a.bytes().all(|byte| byte.is_ascii_hexdigit()), "{a}");
    let other = Arc::new(open(&tempfile::tempdir().unwrap()).await.unwrap());
    assert_ne!(join_on(other, "a").await, a);
}
