//! The first start on a new store.

use jobhall_core::Retention;
use jobhall_kernel::retention_write;
use jobhall_store::{JobFilter, SettingKind, Store, StoreError, Unit};

/// Stores the default rule for completed jobs, if the store is new: it has no rule, and no job was ever stored. Returns
/// the rule if it was stored now. Several nodes may try: only the leader can write, and only one write finds no rule.
///
/// # Errors
/// The store cannot be read, or the rule was not stored.
pub async fn set_first_rule(store: &dyn Store) -> Result<Option<Retention>, StoreError> {
    let has_rule = !store.settings(Some(SettingKind::Retention)).await?.is_empty();
    // A block remains while one of its ids may be used.
    if has_rule || !store.blocks().await?.is_empty() {
        return Ok(None);
    }
    if !store.list(JobFilter::default(), None, 1).await?.jobs.is_empty() {
        return Ok(None);
    }
    let unit = Unit { settings: vec![retention_write(&Retention::DEFAULT, 0)], ..Unit::default() };
    let committed = store.commit(vec![unit]).await.map_err(|error| StoreError::new(error.to_string()))?;
    Ok(committed.results.first().is_some_and(Result::is_ok).then_some(Retention::DEFAULT))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobhall_core::{NewJob, TypeName};
    use jobhall_store::Memory;

    use super::*;
    use crate::{Config, Engine, SystemClock};

    async fn engine(store: &Arc<Memory>) -> Engine {
        Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap()
    }

    #[tokio::test]
    async fn a_new_store_has_the_default_rule_from_its_first_start() {
        let store = Arc::new(Memory::new());
        assert_eq!(set_first_rule(store.as_ref()).await.unwrap(), Some(Retention::DEFAULT));
        assert_eq!(set_first_rule(store.as_ref()).await.unwrap(), None, "it is stored once");
        let engine = engine(&store).await;
        assert_eq!(engine.retention().await.unwrap(), (1, Retention::DEFAULT));
        engine.set_retention(Retention::default(), Some(1)).await.unwrap();
        engine.stop().await;
        assert_eq!(set_first_rule(store.as_ref()).await.unwrap(), None, "a rule without numbers is a rule");
    }

    #[tokio::test]
    async fn a_store_that_has_jobs_keeps_them_until_a_rule_is_set() {
        let store = Arc::new(Memory::new());
        let engine = engine(&store).await;
        engine.submit_one(NewJob::new(TypeName::new("t").unwrap())).await.unwrap();
        engine.stop().await;
        assert_eq!(set_first_rule(store.as_ref()).await.unwrap(), None);
        assert!(store.settings_now().is_empty());
    }
}
