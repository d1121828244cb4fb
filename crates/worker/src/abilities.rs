//! What a worker can do: facts detected on the machine, and entries of its configuration file.

use std::collections::BTreeMap;
use std::fs;
use std::thread::available_parallelism;

use jobhall_core::needs::{Abilities, SelectorError};
use jobhall_protocol::{Ability, WorkerFile};

use crate::attempt::filter::PREFIX;
use crate::attempt::filters::Filters;

/// The abilities of this machine and of this file as text; if both define one, the file's is used.
pub fn abilities(file: &WorkerFile, filters: &Filters) -> Result<String, SelectorError> {
    let mut known = detected();
    known.extend(file.abilities.iter().map(|(name, value)| (name.clone(), value.clone())));
    if !filters.is_empty() {
        known.insert("commands".to_owned(), Ability::List(filters.abilities()));
    }
    let terms: Vec<_> = known.iter().filter_map(|(name, value)| term(name, value)).collect();
    Abilities::parse(&terms.join(", ")).map(|abilities| abilities.to_string())
}

/// The name of this machine, converted to a valid worker name.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "worker".to_owned());
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = name.trim().chars().map(fit).take(100).collect();
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) { name } else { format!("host-{name}") }
}

/// The number of CPUs that this process may use.
pub fn cpus() -> u32 {
    available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()).unwrap_or(1)
}

fn detected() -> BTreeMap<String, Ability> {
    let mut found = BTreeMap::from([
        ("os".to_owned(), Ability::Word(std::env::consts::OS.to_owned())),
        ("arch".to_owned(), Ability::Word(std::env::consts::ARCH.to_owned())),
        ("cpus".to_owned(), Ability::Number(i64::from(cpus()))),
        ("hostname".to_owned(), Ability::Word(host_name())),
    ]);
    if let Some(gib) = memory_gib() {
        found.insert("mem_gb".to_owned(), Ability::Number(gib));
    }
    found
}

fn memory_gib() -> Option<i64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / (1 << 20))
}

fn term(name: &str, value: &Ability) -> Option<String> {
    Some(match value {
        Ability::Flag(false) => return None,
        Ability::Flag(true) => name.to_owned(),
        Ability::Number(number) => format!("{name}={number}"),
        Ability::Word(word) => format!("{name}={}", quoted(word)),
        Ability::List(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            format!("{name}=[{}]", words.join(","))
        }
    })
}

fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The types of jobs that a worker with this file runs.
#[must_use]
pub fn types(file: &WorkerFile) -> Vec<String> {
    let allowed = file.allow.iter().map(|allow| allow.job_type().to_owned());
    let commands = file.commands.keys().map(|name| format!("{PREFIX}{name}"));
    file.types.keys().cloned().chain(allowed).chain(commands).collect()
}

/// The jobs that this worker accepts: those of its types, and those that it allows.
pub(crate) fn accepts(file: &WorkerFile) -> String {
    let types = types(file);
    if types.is_empty() {
        "type in (none-configured)".to_owned()
    } else {
        format!("type in ({})", types.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_the_file_are_told_and_the_file_wins() {
        let mut file = WorkerFile::default();
        for (name, value) in [
            ("gpu", Ability::Number(2)),
            ("spot", Ability::Flag(true)),
            ("slow", Ability::Flag(false)),
            ("lang", Ability::List(vec!["rust".to_owned(), "c++".to_owned()])),
            ("os", Ability::Word("plan 9".to_owned())),
        ] {
            file.abilities.insert(name.to_owned(), value);
        }
        let text = abilities(&file, &Filters::default()).unwrap();
        let parsed = Abilities::parse(&text).unwrap();
        for needs in
            ["gpu>=2", "spot", "!slow", "lang=rust", "lang=\"c++\"", "os=\"plan 9\"", "cpus>=1", "mem_gb>=0"]
        {
            let needs = jobhall_core::needs::Needs::parse(needs).unwrap();
            assert!(needs.satisfied_by(&parsed), "{needs} on {text}");
        }
    }

    #[test]
    fn a_wrong_ability_is_refused_with_its_place() {
        let mut file = WorkerFile::default();
        file.abilities.insert("GPU".to_owned(), Ability::Number(1));
        assert!(abilities(&file, &Filters::default()).unwrap_err().to_string().contains("column"));
    }
}
