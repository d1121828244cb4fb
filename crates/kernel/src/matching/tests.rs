//! The fleet without a kernel: sessions, holders, vacancies and the slots of waiting attempts.

use jobhall_core::needs::{Abilities, Accepts, Uses};

use super::*;
use crate::api::effect::Ended;
use crate::api::time::Mono;
use crate::attempts::timing::Timing;
use crate::fixtures::{id, worker};
use crate::matching::board::{Board, ProfileId};

/// A board with two profiles, in order.
fn board() -> (Board, [ProfileId; 2]) {
    let mut board = Board::default();
    let profiles = ["gpu=1", "gpu=2"].map(|abilities| Abilities::parse(abilities).unwrap());
    let profiles = profiles.map(|abilities| board.join(abilities, Accepts::default()));
    (board, profiles)
}

pub(super) fn profiles() -> [ProfileId; 2] {
    let (_, mut profiles) = board();
    profiles.sort_unstable();
    profiles
}

pub(super) fn add_session(fleet: &mut Fleet, session: u64, name: &str, profile: Option<ProfileId>) {
    fleet.add_session(SessionId(session), worker(name), profile, (9, Mono(9)));
}

fn vacancy(total: i64, lent: u64, taken: u64, pending: u64) -> Vacancy {
    let (session, profile, worker) = (SessionId(1), profiles()[0], worker("a"));
    let (turn, until, paused, ended) = (7, None, false, None);
    Vacancy { session, profile, worker, total, lent, taken, pending, turn, until, paused, ended }
}

/// Session 1 of worker a with a credit of this many slots, which is parked, and which holds jobs 1 and 2.
fn with_credit(total: i64) -> (Fleet, Board) {
    let (mut fleet, (mut board, _)) = (Fleet::default(), board());
    add_session(&mut fleet, 1, "a", Some(profiles()[0]));
    fleet.vacancies.insert(VacancyId(3), vacancy(total, 0, 0, 0));
    fleet.sessions.get_mut(&SessionId(1)).unwrap().credit = Some(VacancyId(3));
    for job in [1, 2] {
        let (session, since, check, timing) = (SessionId(1), Mono(0), None, Timing::default());
        fleet.holders.insert(id(job), Hold { session, since, check, timing, allocation: None });
    }
    board.park(profiles()[0], (7, VacancyId(3)));
    (fleet, board)
}

#[test]
fn what_is_taken_and_pending_reduces_the_free_slots_and_lent_slots_increase_them() {
    assert_eq!(vacancy(5, 0, 0, 0).free(), 5);
    assert_eq!(vacancy(5, 0, 2, 1).free(), 2);
    assert_eq!(vacancy(5, 3, 2, 1).free(), 5);
    assert_eq!(vacancy(5, 0, 3, 2).free(), 0);
}

#[test]
fn a_credit_that_was_lowered_below_what_is_taken_has_no_free_slot() {
    assert_eq!(vacancy(1, 0, 2, 1).free(), 0);
    assert_eq!(vacancy(-3, 3, 0, 0).free(), 0);
    assert_eq!(vacancy(-3, 4, 0, 0).free(), 1, "a negative credit counts against lent slots");
    assert_eq!(vacancy(i64::MAX, 9, 0, 0).free(), i64::MAX.unsigned_abs());
    assert_eq!(vacancy(i64::MIN, 0, 1, 0).free(), 0);
}

#[test]
fn a_vacancy_that_has_ended_has_no_free_slot() {
    assert_eq!(Vacancy { ended: Some(Ended::Withdrawn), ..vacancy(5, 1, 0, 0) }.free(), 0);
}

#[test]
fn a_vacancy_is_over_when_it_has_ended_or_is_filled_and_nothing_is_in_flight() {
    let until = Some(Mono(5));
    let filled = |pending| Vacancy { until, ..vacancy(2, 0, 2 - pending, pending) };
    assert_eq!((filled(0).over(), filled(1).over()), (Some(Ended::Filled), None));
    assert_eq!(Vacancy { until, ..vacancy(2, 0, 1, 0) }.over(), None, "a slot is free");
    assert_eq!(vacancy(2, 0, 2, 0).over(), None, "a credit stays");
    let ended = |pending| Vacancy { ended: Some(Ended::Gone), ..vacancy(2, 0, 0, pending) };
    assert_eq!((ended(0).over(), ended(1).over()), (Some(Ended::Gone), None));
}

#[test]
fn a_reserved_slot_is_pending_and_the_last_one_removes_the_vacancy_from_the_board() {
    let (mut fleet, mut board) = with_credit(2);
    fleet.vacancies.get_mut(&VacancyId(3)).unwrap().until = Some(Mono(5));
    let uses = Uses::parse("gpu=1").unwrap();
    let (reserved, name) = fleet.reserve(VacancyId(3), &uses, 9, &mut board).unwrap();
    assert_eq!((reserved.vacancy, reserved.session, name), (VacancyId(3), SessionId(1), worker("a")));
    assert!(reserved.allocation.is_some() && !fleet.worker(&worker("a")).unwrap().taken.is_empty());
    assert_eq!(board.parked(), [VacancyId(3)]);
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().turn, 7, "its turn stays");
    fleet.reserve(VacancyId(3), &uses, 9, &mut board).unwrap();
    assert!(board.parked().is_empty());
    assert!(fleet.reserve(VacancyId(3), &uses, 9, &mut board).is_none());
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().pending, 2);
}

#[test]
fn a_credit_with_free_slots_goes_behind_the_others() {
    let (mut fleet, mut board) = with_credit(3);
    board.park(profiles()[0], (8, VacancyId(4)));
    let first = |board: &Board| board.parked()[0];
    assert_eq!(first(&board), VacancyId(3));
    fleet.reserve(VacancyId(3), &Uses::default(), 9, &mut board).unwrap();
    assert_eq!((first(&board), board.parked().len()), (VacancyId(4), 2));
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().turn, 9);
}

#[test]
fn the_slot_of_a_waiting_attempt_is_lent_until_it_is_taken_back() {
    let (mut fleet, mut board) = with_credit(0);
    [1, 1, 2].into_iter().for_each(|job| fleet.lend_slot(id(job), &mut board));
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().free(), 2, "one slot for each attempt");
    fleet.take_slot(id(1), SessionId(1), &mut board);
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().free(), 1);
    assert_eq!(board.parked(), [VacancyId(3)], "it has a free slot");
    fleet.take_slot(id(2), SessionId(1), &mut board);
    assert!(board.parked().is_empty());
    fleet.lend_slot(id(9), &mut board);
    assert_eq!(fleet.vacancy(VacancyId(3)).unwrap().lent, 0, "no session holds this job");
}

#[test]
fn an_attempt_whose_slot_is_taken_is_not_ready_to_resume() {
    let (mut fleet, mut board) = with_credit(0);
    fleet.session_mut(SessionId(1)).unwrap().ready = [id(1), id(2)].into();
    fleet.take_slot(id(1), SessionId(1), &mut board);
    assert_eq!(fleet.session(SessionId(1)).unwrap().ready, [id(2)]);
}

#[test]
fn the_credit_of_a_holder_is_that_of_its_session() {
    let (mut fleet, _) = with_credit(1);
    assert_eq!(fleet.credit_of_holder(id(1)), Some(VacancyId(3)));
    assert_eq!((fleet.credit_of_holder(id(9)), fleet.holder(id(2))), (None, Some(SessionId(1))));
    fleet.session_mut(SessionId(1)).unwrap().credit = None;
    assert_eq!(fleet.credit_of_holder(id(1)), None);
}

#[test]
fn a_session_without_a_profile_is_that_of_a_lost_worker() {
    let mut fleet = Fleet::default();
    add_session(&mut fleet, 1, "a", Some(profiles()[0]));
    add_session(&mut fleet, 2, "b", None);
    add_session(&mut fleet, 3, "a", None);
    let lost = ["a", "b", "c"].map(|name| fleet.lost_session(&worker(name)));
    assert_eq!(lost, [Some(SessionId(3)), Some(SessionId(2)), None]);
    let connected: Vec<_> = fleet.sessions().map(|session| session.connected).collect();
    assert_eq!(connected, [true, false, false]);
    assert_eq!(fleet.worker(&worker("a")).unwrap().sessions.len(), 2);
}
