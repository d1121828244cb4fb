//! The whole content of a store as text, read through the port. Tests of migrations compare it with a file in the
//! repository.
//!
//! The labels are fixed strings. They do not follow the names of Rust types: renaming a type does not change the
//! file, and renaming a word in the data changes exactly the lines that contain it.

mod jobs;
mod row;

use std::path::Path;

use jobhall_core::{Group, GroupCounts, Job, JobId, Submitted};
use jobhall_store::{
    AuditRow, Block, Conflict, FeedRow, GroupFilter, InboxRow, JobFilter, Link, SettingKind, SettingWrite,
    Store, StoredIdempotencyKey, Unit,
};

use crate::wait;
use row::{Row, joined};

/// Number of rows per read.
const PAGE: usize = 100;

/// Everything that the reads of a store return: settings, groups, jobs with their attempts, links, audit, feed, blocks
/// and the inbox.
pub fn listing(store: &dyn Store) -> String {
    let mut rows = settings(store);
    rows.extend(groups(store));
    rows.extend(jobs::all(store));
    rows.extend(links(store));
    rows.extend(audit(store));
    rows.extend(feed(store));
    rows.extend(blocks(store));
    rows.extend(inbox(store));
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// The answer that is stored under an idempotency key, or none. Nothing is written: the unit is refused either way.
pub fn answer_of(store: &dyn Store, key: &StoredIdempotencyKey) -> Option<Vec<Submitted>> {
    let never = SettingWrite {
        kind: SettingKind::Token,
        name: "a name that no setting has".to_owned(),
        expected: 1,
        value: None,
    };
    let unit = Unit { idempotency_key: Some(key.clone()), settings: vec![never], ..Unit::default() };
    let committed = wait(store.commit(vec![unit])).expect("a commit");
    let refused = committed.results.into_iter().next().and_then(Result::err).expect("a refused unit");
    refused.into_iter().find_map(|conflict| match conflict {
        Conflict::Repeated(answer) => Some(answer),
        _ => None,
    })
}

/// Compares a text with a file; with `UPDATE=1` in the environment it writes the file first.
///
/// # Panics
/// The texts differ. The message contains the first different line.
pub fn assert_golden(path: &Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let differs = golden.lines().zip(text.lines()).position(|(golden, line)| golden != line);
    let at = differs.unwrap_or_else(|| golden.lines().count().min(text.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("the end").to_owned();
    assert!(
        golden == text,
        "{} differs from line {} on (UPDATE=1 rewrites it)\n  file: {}\n  now:  {}",
        path.display(),
        at + 1,
        line(&golden),
        line(text)
    );
}

fn settings(store: &dyn Store) -> Vec<Row> {
    let settings = wait(store.settings(None)).expect("the settings");
    let rows = settings.into_iter().map(|setting| {
        Row::new(format!("setting {} {}", setting.kind.as_str(), setting.name))
            .with("rev", setting.rev)
            .with("value", setting.value)
    });
    rows.collect()
}

fn groups(store: &dyn Store) -> Vec<Row> {
    let mut groups = wait(store.group_page(GroupFilter::default(), None, PAGE)).expect("the groups").groups;
    assert!(groups.len() < PAGE, "a fixture has few groups");
    groups.reverse();
    groups.iter().flat_map(|group| [vec![group_row(group)], members(store, group)].concat()).collect()
}

fn group_row(group: &Group) -> Row {
    Row::new(format!("group {}", group.id))
        .with("rev", group.rev)
        .maybe("name", group.name.as_ref())
        .maybe("owner", group.owner.as_ref())
        .list("tags", &group.tags)
        .maybe("retry_of", group.retry_of)
        .time("created_at", Some(group.created_at))
        .flag("closed", group.closed)
        .failure("cancel", group.cancel.as_ref())
        .time("ended_at", group.end.map(|end| end.at))
        .maybe(
            "verdict",
            group.end.map(|_| group.state(&group.end.map(|end| end.counts).unwrap_or_default())),
        )
        .maybe("counts", group.end.map(|end| counts(&end.counts)))
}

fn counts(counts: &GroupCounts) -> String {
    let GroupCounts { pending, active, succeeded, failed, crashed, cancelled } = counts;
    format!(
        "pending:{pending} active:{active} succeeded:{succeeded} failed:{failed} crashed:{crashed} \
         cancelled:{cancelled}"
    )
}

fn members(store: &dyn Store, group: &Group) -> Vec<Row> {
    let members = wait(store.members(group.id, None, PAGE)).expect("the members");
    let rows = members.into_iter().map(|member| {
        Row::new(format!("  member {}", member.id))
            .with("state", member.state)
            .maybe("copy_of", member.copy_of)
            .flag("attached", member.attached)
    });
    rows.collect()
}

/// The jobs, oldest first.
fn jobs_of(store: &dyn Store) -> Vec<Job> {
    let (mut jobs, mut before) = (Vec::new(), None);
    loop {
        let page = wait(store.list(JobFilter::default(), before, PAGE)).expect("a page of jobs");
        jobs.extend(page.jobs);
        before = page.next;
        if before.is_none() {
            jobs.reverse();
            return jobs;
        }
    }
}

fn links(store: &dyn Store) -> Vec<Row> {
    let links = wait(store.links(None, PAGE)).expect("the links");
    assert!(links.len() < PAGE, "a fixture has few links");
    let row = |link: Link| {
        Row::new(format!("link {}", link.parent))
            .with("call", format!("{:?}", link.call))
            .with("job", link.job)
    };
    links.into_iter().map(row).collect()
}

fn audit(store: &dyn Store) -> Vec<Row> {
    let mut acts = wait(store.audit(None, 10 * PAGE)).expect("the audit");
    assert!(acts.len() < 10 * PAGE, "a fixture has few acts");
    acts.reverse();
    let row = |AuditRow { n, entry }: AuditRow| {
        Row::new(format!("act {n}"))
            .time("at", Some(entry.at))
            .with("who", entry.who)
            .with("act", entry.act)
            .with("subject", entry.subject)
            .with("detail", format!("{:?}", entry.detail))
    };
    acts.into_iter().map(row).collect()
}

fn feed(store: &dyn Store) -> Vec<Row> {
    let page = wait(store.feed(0, 10 * PAGE)).expect("the feed");
    assert!(page.rows.len() < 10 * PAGE, "a fixture has a short feed");
    let row = |row: &FeedRow| {
        let entries = row.entries.iter().map(|entry| format!("{}:{}:{}", entry.id, entry.rev, entry.state));
        Row::new(format!("feed {}", row.n)).time("at", Some(row.at)).with("entries", joined(entries, ","))
    };
    let end = Row::new("feed").with("pruned_to", page.pruned_to);
    page.rows.iter().map(row).chain([end]).collect()
}

fn blocks(store: &dyn Store) -> Vec<Row> {
    let blocks = wait(store.blocks()).expect("the blocks");
    let live = |live: Vec<JobId>| joined(live, ",");
    let row = |block: Block| {
        Row::new(format!("block {}-{}", block.first, block.last)).maybe("live", block.live.map(live))
    };
    blocks.into_iter().map(row).collect()
}

fn inbox(store: &dyn Store) -> Vec<Row> {
    let Some(inbox) = store.inbox() else { return Vec::new() };
    let rows = wait(inbox.rows(PAGE)).expect("the inbox");
    let row = |InboxRow { id, body }: InboxRow| Row::new(format!("inbox {id}")).with("body", body);
    rows.into_iter().map(row).collect()
}
