//! Values that expire: by the term of their step, or of what it received.

use jobhall_core::query::{Declared, Expiry, Modes};
use jobhall_queries::{Asked, RecipeState, Request, Upkeep, Warmth};

use crate::cached::{echo, hours_later, job_of, warm};
use crate::rig::{Hall, Ran, declared, query, text_of, until, worker};

fn expiring(name: &str, expires: &str) -> Declared {
    let mut declared = declared(name, "1", Modes::default());
    declared.declaration.expires = Some(Expiry::new(expires).unwrap());
    declared
}

/// `a` expires after this, `h` after an hour; `b` and `c` do not expire.
async fn start(expires: &str) -> (Hall, Ran) {
    let hall = Hall::with_commands().await;
    hall.queries.declare(vec![expiring("a", expires), expiring("h", "1h")]).await.unwrap();
    let ran = worker(&hall, &["a@1", "b@1", "c@1", "h@1"], echo).await;
    (hall, ran)
}

async fn until_expired(hall: &Hall, text: &str) {
    until("the end of its term", || async {
        let planned = hall.queries.plan(&query(text)).await.unwrap();
        matches!(planned.warmth.last(), Some(Warmth::Expired(..)))
    })
    .await;
}

#[tokio::test]
async fn q27_an_expired_value_is_made_again_and_stays_readable_by_its_promise() {
    let (hall, ran) = start("300ms").await;
    let found = hall.promise("a").await;
    assert_eq!(text_of(hall.queries.wait(found.job).await.unwrap().as_ref()), "1 a");
    until_expired(&hall, "a").await;
    assert_eq!(warm(&hall, "a"), None, "memory respects it");
    assert!(!hall.queries.contains("a"));
    assert!(matches!(hall.ask_with("a", false).await.unwrap(), Asked::NotComputed(_)));
    let stale =
        Request { query: query("a"), compute: true, stale: true, priority: 50, owner: None, within: None };
    let Asked::Hit(old) = hall.queries.ask(stale).await.unwrap() else { panic!("no value") };
    assert_eq!((text_of(old.as_ref()).as_str(), ran.count()), ("1 a", 1), "it is there for who asks for it");
    let again = hall.promise("a").await;
    assert!(again.job > found.job, "a new request makes it again");
    assert_eq!(text_of(hall.queries.wait(again.job).await.unwrap().as_ref()), "2 a");
    assert_eq!(
        text_of(hall.queries.wait(found.job).await.unwrap().as_ref()),
        "1 a",
        "the promise keeps its value"
    );
    assert_eq!(hall.queries.cache_stats().await.unwrap().misses.expired, 1);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q27_a_value_expires_with_the_first_of_what_it_was_made_from() {
    let (hall, ran) = start("300ms").await;
    // The first is the input of the input.
    assert_eq!(hall.value("a/b/c").await, "3 a/b/c");
    until_expired(&hall, "a/b/c").await;
    assert_eq!(warm(&hall, "a/b/c"), None);
    until_expired(&hall, "a").await;
    hall.value("a/b/c").await;
    let again = ran.queries();
    assert!(again.len() >= 6 && again[3..].iter().any(|text| text == "a"), "{again:?}");
    // A value that is made later from one that is stored expires with it as well.
    let planned = hall.queries.plan(&query("h/b")).await.unwrap();
    assert!(matches!(planned.warmth[..], [Warmth::Missing(None), Warmth::Missing(None)]));
    hall.value("h").await;
    let first = hall.ended("h").await.job.status.state.ended_at().unwrap();
    hall.value("h/b").await;
    let job = hall.engine.show(job_of(&hall, "h/b").await).await.unwrap().job;
    let params: jobhall_core::query::NodeParams = serde_json::from_str(job.spec.params.as_str()).unwrap();
    assert_eq!(
        params.inputs_expire_at,
        Some(first.plus_ms(3_600_000).as_ms()),
        "an hour after its input was made"
    );
    assert!(warm(&hall, "h/b").is_some());
    hall.engine.stop().await;
}

#[tokio::test]
async fn an_expired_value_that_was_made_again_is_removed_and_the_newest_is_kept() {
    let (hall, _) = start("300ms").await;
    hall.value("a").await;
    until_expired(&hall, "a").await;
    hall.value("a").await;
    assert_eq!(hall.queries.upkeep(hours_later(0)).await.unwrap(), Upkeep { jobs: 2, removed: 0 });
    assert_eq!(hall.queries.upkeep(hours_later(2)).await.unwrap(), Upkeep { jobs: 2, removed: 1 });
    hall.engine.stop().await;
}

#[tokio::test]
async fn the_state_of_a_recipe_says_that_its_value_expired() {
    let (hall, _) = start("300ms").await;
    let query = std::sync::Arc::new(query("a"));
    let key = jobhall_core::query::SourceKey::new("r").unwrap();
    let recipe =
        jobhall_queries::StoredRecipe { key: key.clone(), query, title: None, description: None, made: None };
    hall.queries.put_recipe(recipe).await.unwrap();
    hall.value("-R/r/-").await;
    until_expired(&hall, "a").await;
    until("the job of the recipe", || async {
        hall.queries.recipe(&key).await.unwrap().unwrap().made.is_some()
    })
    .await;
    let recipe = hall.queries.recipe(&key).await.unwrap().unwrap();
    let status = hall.queries.recipe_status(&recipe, true).await.unwrap();
    assert_eq!(status.state, RecipeState::Stale);
    assert!(status.why.is_some_and(|why| why.starts_with("its value expired ")));
    hall.engine.stop().await;
}
