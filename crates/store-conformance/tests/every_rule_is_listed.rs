//! Each public function of the rule files is in the lists, under its file's name, so that every rule is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jobhall_store_conformance::rules::{DURABLE_RULES, RULES};

#[test]
fn every_rule_is_listed_once() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules");
    let mut written = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split('(').next());
        written.extend(names.map(|name| format!("{module}::{name}")));
    }
    let names = RULES.iter().map(|(name, _)| *name).chain(DURABLE_RULES.iter().map(|(name, _)| *name));
    let listed: Vec<String> = names.map(str::to_owned).collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), written);
    assert_eq!(listed.len(), written.len(), "a rule is listed twice");
}
