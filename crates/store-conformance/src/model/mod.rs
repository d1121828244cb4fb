//! The model-based test: random operations on the store and on the reference, with equal answers after each and
//! equal states at intervals.
//!
//! An **operation** is one unit of a commit, or one call of another kind. A run has many sequences of moderate
//! length, each on an empty store and each with its own seed, so that a failure shrinks fast and can be reproduced
//! alone: `JOBHALL_SEED` sets the seed of the first sequence, `JOBHALL_OPERATIONS` the minimum number of
//! operations. Without them every run is the same.

mod call;
mod events;
mod histogram;
mod maker;
mod operation;
mod reference;
mod related;

use std::cell::RefCell;
use std::env;
use std::sync::atomic::Ordering;

use proptest::test_runner::{
    Config, RngAlgorithm, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner,
};
use proptest_state_machine::ReferenceStateMachine;

pub use call::{Answer, Call, Picture, picture};
pub use histogram::Histogram;

use crate::Fixture;
use call::ask;
use operation::Operation;
use reference::{Model, Reference, Turn};

/// The default number of operations in a run.
pub const OPERATIONS: u64 = 100_000;

/// Number of calls in one sequence.
const SEQUENCE: std::ops::RangeInclusive<usize> = 60..=140;
/// Number of calls between two comparisons of all data.
const PICTURE_EVERY: usize = 50;

fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
}

/// Runs the model test, prints its histogram and judges it.
///
/// # Panics
/// If store and reference differ, or the run has not covered everything that it should.
pub fn agrees(open: impl Fn() -> Fixture) {
    agrees_over(OPERATIONS, open);
}

/// The same with this default number of operations: for a store with a high latency.
///
/// # Panics
/// If store and reference differ, or the run has not covered everything that it should.
pub fn agrees_over(operations: u64, open: impl Fn() -> Fixture) {
    let (operations, seed) = (number("JOBHALL_OPERATIONS", operations), number("JOBHALL_SEED", 0));
    let histogram = compare(open, operations, seed).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{histogram}");
    let gaps = histogram.gaps();
    assert!(gaps.is_empty(), "the run has not seen enough of {gaps:?}\n{histogram}");
}

/// Compares a store with the reference over at least this many operations.
///
/// # Errors
/// The first difference, with its seed and the shortest sequence that shows it.
pub fn compare(open: impl Fn() -> Fixture, operations: u64, first_seed: u64) -> Result<Histogram, String> {
    let histogram = RefCell::new(Histogram::default());
    for seed in first_seed.. {
        if histogram.borrow().operations() >= operations {
            break;
        }
        sequence(&open, seed, &histogram)?;
    }
    Ok(histogram.into_inner())
}

fn sequence(open: &impl Fn() -> Fixture, seed: u64, histogram: &RefCell<Histogram>) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = Reference::sequential_strategy(SEQUENCE);
    let run = runner.run(&strategy, |(model, operations, seen)| {
        let mut fixture = open();
        // Only the first run of a sequence is counted; in the others proptest shrinks.
        let Some(seen) = seen else { return follow(&mut fixture, model, &operations, |_, _| {}) };
        follow(&mut fixture, model, &operations, |turn, done| {
            seen.fetch_add(1, Ordering::SeqCst);
            if done {
                histogram.borrow_mut().add(turn);
            }
        })?;
        histogram.borrow_mut().end_sequence();
        Ok(())
    });
    run.map_err(|error| match error {
        TestError::Fail(reason, (_, operations, _)) => {
            let lines: Vec<String> = operations.iter().map(|operation| format!("  {operation:?}")).collect();
            let shortest = lines.join("\n");
            format!("store and reference differ, JOBHALL_SEED={seed}\n{reason}\nafter\n{shortest}")
        }
        TestError::Abort(reason) => format!("the sequence could not be made, JOBHALL_SEED={seed}: {reason}"),
    })
}

/// Executes the operations on both and compares. A store that is not durable skips reopening.
fn follow(
    fixture: &mut Fixture,
    mut model: Model,
    operations: &[Operation],
    seen: impl Fn(&Turn, bool),
) -> TestCaseResult {
    for (n, operation) in operations.iter().enumerate() {
        model = Reference::apply(model, operation);
        let turn = model.turn.as_ref().expect("an operation was applied");
        let reopening = matches!(turn.call, Call::Reopen);
        let reopened = reopening && fixture.reopen();
        seen(turn, reopened || !reopening);
        let answer = ask(fixture.store(), turn.call.clone());
        if answer != turn.answer {
            let Turn { call, answer: expected, .. } = turn;
            return Err(TestCaseError::fail(format!("{call:?}\ngave {answer:?}\nnot  {expected:?}")));
        }
        if reopened || n % PICTURE_EVERY == PICTURE_EVERY - 1 {
            same_picture(fixture, &model)?;
        }
    }
    same_picture(fixture, &model)
}

fn same_picture(fixture: &Fixture, model: &Model) -> TestCaseResult {
    let stored = picture(fixture.store(), model.last_id());
    match stored.difference(&picture(model.store(), model.last_id())) {
        Some(difference) => Err(TestCaseError::fail(difference)),
        None => Ok(()),
    }
}
