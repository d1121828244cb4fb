//! Recipes: keys whose values are made by queries.

use std::sync::Arc;

use jobhall_blobs::ARTIFACT_BYTES;
use jobhall_core::Failure;
use jobhall_core::query::{SourceDigest, SourceKey};
use jobhall_queries::{
    Asked, Error, Queries, RECIPE_TEXT_BYTES_MAX, RecipeState, RecipeStatus, StoredRecipe, StoredSource,
};

use crate::cached::{echo, warm};
use crate::rig::{Hall, declared, query, until, worker};

const ALL: [&str; 4] = ["a@1", "b@1", "c@1", "v@1"];

fn key(text: &str) -> SourceKey {
    SourceKey::new(text).unwrap()
}

fn recipe(name: &str, text: &str) -> StoredRecipe {
    let query = Arc::new(query(text));
    StoredRecipe { key: key(name), query, title: None, description: None, made: None }
}

async fn bind(hall: &Hall, name: &str, text: &str) {
    hall.queries.put_recipe(recipe(name, text)).await.unwrap();
}

async fn put(hall: &Hall, name: &str, bytes: &[u8]) {
    let stored = hall.blobs.objects().put(&mut &bytes[..], ARTIFACT_BYTES, 0).unwrap();
    let digest = SourceDigest(*stored.digest.as_bytes());
    let at = crate::cached::hours_later(0);
    let source =
        StoredSource { key: key(name), digest, size: stored.bytes, media_type: "text/csv".into(), at };
    hall.queries.put_source(source).await.unwrap();
}

async fn status(hall: &Hall, name: &str) -> RecipeStatus {
    let recipe = hall.queries.recipe(&key(name)).await.unwrap().unwrap();
    hall.queries.recipe_status(&recipe, true).await.unwrap()
}

async fn state(hall: &Hall, name: &str) -> (RecipeState, String) {
    let status = status(hall, name).await;
    (status.state, status.why.unwrap_or_default())
}

async fn until_made(hall: &Hall, name: &str) {
    until("the job of the recipe", || async {
        hall.queries.recipe(&key(name)).await.unwrap().unwrap().made.is_some()
    })
    .await;
}

#[tokio::test]
async fn q23_a_missing_key_is_made_and_data_comes_first_until_it_is_removed() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    let refused = hall.ask_with("-R/r/-/c", true).await;
    assert!(
        matches!(&refused, Err(Error::Query(error)) if error.kind.to_string() == "there is no source \"r\"")
    );
    bind(&hall, "r", "a/b").await;
    assert_eq!(hall.value("-R/r/-/c").await, "3 -R/r/-/c");
    assert_eq!(ran.queries(), ["a", "a/b", "-R/r/-/c"]);
    assert_eq!(hall.value("-R/r/-").await, "2 a/b", "the key alone is the value of its recipe");
    assert_eq!(hall.value("a/b/c").await, "3 -R/r/-/c", "the same meaning is the same value");
    assert_eq!(warm(&hall, "-R/r/-/c").as_deref(), Some("3 -R/r/-/c"));
    put(&hall, "r", b"mine").await;
    assert_eq!(hall.value("-R/r/-/c").await, "4 -R/r/-/c", "the data of a user comes first");
    assert!(matches!(hall.ask_with("-R/r/-", true).await.unwrap(), Asked::Source(_)));
    assert_eq!(warm(&hall, "-R/r/-/c").as_deref(), Some("4 -R/r/-/c"));
    hall.queries.remove_source(&key("r")).await.unwrap().unwrap();
    assert_eq!(hall.value("-R/r/-/c").await, "3 -R/r/-/c");
    assert_eq!(warm(&hall, "-R/r/-/c").as_deref(), Some("3 -R/r/-/c"));
    assert_eq!(ran.count(), 4, "the recipe's value was kept");
    // Another recipe is another value, and the first one again finds the first value.
    bind(&hall, "r", "a").await;
    assert_eq!(hall.value("-R/r/-/c").await, "5 -R/r/-/c");
    bind(&hall, "r", "a/b").await;
    assert_eq!(hall.value("-R/r/-/c").await, "3 -R/r/-/c");
    hall.queries.remove_recipe(&key("r")).await.unwrap().unwrap();
    assert!(hall.ask_with("-R/r/-/c", true).await.is_err());
    assert_eq!(warm(&hall, "-R/r/-/c"), None);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q16_a_cycle_of_recipes_is_refused_and_nothing_is_queued() {
    let hall = Hall::with_commands().await;
    bind(&hall, "x", "-R/y/-/a").await;
    bind(&hall, "y", "b/a-~_/c").await;
    bind(&hall, "y", "-R/x/-/b").await;
    let Err(Error::Query(error)) = hall.ask_with("-R/x/-/c", true).await else { panic!("no cycle") };
    assert_eq!(error.kind.code(), "recipe_cycle");
    assert!(error.kind.to_string().ends_with("x -> y -> x"), "{}", error.kind);
    assert!(hall.store.list(Default::default(), None, 10).await.unwrap().jobs.is_empty());
    let (state, why) = state(&hall, "x").await;
    assert!(state == RecipeState::Failed && why.ends_with("x -> y -> x"), "{why}");
    hall.engine.stop().await;
}

#[tokio::test]
async fn recipes_are_found_after_a_restart_and_by_two_handles() {
    let hall = Hall::with_commands().await;
    let titled = StoredRecipe { title: Some("T".to_owned()), ..recipe("a/r.csv", "a/b") };
    assert_eq!(hall.queries.put_recipe(titled.clone()).await.unwrap(), None);
    let later = Queries::new(hall.engine.clone(), hall.store.clone(), hall.blobs.clone());
    assert_eq!(later.recipe(&key("a/r.csv")).await.unwrap(), Some(titled.clone()));
    assert_eq!(later.put_recipe(titled.clone()).await.unwrap(), Some(titled.clone()), "it stays as it is");
    // The first handle does not know of this change, and overwrites nothing unseen.
    let other = recipe("a/r.csv", "c");
    later.put_recipe(other.clone()).await.unwrap();
    let titled = StoredRecipe { title: Some("U".to_owned()), ..titled };
    assert_eq!(hall.queries.put_recipe(titled.clone()).await.unwrap(), Some(other));
    for name in ["b/1", "b/2", "c"] {
        bind(&hall, name, "a").await;
    }
    let page = async |prefix: &str, after: Option<&str>, limit| {
        let page = hall.queries.recipes(prefix, after, limit).await.unwrap();
        page.iter().map(|recipe| recipe.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page("", None, 9).await, ["a/r.csv", "b/1", "b/2", "c"]);
    assert_eq!(page("b/", Some("b/1"), 9).await, ["b/2"]);
    assert_eq!(page("", Some("a/r.csv"), 1).await, ["b/1"]);
    assert_eq!(hall.queries.remove_recipe(&key("c")).await.unwrap(), Some(recipe("c", "a")));
    assert_eq!(hall.queries.remove_recipe(&key("c")).await.unwrap(), None);
    let hall = hall.restart(Default::default()).await;
    assert_eq!(hall.queries.recipes("", None, 9).await.unwrap().len(), 3);
    assert_eq!(hall.queries.recipe(&key("a/r.csv")).await.unwrap(), Some(titled));
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_recipe_that_is_not_allowed_is_refused() {
    let hall = Hall::with_commands().await;
    let refused = async |recipe: StoredRecipe| match hall.queries.put_recipe(recipe).await {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(recipe("blake3/x", "a")).await;
    assert!(why.contains("is the digest of its data, so it has no recipe"), "{why}");
    let long = Some("x".repeat(RECIPE_TEXT_BYTES_MAX + 1));
    let why = refused(StoredRecipe { title: long.clone(), ..recipe("r", "a") }).await;
    assert_eq!(why, "title: a text has up to 4096 bytes and no NUL");
    let why = refused(StoredRecipe { description: Some("\0".to_owned()), ..recipe("r", "a") }).await;
    assert!(why.starts_with("description: "), "{why}");
    assert_eq!(hall.queries.recipes("", None, 9).await.unwrap(), []);
    hall.engine.stop().await;
}

#[tokio::test]
async fn the_state_of_a_recipe_says_why_its_value_is_not_that_of_today() {
    let hall = Hall::with_commands().await;
    put(&hall, "data", b"one").await;
    bind(&hall, "r", "-R/data/-/a/b").await;
    assert_eq!(state(&hall, "r").await, (RecipeState::Recipe, String::new()));
    let found = hall.promise("-R/r/-/c").await;
    until_made(&hall, "r").await;
    assert_eq!(state(&hall, "r").await, (RecipeState::Making, String::new()));
    worker(&hall, &["a@1", "b@1", "c@1", "a@2"], echo).await;
    hall.queries.wait(found.job).await.unwrap();
    let ready = status(&hall, "r").await;
    assert_eq!((ready.state, ready.why.as_deref()), (RecipeState::Ready, None));
    assert!(ready.made_at.is_some() && ready.value.is_some_and(|value| value.size > 0));
    // Each change, and what undoes it.
    hall.queries.declare(vec![declared("a", "2", Default::default())]).await.unwrap();
    let stale = |why: &str| (RecipeState::Stale, why.to_owned());
    assert_eq!(state(&hall, "r").await, stale("a has another version: 2, before 1"));
    hall.queries.declare(vec![declared("a", "1", Default::default())]).await.unwrap();
    assert_eq!(state(&hall, "r").await.0, RecipeState::Ready);
    put(&hall, "data", b"two").await;
    assert_eq!(state(&hall, "r").await, stale("the data of data has changed"));
    put(&hall, "data", b"one").await;
    bind(&hall, "r", "-R/data/-/a").await;
    bind(&hall, "r", "-R/data/-/a/c/b").await;
    assert_eq!(state(&hall, "r").await, stale("its recipe has changed"));
    bind(&hall, "r", "-R/data/-/a/b").await;
    put(&hall, "r", b"mine").await;
    let with_data = status(&hall, "r").await;
    assert!(with_data.has_data && with_data.state == RecipeState::Ready);
    hall.queries.remove_source(&key("r")).await.unwrap();
    // What is stored says so after a restart, too.
    put(&hall, "data", b"two").await;
    let hall = hall.restart(Default::default()).await;
    assert_eq!(state(&hall, "r").await, stale("the data of data has changed"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_recipe_whose_step_failed_says_so_until_something_changes() {
    let hall = Hall::with_commands().await;
    worker(&hall, &["a@1", "a@2"], |_| Err(Failure::new("exit_3", "no such column"))).await;
    bind(&hall, "r", "a").await;
    hall.ended("-R/r/-").await;
    until_made(&hall, "r").await;
    assert_eq!(state(&hall, "r").await, (RecipeState::Failed, "exit_3: no such column".to_owned()));
    hall.queries.declare(vec![declared("a", "2", Default::default())]).await.unwrap();
    assert_eq!(state(&hall, "r").await, (RecipeState::Recipe, "it has changed since it failed".to_owned()));
    hall.engine.stop().await;
}
