//! Credit: a session's one number, and vacancies that are withdrawn.

use std::collections::BTreeMap;

use crate::rig::{Hall, job, passed, worker};
use jobhall_core::JobId;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_kernel::{
    Answer, Assignment, Effect, Ended, Noted, OpenedSession, Rejected, Request, SessionId, TypedAnswer,
};

fn credit(hall: &mut Hall, session: SessionId, total: i64) -> Result<Answer, Rejected> {
    hall.ask(Request::Credit { session, total })
}

fn submit(hall: &mut Hall, n: usize) -> Vec<JobId> {
    (0..n).map(|_| hall.submit(job("t")).unwrap().id).collect()
}

fn come_back(hall: &mut Hall, name: &str, held: &[&Assignment]) -> Answer {
    let attempts = held.iter().map(|held| (held.attempt, held.lease)).collect();
    let (abilities, accepts) = (Abilities::default(), Accepts::default());
    hall.ask(Request::OpenSession {
        worker: worker(name),
        abilities,
        accepts,
        attempts,
        lease_ms: None,
        fresh: false,
    })
    .unwrap()
}

#[test]
fn credit_counts_from_the_beginning_and_the_same_word_twice_is_one() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    submit(&mut hall, 9);
    credit(&mut hall, session, 3).unwrap();
    credit(&mut hall, session, 3).unwrap();
    let first = hall.assignments();
    assert_eq!(first.len(), 3, "said twice, meant once");
    hall.report("w", &first[0].1, passed()).unwrap();
    assert_eq!(hall.assignments().len(), 0, "an end gives no credit: only the worker does");
    credit(&mut hall, session, 5).unwrap();
    assert_eq!(hall.assignments().len(), 2);
    credit(&mut hall, session, 4).unwrap();
    assert_eq!(hall.assignments().len(), 0, "a late word that says less than was used takes nothing back");
}

#[test]
fn credit_waits_for_jobs_as_long_as_its_session_is_renewed() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    credit(&mut hall, session, 2).unwrap();
    for _ in 0..5 {
        hall.pass(25_000);
        hall.ask(Request::Renew { session }).unwrap();
    }
    submit(&mut hall, 3);
    assert_eq!(hall.assignments().len(), 2, "no other word was needed");
    hall.pass(31_000);
    assert!(hall.effects.contains(&Effect::SessionEnded(session)));
    assert_eq!(credit(&mut hall, session, 9), Err(Rejected::NoSuchSession));
    submit(&mut hall, 1);
    assert_eq!(hall.assignments().len(), 0, "credit ends with its session");
}

#[test]
fn lowered_credit_withdraws_what_was_not_used_and_keeps_what_is_on_its_way() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    credit(&mut hall, session, 4).unwrap();
    hall.hold = true;
    hall.ask_later(Request::Submit {
        submit: jobhall_kernel::Submit { jobs: vec![job("t")], ..jobhall_kernel::Submit::default() },
    });
    credit(&mut hall, session, 0).unwrap();
    hall.let_through();
    let crossed = hall.assignments();
    assert_eq!(crossed.len(), 1, "what was claimed before the word is still given");
    assert!(hall.accept("w", &crossed[0].1).is_ok(), "and is good");
    submit(&mut hall, 1);
    assert_eq!(hall.assignments().len(), 0);
}

#[test]
fn credit_has_a_bound_and_a_disconnected_session_has_none() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    let refused = credit(&mut hall, session, 10_001).unwrap_err();
    assert_eq!(refused.to_string(), "vacancies of 10001 is outside 0 to 10000");
    credit(&mut hall, session, 10_000).unwrap();
    hall.ask(Request::Disconnect { session }).unwrap();
    submit(&mut hall, 1);
    assert_eq!(hall.assignments().len(), 0);
    assert_eq!(credit(&mut hall, session, 1), Err(Rejected::NoSuchSession));
}

#[test]
fn workers_with_credit_take_turns() {
    let mut hall = Hall::new();
    let sessions: Vec<_> = ["a", "b", "c"].map(|name| hall.worker(name, "")).into();
    for &session in &sessions {
        credit(&mut hall, session, 100).unwrap();
    }
    submit(&mut hall, 30);
    let mut shares: BTreeMap<SessionId, usize> = BTreeMap::new();
    hall.assignments().into_iter().for_each(|(session, _)| *shares.entry(session).or_default() += 1);
    assert_eq!(shares.into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn a_withdrawn_vacancy_gets_nothing_more_and_what_crossed_stays() {
    let mut hall = Hall::new();
    let (session, other) = (hall.worker("w", ""), hall.worker("other", ""));
    let vacancy = hall.vacancy(session, 3);
    hall.hold = true;
    hall.ask_later(Request::Submit {
        submit: jobhall_kernel::Submit { jobs: vec![job("t")], ..jobhall_kernel::Submit::default() },
    });
    let theirs = Request::EndVacancy { session: other, vacancy };
    assert_eq!(hall.ask(theirs), Ok(Answer::Noted(Noted)), "no vacancy of that session");
    hall.ask(Request::EndVacancy { session, vacancy }).unwrap();
    assert!(
        !hall.effects.iter().any(|effect| matches!(effect, Effect::VacancyEnded(..))),
        "one is on its way"
    );
    hall.let_through();
    let crossed = hall.assignments();
    assert_eq!(crossed.len(), 1);
    assert!(hall.effects.contains(&Effect::VacancyEnded(session, vacancy, Ended::Withdrawn)));
    submit(&mut hall, 1);
    assert_eq!(hall.assignments().len(), 0);
    assert!(hall.accept("w", &crossed[0].1).is_ok());
    assert_eq!(
        hall.ask(Request::EndVacancy { session, vacancy }),
        Ok(Answer::Noted(Noted)),
        "again is as good"
    );
    hall.ask(Request::CloseSession { session }).unwrap();
    assert_eq!(hall.ask(Request::EndVacancy { session, vacancy }), Err(Rejected::NoSuchSession));
}

#[test]
fn a_cancel_that_was_told_to_nobody_is_told_when_the_worker_comes_back() {
    let mut hall = Hall::new();
    let id = submit(&mut hall, 1)[0];
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let Answer::Session(OpenedSession { session, kept, .. }) = come_back(&mut hall, "w", &[&held]) else {
        panic!()
    };
    assert_eq!(kept, [held.attempt]);
    hall.ask(Request::Disconnect { session }).unwrap();
    hall.cancel(id).unwrap();
    let attempts = vec![(held.attempt, held.lease)];
    let (abilities, accepts) = (Abilities::default(), Accepts::default());
    let request = Request::OpenSession {
        worker: worker("w"),
        abilities,
        accepts,
        attempts,
        lease_ms: None,
        fresh: false,
    };
    hall.kernel.ask(hall.now, request.typed(u64::MAX));
    let effects = hall.kernel.take_effects();
    let [Effect::Answer(TypedAnswer::Session(_, Ok(OpenedSession { session, .. }))), rest @ ..] =
        effects.as_slice()
    else {
        panic!("the answer comes first, because it makes the session known: {effects:?}")
    };
    assert!(rest.contains(&Effect::Cancel(*session, held.attempt)), "{rest:?}");
}
