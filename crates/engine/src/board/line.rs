//! Lines: the classes that suit the same profiles and demand the same of a worker at the moment of a match, in the
//! order of their first ready jobs. What fits one job of a line fits the next, so a vacancy skips a line as a whole.

use std::collections::{BTreeSet, HashMap};

use jobhall_core::JobId;
use jobhall_core::needs::Uses;

use super::profile::{ProfileId, Profiles};
use super::{ClassId, Rank};
use crate::ids::IdMap;

/// A line's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(pub(super) u64);

/// What a worker that suits must have besides, now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    /// So much left.
    pub uses: Uses,
    /// Not had this job before; only a job that stands apart has that.
    pub apart: Option<JobId>,
}

impl Demand {
    /// Whether every worker that suits will do.
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty() && self.apart.is_none()
    }
}

/// Classes that suit the same profiles and demand the same.
#[derive(Debug)]
pub(crate) struct Line {
    /// In order.
    pub suits: Vec<ProfileId>,
    pub demand: Demand,
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

/// All lines, each found by the profiles that suit it and by its demand.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: IdMap<Line>,
    next: u64,
    ids: HashMap<(Vec<ProfileId>, Demand), LineId>,
}

impl Lines {
    pub(super) fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(&id.0)
    }

    /// Counts one class into the line of these profiles with this demand, made now if there is none.
    pub(super) fn enter(&mut self, suits: Vec<ProfileId>, demand: Demand) -> LineId {
        let key = (suits, demand);
        let id = match self.ids.get(&key) {
            Some(&id) => id,
            None => self.add(key),
        };
        if let Some(line) = self.lines.get_mut(&id.0) {
            line.classes += 1;
        }
        id
    }

    fn add(&mut self, key: (Vec<ProfileId>, Demand)) -> LineId {
        self.next += 1;
        let (suits, demand) = key.clone();
        self.ids.insert(key, LineId(self.next));
        self.lines.insert(self.next, Line { suits, demand, classes: 0, heads: BTreeSet::new() });
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
        if let Some(line) = self.lines.remove(&id.0) {
            self.ids.remove(&(line.suits, line.demand));
        }
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
            let key = (suits, line.demand.clone());
            let other = self.add(key);
            if let Some(line) = self.lines.get_mut(&other.0) {
                line.classes = classes;
            }
            return Some(other);
        }
        let before = std::mem::replace(&mut line.suits, suits.clone());
        self.ids.remove(&(before, line.demand.clone()));
        self.ids.insert((suits, line.demand.clone()), id);
        if let Some(head) = line.head() {
            profiles.offer(profile, id, head);
        }
        None
    }
}
