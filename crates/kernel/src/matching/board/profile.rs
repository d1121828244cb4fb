//! Profiles: sets of workers with the same matches, their parked vacancies, and their matching lines.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use jobhall_core::Class;
use jobhall_core::needs::{Abilities, Accepts};

use super::Rank;
use super::line::{Line, LineId, Lines};
use crate::api::effect::VacancyId;
use crate::jobs::ids::IdMap;

/// Maximum number of unused profiles kept, so that they need not be compared again.
const IDLE: usize = 1_024;

/// A set of workers with the same matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProfileId(usize);

/// The position of a parked vacancy: the lowest turn is next.
pub(crate) type Place = (u64, VacancyId);

/// Workers with equal abilities and accepts.
#[derive(Debug)]
pub(super) struct Profile {
    pub abilities: Abilities,
    pub accepts: Accepts,
    sessions: usize,
    /// Lower bounds of the heads of matching lines.
    order: BTreeSet<(Rank, LineId)>,
    /// The same by line.
    bounds: IdMap<LineId, Rank>,
    /// Parked vacancies, longest waiting first.
    parked: BTreeSet<Place>,
}

impl Profile {
    fn new(abilities: Abilities, accepts: Accepts) -> Profile {
        let (order, bounds, parked) = (BTreeSet::new(), IdMap::default(), BTreeSet::new());
        Profile { abilities, accepts, sessions: 0, order, bounds, parked }
    }

    fn offer(&mut self, line: LineId, rank: Rank) {
        match self.bounds.get(&line).copied() {
            Some(known) if known <= rank => {}
            known => self.set(line, known, Some(rank)),
        }
    }

    fn set(&mut self, line: LineId, from: Option<Rank>, to: Option<Rank>) {
        if let Some(from) = from {
            self.order.remove(&(from, line));
        }
        match to {
            Some(to) => {
                self.order.insert((to, line));
                self.bounds.insert(line, to);
            }
            None => {
                self.bounds.remove(&line);
            }
        }
    }

    /// The first ready job of all matching lines whose demand is met; each line is examined at most once.
    pub(super) fn best(
        &mut self,
        lines: &Lines,
        admits: impl Fn(&Abilities, &Line, Rank) -> bool,
    ) -> Option<Rank> {
        let mut from = Bound::Unbounded;
        loop {
            let &(rank, id) = self.order.range((from, Bound::Unbounded)).next()?;
            let line = lines.get(id).filter(|line| line.head() == Some(rank));
            let Some(line) = line else {
                // The line's head has moved back, or the line has no ready job.
                self.set(id, Some(rank), lines.get(id).and_then(Line::head));
                continue;
            };
            if line.demand.is_empty() || admits(&self.abilities, line, rank) {
                return Some(rank);
            }
            from = Bound::Excluded((rank, id));
        }
    }

    /// The vacancy that has waited longest among those that meet the demand of a line.
    fn longest_parked(
        &self,
        line: &Line,
        meets: impl Fn(&Abilities, &Line, VacancyId) -> bool,
    ) -> Option<Place> {
        self.parked.iter().copied().find(|&(_, vacancy)| meets(&self.abilities, line, vacancy))
    }
}

/// All profiles.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    places: Vec<Option<Profile>>,
    /// By profile, the turn of the vacancy that has waited longest, or the maximum if none is parked; a new job is
    /// checked against these first.
    turns: Vec<u64>,
    free: Vec<usize>,
    ids: HashMap<(Abilities, Accepts), ProfileId>,
    idle: usize,
}

impl Profiles {
    pub(super) fn get(&self, ProfileId(at): ProfileId) -> Option<&Profile> {
        self.places.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, ProfileId(at): ProfileId) -> Option<&mut Profile> {
        self.places.get_mut(at)?.as_mut()
    }

    fn all(&self) -> impl Iterator<Item = (ProfileId, &Profile)> {
        self.places.iter().enumerate().filter_map(|(at, profile)| Some((ProfileId(at), profile.as_ref()?)))
    }

    /// The profiles that match a class, in order.
    pub(super) fn suiting(&self, class: &Class) -> Vec<ProfileId> {
        let suits = self.all().filter(|(_, profile)| class.suits(&profile.abilities, &profile.accepts));
        suits.map(|(id, _)| id).collect()
    }

    /// Adds a session; returns whether its profile was unused before.
    pub(super) fn join(&mut self, abilities: Abilities, accepts: Accepts) -> (ProfileId, bool) {
        let key = (abilities, accepts);
        let known = self.ids.get(&key).copied();
        let id = known.unwrap_or_else(|| self.add(key));
        let mut woken = false;
        if let Some(profile) = self.get_mut(id) {
            woken = profile.sessions == 0 && known.is_some();
            profile.sessions += 1;
        }
        self.idle -= usize::from(woken);
        (id, known.is_none())
    }

    fn add(&mut self, key: (Abilities, Accepts)) -> ProfileId {
        let at = self.free.pop().unwrap_or(self.places.len());
        if at == self.places.len() {
            self.places.push(None);
            self.turns.push(u64::MAX);
        }
        let (abilities, accepts) = key.clone();
        self.places[at] = Some(Profile::new(abilities, accepts));
        self.ids.insert(key, ProfileId(at));
        ProfileId(at)
    }

    /// Removes a session; returns whether enough profiles are unused to sweep them.
    pub(super) fn part(&mut self, id: ProfileId) -> bool {
        let Some(profile) = self.get_mut(id) else { return false };
        profile.sessions -= 1;
        let idle = profile.sessions == 0;
        self.idle += usize::from(idle);
        self.idle > IDLE
    }

    /// Removes unused profiles, and clears the line order of the others.
    pub(super) fn sweep(&mut self) {
        for at in 0..self.places.len() {
            let Some(profile) = &mut self.places[at] else { continue };
            profile.order.clear();
            profile.bounds.clear();
            if profile.sessions == 0 {
                self.places[at] = None;
                self.free.push(at);
            }
        }
        let places = &self.places;
        self.ids.retain(|_, id| places[id.0].is_some());
        self.idle = 0;
    }

    /// A line has a new head, which precedes its previous one.
    pub(super) fn offer(&mut self, id: ProfileId, line: LineId, rank: Rank) {
        if let Some(profile) = self.get_mut(id) {
            profile.offer(line, rank);
        }
    }

    /// Removes a line.
    pub(super) fn forget(&mut self, id: ProfileId, line: LineId) {
        if let Some(profile) = self.get_mut(id) {
            let known = profile.bounds.get(&line).copied();
            profile.set(line, known, None);
        }
    }

    /// Parks a vacancy.
    pub(super) fn park(&mut self, id: ProfileId, place: Place) {
        if let Some(profile) = self.get_mut(id) {
            profile.parked.insert(place);
        }
        self.note_turn(id);
    }

    /// Removes a parked vacancy.
    pub(super) fn unpark(&mut self, id: ProfileId, place: Place) {
        if let Some(profile) = self.get_mut(id) {
            profile.parked.remove(&place);
        }
        self.note_turn(id);
    }

    fn note_turn(&mut self, id: ProfileId) {
        let first = self.get(id).and_then(|profile| profile.parked.first());
        let turn = first.map_or(u64::MAX, |&(turn, _)| turn);
        if let Some(known) = self.turns.get_mut(id.0) {
            *known = turn;
        }
    }

    /// The vacancy that has waited longest among those that match a line and meet its demand.
    pub(super) fn longest_parked(
        &self,
        line: &Line,
        meets: impl Fn(&Abilities, &Line, VacancyId) -> bool + Copy,
    ) -> Option<VacancyId> {
        if line.demand.is_empty() {
            let first = line.suits.iter().copied().min_by_key(|id| self.turns[id.0])?;
            return self.get(first)?.parked.first().map(|&(_, vacancy)| vacancy);
        }
        let profiles = line.suits.iter().filter_map(|&id| self.get(id));
        profiles.filter_map(|profile| profile.longest_parked(line, meets)).min().map(|(_, vacancy)| vacancy)
    }

    /// All parked vacancies, longest waiting first within each profile.
    pub(super) fn parked(&self) -> impl Iterator<Item = VacancyId> {
        self.all().flat_map(|(_, profile)| profile.parked.iter().map(|&(_, vacancy)| vacancy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_unused_after_its_last_session() {
        let mut profiles = Profiles::default();
        let abilities = || Abilities::parse("gpu=2").unwrap();
        let (one, new) = profiles.join(abilities(), Accepts::default());
        let (same, again) = profiles.join(abilities(), Accepts::default());
        assert_eq!((one, new, again), (same, true, false));
        profiles.part(one);
        assert_eq!(profiles.idle, 0, "another session has it");
        profiles.part(one);
        assert_eq!(profiles.idle, 1);
        profiles.join(abilities(), Accepts::default());
        assert_eq!(profiles.idle, 0, "it is used again");
        profiles.part(one);
        profiles.sweep();
        assert!(profiles.get(one).is_none(), "an unused profile is removed");
    }
}
