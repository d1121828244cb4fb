//! Lists of groups.

use jobhall_core::{Group, GroupId, Owner, Tag};

/// Groups that a store scans for one page of a filtered list.
pub const GROUP_SCAN: usize = 10_000;

/// The filter of a list of groups; a field that is none or false does not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Only groups that have not ended.
    pub open: bool,
    /// The group has this tag.
    pub tag: Option<Tag>,
    pub owner: Option<Owner>,
}

impl GroupFilter {
    /// Every group, or every open one.
    pub fn all(open: bool) -> GroupFilter {
        GroupFilter { open, ..GroupFilter::default() }
    }

    /// Whether the group matches the filter.
    pub fn shows(&self, group: &Group) -> bool {
        (!self.open || group.end.is_none())
            && self.tag.as_ref().is_none_or(|tag| group.tags.contains(tag))
            && self.owner.as_ref().is_none_or(|owner| group.owner.as_ref() == Some(owner))
    }

    /// How many groups, open ones if the filter wants those, are scanned for a page of this size.
    pub fn scan(&self, limit: usize) -> usize {
        let selects = self.tag.is_some() || self.owner.is_some();
        if selects { GROUP_SCAN.max(limit) } else { limit.saturating_add(1) }
    }
}

/// A page of a list of groups, newest id first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPage {
    pub groups: Vec<Group>,
    /// The list continues below this id; none at its end.
    pub next: Option<GroupId>,
}

impl GroupPage {
    /// Cuts a page from scanned groups, newest id first; `all` is whether there are no others below them.
    pub fn cut(scanned: Vec<Group>, all: bool, filter: &GroupFilter, limit: usize) -> GroupPage {
        let (mut groups, mut last): (Vec<Group>, Option<GroupId>) = (Vec::new(), None);
        for group in scanned {
            if groups.len() == limit {
                return GroupPage { groups, next: last };
            }
            last = Some(group.id);
            if filter.shows(&group) {
                groups.push(group);
            }
        }
        GroupPage { groups, next: last.filter(|_| !all) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobhall_core::{Time, bounds};

    fn group(id: u64, tag: Option<&str>) -> Group {
        Group {
            id: GroupId::new(id).unwrap(),
            rev: 1,
            name: None,
            owner: None,
            tags: tag.into_iter().map(|tag| Tag::new(tag).unwrap()).collect(),
            retry_of: None,
            created_at: Time::EPOCH,
            closed: false,
            cancel: None,
            fails: false,
            end: None,
        }
    }

    #[test]
    fn ground_13_a_page_that_is_short_says_where_the_list_continues() {
        let scanned = || vec![group(9, None), group(7, Some("eu")), group(4, None), group(2, Some("eu"))];
        let eu = GroupFilter { tag: Some(Tag::new("eu").unwrap()), ..GroupFilter::default() };
        let cut = |filter: &GroupFilter, all, limit| {
            let page = GroupPage::cut(scanned(), all, filter, limit);
            let ids: Vec<u64> = page.groups.iter().map(|group| group.id.get()).collect();
            (ids, page.next.map(GroupId::get))
        };
        assert_eq!(cut(&eu, true, 9), (vec![7, 2], None));
        assert_eq!(cut(&eu, false, 9), (vec![7, 2], Some(2)));
        assert_eq!(cut(&eu, false, 1), (vec![7], Some(7)));
        assert_eq!(cut(&GroupFilter::default(), false, 3), (vec![9, 7, 4], Some(4)));
        assert_eq!(GroupPage::cut(Vec::new(), true, &eu, 9), GroupPage::default());
        assert!(eu.scan(usize::MAX) > bounds::TAGS && GroupFilter::default().scan(5) == 6);
    }
}
