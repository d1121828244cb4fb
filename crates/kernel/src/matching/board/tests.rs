//! The board against a model that looks at everything every time.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::needs::{Abilities, Accepts, Needs, Uses};
use jobhall_core::{Class, JobId, QueueName, Time, TypeName};
use proptest::prelude::{ProptestConfig, any, proptest};

use super::{Board, ClassId, Place, ProfileId, Rank};
use crate::api::effect::VacancyId;

const KINDS: u64 = 24;
const SETS: u64 = 12;

/// What the board should know, as plain lists.
#[derive(Default)]
struct Model {
    board: Board,
    jobs: BTreeMap<Rank, (u64, ClassId)>,
    sessions: Vec<(u64, ProfileId)>,
    parked: BTreeSet<(Place, u64)>,
    counter: u64,
}

fn class(kind: u64) -> Class {
    let needs = ["", "os=linux", "gpu>=1", "os=linux, gpu>=2", "zone in (a,b)", "!spot"];
    Class {
        queue: QueueName::new(&format!("q{}", kind % 2)).unwrap(),
        job_type: TypeName::new(&format!("t{}", kind % 3)).unwrap(),
        needs: Needs::parse(needs[usize::try_from(kind % 6).unwrap()]).unwrap(),
        uses: Uses::parse(["", "gpu=1", "", "gpu=3"][usize::try_from(kind % 4).unwrap()]).unwrap(),
    }
}

fn offer(set: u64) -> (Abilities, Accepts) {
    let abilities = ["", "os=linux, gpu=1", "os=mac, gpu=2, zone=a", "os=linux, gpu=4, zone=b, spot"];
    let accepts = ["", "type=t1", "queue!=q0"];
    let abilities = abilities[usize::try_from(set % 4).unwrap()];
    let accepts = accepts[usize::try_from(set % 3).unwrap()];
    (Abilities::parse(abilities).unwrap(), Accepts::parse(accepts).unwrap())
}

fn suits(kind: u64, set: u64) -> bool {
    let (abilities, accepts) = offer(set);
    class(kind).suits(&abilities, &accepts)
}

impl Model {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn step(&mut self, choice: u64, number: u64) {
        match choice % 12 {
            0..=4 => self.add_job(number),
            5 | 6 => self.remove_job(number),
            7 => {
                let (abilities, accepts) = offer(number % SETS);
                let profile = self.board.join(abilities, accepts);
                self.sessions.push((number % SETS, profile));
            }
            8 => self.end_session(number),
            9 => self.park(number),
            10 => self.unpark(number),
            _ if number.is_multiple_of(2) => self.board.sweep_profiles(),
            _ => self.board.sweep_classes(),
        }
    }

    fn add_job(&mut self, number: u64) {
        let (kind, id) = (number % KINDS, self.next());
        let (mut class, _) = self.board.enter(&class(kind));
        if number.is_multiple_of(5) {
            class = self.board.stand_apart(class, JobId::new(id).unwrap()).unwrap();
        }
        let priority = i32::try_from(number % 3).unwrap();
        let rank = Rank { priority, run_at: Time::EPOCH.plus_ms(number % 5), id: JobId::new(id).unwrap() };
        self.board.ready(class, rank);
        self.jobs.insert(rank, (kind, class));
    }

    /// One from anywhere, as by a cancel.
    fn remove_job(&mut self, number: u64) {
        let Some(at) = number.checked_rem(self.jobs.len() as u64) else { return };
        let Some(rank) = self.jobs.keys().nth(usize::try_from(at).unwrap()).copied() else { return };
        let (_, class) = self.jobs.remove(&rank).unwrap();
        self.board.unready(class, rank);
        self.board.leave(class);
    }

    fn session(&self, number: u64) -> Option<usize> {
        number.checked_rem(self.sessions.len() as u64).map(|at| usize::try_from(at).unwrap())
    }

    fn end_session(&mut self, number: u64) {
        let Some(at) = self.session(number) else { return };
        let (set, profile) = self.sessions.swap_remove(at);
        if self.sessions.iter().all(|(other, _)| *other != set) {
            for (place, _) in self.parked.extract_if(.., |(_, of)| *of == set) {
                self.board.unpark(profile, place);
            }
        }
        self.board.part(profile);
    }

    fn park(&mut self, number: u64) {
        let Some(at) = self.session(number) else { return };
        let (set, profile) = self.sessions[at];
        let place = (self.next(), VacancyId(self.counter));
        self.board.park(profile, place);
        self.parked.insert((place, set));
    }

    fn unpark(&mut self, number: u64) {
        let Some(at) = number.checked_rem(self.parked.len() as u64) else { return };
        let found = self.parked.iter().nth(usize::try_from(at).unwrap()).copied().unwrap();
        let ((place, set), profile) =
            (found, self.sessions.iter().find(|(set, _)| *set == found.1).unwrap().1);
        self.parked.remove(&(place, set));
        self.board.unpark(profile, place);
    }

    /// If `full`, no worker has a free GPU.
    fn check(&mut self, full: bool) {
        let left = |kind: u64| !full || class(kind).uses.is_empty();
        for &(set, profile) in &self.sessions {
            let fits = |kind| suits(kind, set) && left(kind);
            let best = self.jobs.iter().find(|(_, (kind, _))| fits(*kind)).map(|(rank, _)| *rank);
            let found = self.board.best(profile, |_, line, _| !full || line.demand.uses.is_empty());
            assert_eq!(found, best, "the first job that matches");
        }
        for &(kind, class) in self.jobs.values() {
            let fits = |(_, set): &&(Place, u64)| suits(kind, *set) && left(kind);
            let vacancy = self.parked.iter().find(fits).map(|((_, id), _)| *id);
            let found = self.board.vacancy_for(class, |_, line, _| !full || line.demand.uses.is_empty());
            assert_eq!(found, vacancy, "the vacancy that waited longest");
            let head = self.jobs.iter().find(|(_, job)| job.1 == class).map(|(rank, _)| *rank);
            assert_eq!(self.board.head(class), head);
        }
        let parked: BTreeSet<_> = self.board.parked().into_iter().collect();
        assert_eq!(parked, self.parked.iter().map(|((_, id), _)| *id).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn l16_the_board_finds_what_looking_at_everything_finds(steps in proptest::collection::vec(any::<(u64, u64)>(), 1..120)) {
        let mut model = Model::default();
        for (choice, number) in steps {
            model.step(choice, number);
            model.check(choice.is_multiple_of(2));
        }
    }
}
