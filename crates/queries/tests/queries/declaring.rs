//! Commands: declared, stored, and in what they change.

use jobhall_core::query::{CommandName, Modes};
use jobhall_queries::{Error, Queries};

use crate::rig::{Hall, declared, hall, worker};

#[tokio::test]
async fn declarations_are_stored_and_found_after_a_restart() {
    let hall = hall().await;
    let one = |version| declared("a", version, Modes::default());
    assert_eq!(hall.queries.declare(vec![one("1")]).await.unwrap(), 1);
    assert_eq!(hall.queries.declare(vec![one("1")]).await.unwrap(), 0, "nothing has changed");
    assert_eq!(hall.queries.declare(vec![one("2"), declared("b", "1", Modes::default())]).await.unwrap(), 2);
    let later = Queries::new(hall.engine.clone(), hall.store.clone(), hall.blobs.clone());
    let known = later.commands().await.unwrap();
    let versions: Vec<_> =
        known.commands.iter().map(|(name, command)| format!("{name}@{}", command.version)).collect();
    assert_eq!(versions, ["a@2", "b@1"]);
    // Two handles, as after a change of the leader: neither overwrites what the other wrote.
    assert_eq!(later.declare(vec![one("3")]).await.unwrap(), 1);
    assert_eq!(hall.queries.declare(vec![one("4")]).await.unwrap(), 1);
    let name = CommandName::new("a").unwrap();
    assert_eq!(hall.queries.commands().await.unwrap().commands[&name].version.as_str(), "4");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_wrong_declaration_changes_nothing() {
    let hall = hall().await;
    let good = declared("a", "1", Modes::default());
    let mut wrong = declared("b", "1", Modes::default());
    wrong.declaration.args[0].name = "X".to_owned();
    let refused = hall.queries.declare(vec![good.clone(), wrong]).await;
    assert!(
        matches!(&refused, Err(Error::Refused(why)) if why.starts_with("commands.b.args[0].name")),
        "{refused:?}"
    );
    let twice = hall.queries.declare(vec![good.clone(), good]).await;
    assert!(
        matches!(&twice, Err(Error::Refused(why)) if why == "the command a is declared twice"),
        "{twice:?}"
    );
    assert!(hall.queries.commands().await.unwrap().commands.is_empty());
    hall.engine.stop().await;
}

#[tokio::test]
async fn another_version_is_another_value_and_runs_only_where_it_is() {
    let hall = Hall::with_commands().await;
    let old = worker(&hall, &["a@1"], |_| Ok("old".to_owned())).await;
    assert_eq!(hall.value("a").await, "1 old");
    hall.queries.declare(vec![declared("a", "2", Modes::default())]).await.unwrap();
    let found = hall.promise("a").await;
    let needs = hall.engine.show(found.job).await.unwrap().job.spec.needs.to_string();
    assert_eq!((needs.as_str(), old.count()), ("commands=a@2", 1), "the old worker cannot fill the new key");
    hall.queries.declare(vec![declared("a", "1", Modes::default())]).await.unwrap();
    assert_eq!(hall.value("a").await, "1 old", "a revert hits again");
    hall.engine.stop().await;
}
