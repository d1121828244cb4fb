//! Lines: the classes that match the same profiles and have the same demand, in the order of their first ready jobs.
//! If one job of a line does not fit a worker, no other does, so a vacancy skips the whole line.

use std::collections::{BTreeSet, HashMap};

use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{Class, JobId, WorkerName};

use super::profile::{ProfileId, Profiles};
use super::{ClassId, Rank};
use crate::jobs::ids::IdMap;

/// A line's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(pub(super) u64);

/// What a matching worker must meet at the moment of the match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    /// This much of its resources must be free.
    pub uses: Uses,
    /// Its name must meet the terms about it in these needs.
    pub needs: Option<Needs>,
    /// It must not have had this job before; only for a job in a separate class.
    pub apart: Option<JobId>,
}

impl Demand {
    /// The demand of a class, or of one of its jobs that is in a separate class.
    pub fn of(class: &Class, apart: Option<JobId>) -> Demand {
        let needs = Some(&class.needs).filter(|needs| needs.names_worker()).cloned();
        Demand { uses: class.uses.clone(), needs, apart }
    }

    /// Whether it can be met by a worker of this name.
    pub fn admits(&self, worker: &WorkerName) -> bool {
        self.needs.as_ref().is_none_or(|needs| needs.admits(worker))
    }

    /// Whether every matching worker meets it.
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty() && self.needs.is_none() && self.apart.is_none()
    }
}

/// Classes that match the same profiles and have the same demand.
#[derive(Debug)]
pub(crate) struct Line {
    /// In order.
    pub suits: Vec<ProfileId>,
    pub demand: Demand,
    /// Number of classes.
    classes: usize,
    /// The first ready job of each class that has one.
    heads: BTreeSet<(Rank, ClassId)>,
}

impl Line {
    /// A line of these profiles without demand.
    #[cfg(test)]
    pub(crate) fn of(suits: Vec<ProfileId>) -> Line {
        Line { suits, demand: Demand::default(), classes: 0, heads: BTreeSet::new() }
    }

    /// The first ready job.
    pub(super) fn head(&self) -> Option<Rank> {
        self.heads.first().map(|&(rank, _)| rank)
    }
}

/// All lines, found by matching profiles and demand.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: IdMap<LineId, Line>,
    next: u64,
    ids: HashMap<(Vec<ProfileId>, Demand), LineId>,
}

impl Lines {
    pub(super) fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(&id)
    }

    /// Adds a class to the line of these profiles with this demand, creating the line if there is none.
    pub(super) fn enter(&mut self, suits: Vec<ProfileId>, demand: Demand) -> LineId {
        let key = (suits, demand);
        let id = match self.ids.get(&key) {
            Some(&id) => id,
            None => self.add(key),
        };
        if let Some(line) = self.lines.get_mut(&id) {
            line.classes += 1;
        }
        id
    }

    fn add(&mut self, key: (Vec<ProfileId>, Demand)) -> LineId {
        self.next += 1;
        let (suits, demand) = key.clone();
        self.ids.insert(key, LineId(self.next));
        self.lines.insert(LineId(self.next), Line { suits, demand, classes: 0, heads: BTreeSet::new() });
        LineId(self.next)
    }

    /// Removes a class without ready jobs from its line.
    pub(super) fn leave(&mut self, id: LineId, profiles: &mut Profiles) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.classes -= 1;
        if line.classes > 0 {
            return;
        }
        for &profile in &line.suits {
            profiles.forget(profile, id);
        }
        if let Some(line) = self.lines.remove(&id) {
            self.ids.remove(&(line.suits, line.demand));
        }
    }

    /// Updates the first ready job of a class.
    pub(super) fn replace(
        &mut self,
        id: LineId,
        class: ClassId,
        from: Option<Rank>,
        to: Option<Rank>,
        profiles: &mut Profiles,
    ) {
        let Some(line) = self.lines.get_mut(&id) else { return };
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

    /// This many classes of a line match one more profile. If these are all its classes, the line is extended;
    /// otherwise they move to a new line, whose id is returned.
    pub(super) fn widen(
        &mut self,
        id: LineId,
        classes: usize,
        profile: ProfileId,
        profiles: &mut Profiles,
    ) -> Option<LineId> {
        let line = self.lines.get_mut(&id)?;
        let mut suits = line.suits.clone();
        suits.push(profile);
        suits.sort_unstable();
        if classes < line.classes {
            line.classes -= classes;
            let key = (suits, line.demand.clone());
            let other = self.add(key);
            if let Some(line) = self.lines.get_mut(&other) {
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
