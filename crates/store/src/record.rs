//! Records: documents of applications, each guarded by its own rev. The kernel passes them through; it keeps none in
//! memory and puts none into the feed.

use jobhall_core::{GroupId, Key, RecordKind, Time};

/// A page of records ends with the record that makes its values this large.
pub const RECORD_PAGE_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub key: Key,
    /// Incremented by every write, from 1.
    pub rev: u32,
    /// When it was written.
    pub at: Time,
    /// The group that it belongs to.
    pub group: Option<GroupId>,
    /// The content as JSON.
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    pub kind: RecordKind,
    pub key: Key,
    /// The stored rev it was decided on; 0 if the record must not exist.
    pub expected: u32,
    pub at: Time,
    pub group: RecordGroup,
    /// The new content as JSON; none removes the record.
    pub value: Option<String>,
}

impl RecordWrite {
    /// The record after this write; none if it is removed.
    pub(crate) fn result(self, stored: Option<&Record>) -> Option<Record> {
        let RecordWrite { kind, key, expected, at, group, value } = self;
        let group = match group {
            RecordGroup::Keep => stored.and_then(|stored| stored.group),
            RecordGroup::Set(group) => group,
        };
        Some(Record { kind, key, rev: expected + 1, at, group, value: value? })
    }
}

/// The group of a record after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordGroup {
    /// As stored; none for a new record.
    Keep,
    Set(Option<GroupId>),
}

/// The records of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFilter {
    pub kind: RecordKind,
    /// The key begins with this text; all keys if it is empty.
    pub prefix: String,
    /// Only records of this group.
    pub group: Option<GroupId>,
}

impl RecordFilter {
    /// All records of a kind.
    pub fn of(kind: RecordKind) -> RecordFilter {
        RecordFilter { kind, prefix: String::new(), group: None }
    }

    /// The first text after all keys with the prefix; none if there is no such text.
    pub fn end(&self) -> Option<String> {
        let mut chars: Vec<char> = self.prefix.chars().collect();
        while let Some(last) = chars.pop() {
            // The range skips the surrogates, as UTF-8 does.
            if let Some(next) = (last..=char::MAX).nth(1) {
                chars.push(next);
                return Some(chars.into_iter().collect());
            }
        }
        None
    }

    /// Whether a record matches the filter.
    pub fn shows(&self, record: &Record) -> bool {
        record.kind == self.kind
            && record.key.as_str().starts_with(&self.prefix)
            && self.group.is_none_or(|group| record.group == Some(group))
    }
}

/// A page of records in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    pub records: Vec<Record>,
    /// The list continues after this key; none at its end.
    pub next: Option<Key>,
}

impl RecordPage {
    /// Cuts what was found at the number of records and at the size of a page. There may be records after the found
    /// ones only if more than `limit` were found.
    pub fn cut(found: impl IntoIterator<Item = Record>, limit: usize) -> RecordPage {
        let (mut page, mut bytes) = (RecordPage::default(), 0);
        for record in found {
            if page.records.len() >= limit || bytes >= RECORD_PAGE_BYTES {
                page.next = page.records.last().map(|last| last.key.clone());
                break;
            }
            bytes += record.value.len();
            page.records.push(record);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(prefix: &str) -> RecordFilter {
        RecordFilter { prefix: prefix.into(), ..RecordFilter::of(RecordKind::new("q.pin").unwrap()) }
    }

    #[test]
    fn the_end_of_a_prefix_is_the_first_text_after_it() {
        let end = |prefix: &str| filter(prefix).end();
        assert_eq!(end(""), None);
        assert_eq!(end("ab").as_deref(), Some("ac"));
        assert_eq!(end("a\u{7f}").as_deref(), Some("a\u{80}"));
        assert_eq!(end("a\u{d7ff}").as_deref(), Some("a\u{e000}"), "surrogates are no characters");
        assert_eq!(end("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end("\u{10ffff}"), None);
    }

    #[test]
    fn a_page_ends_at_its_limit_or_its_size_and_has_one_record_at_least() {
        let record = |n: usize, bytes: usize| Record {
            kind: RecordKind::new("q.pin").unwrap(),
            key: Key::new(&n.to_string()).unwrap(),
            rev: 1,
            at: Time::EPOCH,
            group: None,
            value: "x".repeat(bytes),
        };
        let cut = |sizes: &[usize], limit: usize| {
            let found = sizes.iter().enumerate().map(|(n, &bytes)| record(n, bytes));
            let page = RecordPage::cut(found, limit);
            (page.records.len(), page.next.map(|key| key.to_string()))
        };
        assert_eq!(cut(&[], 2), (0, None));
        assert_eq!(cut(&[1, 1], 2), (2, None));
        assert_eq!(cut(&[1, 1, 1], 2), (2, Some("1".into())));
        assert_eq!(cut(&[RECORD_PAGE_BYTES, 1], 9), (1, Some("0".into())));
        assert_eq!(cut(&[1, RECORD_PAGE_BYTES, 1], 9), (2, Some("1".into())));
        assert_eq!(cut(&[1, RECORD_PAGE_BYTES], 9), (2, None));
    }
}
