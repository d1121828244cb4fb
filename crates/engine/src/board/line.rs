//! Lines: the classes that suit the same profiles, in the order of their first ready jobs.

use std::collections::{BTreeSet, HashMap};

use super::profile::{ProfileId, Profiles};
use super::{ClassId, Rank};
use crate::ids::IdMap;

/// A line's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(pub(super) u64);

/// Classes that suit the same profiles.
#[derive(Debug)]
pub(super) struct Line {
    /// In order.
    pub suits: Vec<ProfileId>,
    /// How many there are.
    classes: usize,
    /// The first ready job of each class that has one.
    heads: BTreeSet<(Rank, ClassId)>,
}

impl Line {
    /// The first ready job.
    pub(super) fn head(&self) -> Option<Rank> {
        self.heads.first().map(|&(rank, _)| rank)
    }
}

/// All lines, each found by the profiles that suit it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: IdMap<Line>,
    next: u64,
    ids: HashMap<Vec<ProfileId>, LineId>,
}

impl Lines {
    pub(super) fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(&id.0)
    }

    /// Counts one class into the line of these profiles, made now if there is none.
    pub(super) fn enter(&mut self, suits: Vec<ProfileId>) -> LineId {
        let id = match self.ids.get(&suits) {
            Some(&id) => id,
            None => self.add(suits),
        };
        if let Some(line) = self.lines.get_mut(&id.0) {
            line.classes += 1;
        }
        id
    }

    fn add(&mut self, suits: Vec<ProfileId>) -> LineId {
        self.next += 1;
        self.ids.insert(suits.clone(), LineId(self.next));
        self.lines.insert(self.next, Line { suits, classes: 0, heads: BTreeSet::new() });
        LineId(self.next)
    }

    /// Counts one class without ready jobs out of its line.
    pub(super) fn leave(&mut self, id: LineId, profiles: &mut Profiles) {
        let Some(line) = self.lines.get_mut(&id.0) else { return };
        line.classes -= 1;
        if line.classes > 0 {
            return;
        }
        for &profile in &line.suits {
            profiles.forget(profile, id);
        }
        self.ids.remove(&line.suits);
        self.lines.remove(&id.0);
    }

    /// A class has another first ready job, or none.
    pub(super) fn replace(
        &mut self,
        id: LineId,
        class: ClassId,
        from: Option<Rank>,
        to: Option<Rank>,
        profiles: &mut Profiles,
    ) {
        let Some(line) = self.lines.get_mut(&id.0) else { return };
        if let Some(from) = from {
            line.heads.remove(&(from, class));
        }
        let Some(to) = to else { return };
        line.heads.insert((to, class));
        if line.head() == Some(to) {
            for &profile in &line.suits {
                profiles.offer(profile, id, to);
            }
        }
    }

    /// So many classes of a line suit one more profile. If that is all of them, the line does; otherwise they go to a
    /// line of their own, which is told.
    pub(super) fn widen(
        &mut self,
        id: LineId,
        classes: usize,
        profile: ProfileId,
        profiles: &mut Profiles,
    ) -> Option<LineId> {
        let line = self.lines.get_mut(&id.0)?;
        let mut suits = line.suits.clone();
        suits.push(profile);
        suits.sort_unstable();
        if classes < line.classes {
            line.classes -= classes;
            let other = self.add(suits);
            if let Some(line) = self.lines.get_mut(&other.0) {
                line.classes = classes;
            }
            return Some(other);
        }
        self.ids.remove(&line.suits);
        self.ids.insert(suits.clone(), id);
        line.suits = suits;
        if let Some(head) = line.head() {
            profiles.offer(profile, id, head);
        }
        None
    }
}
