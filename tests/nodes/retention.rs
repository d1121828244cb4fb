//! The rule for completed jobs of a hall on PostgreSQL: the first start sets it, and later nodes keep what was set.

use serde_json::Value;

use crate::crowd::Crowd;

fn numbers(rule: &Value) -> (Option<u64>, Option<u64>, Option<bool>) {
    (rule["keep_ms"].as_u64(), rule["keep_count"].as_u64(), rule["is_set"].as_bool())
}

#[test]
fn the_first_start_on_a_database_sets_the_rule_and_later_nodes_keep_it() {
    let mut crowd = Crowd::of(2, &[]);
    let show = ["retention", "show"];
    for at in 0..2 {
        let default = (Some(2_592_000_000), Some(1_000_000), Some(true));
        assert_eq!(numbers(&crowd.json(at, &show)), default, "node {at}");
    }
    let set = crowd.run(1, &["retention", "set", "--keep", "forever", "--keep-count", "5"]);
    assert!(set.status.success(), "{}", jobhall_tests::text(&set.stderr));
    crowd.add(&[]);
    for at in 0..3 {
        assert_eq!(numbers(&crowd.json(at, &show)), (None, Some(5), Some(true)), "node {at}");
    }
}
