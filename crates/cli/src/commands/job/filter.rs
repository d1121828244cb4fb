//! Command-line options that select jobs.

use clap::Args;
use jobhall_client::JobFilter;
use jobhall_core::StateName;
use jobhall_protocol::Timestamp;

use crate::failure::{Failure, Outcome};
use crate::suggest;

/// Options that select jobs.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Only in these states; also `pending` and `completed`
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Only of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub job_type: Option<String>,
    /// Only with this key
    #[arg(long)]
    pub key: Option<String>,
    /// Only in this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Only of this group
    #[arg(long, value_name = "ID")]
    pub group: Option<u64>,
    /// Only of this owner
    #[arg(long)]
    pub owner: Option<String>,
    /// Only with this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Only with this text in type, key, params or error
    #[arg(long = "q", value_name = "TEXT")]
    pub q: Option<String>,
    /// Only submitted at or after this time, such as 2026-11-15T09:43:00Z
    #[arg(long, value_name = "TIME")]
    pub created_after: Option<Timestamp>,
    /// Only submitted before this time
    #[arg(long, value_name = "TIME")]
    pub created_before: Option<Timestamp>,
}

impl FilterArgs {
    /// The states given with `--state`; none without it.
    pub fn states(&self) -> Outcome<Vec<String>> {
        let mut states = Vec::new();
        for word in &self.state {
            states.extend(states_of(word)?);
        }
        Ok(states)
    }

    pub fn filter(&self, states: Vec<String>, limit: Option<u32>) -> JobFilter {
        let FilterArgs { job_type, key, queue, group, owner, tag, q, created_after, created_before, .. } =
            self.clone();
        JobFilter { states, job_type, key, queue, group, owner, tag, q, created_after, created_before, limit }
    }

    /// Whether an option besides the type restricts the filter.
    pub fn narrows(&self) -> bool {
        let FilterArgs { state, key, queue, group, owner, tag, q, created_after, created_before, .. } = self;
        !state.is_empty()
            || group.is_some()
            || owner.is_some()
            || tag.is_some()
            || key.is_some()
            || queue.is_some()
            || q.is_some()
            || created_after.is_some()
            || created_before.is_some()
    }
}

/// The names of the matching states.
pub fn named(wanted: impl Fn(StateName) -> bool) -> Vec<String> {
    StateName::ALL.into_iter().filter(|name| wanted(*name)).map(|name| name.to_string()).collect()
}

fn states_of(word: &str) -> Outcome<Vec<String>> {
    match word {
        "pending" => return Ok(named(|name| !name.is_terminal())),
        "completed" => return Ok(named(StateName::is_terminal)),
        _ => {}
    }
    let names = StateName::ALL.map(StateName::as_str);
    if names.contains(&word) {
        return Ok(vec![word.to_owned()]);
    }
    let hint = suggest::hint(word, names.into_iter().chain(["pending", "completed"]));
    Err(Failure::usage(format!("there is no state {word:?}{hint}"))
        .fix(format!("states: {}, pending, completed", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_checked_with_a_suggestion() {
        assert_eq!(states_of("running").unwrap(), ["running"]);
        assert_eq!(states_of("completed").unwrap(), ["succeeded", "failed", "crashed", "cancelled"]);
        assert_eq!(states_of("pending").unwrap().len(), 8);
        let failure = states_of("runing").unwrap_err();
        assert_eq!(failure.what, "there is no state \"runing\"; did you mean \"running\"?");
    }
}
