//! Job life cycles with many kinds of jobs and many kinds of workers, compared with one kind of each.
//!
//! Both halls have 1,000 vacancies waiting in 100 sessions, so they differ only in the matching: 10,000 classes (100
//! types with 100 requirements, from those that one worker meets to those that all meet) and 100 sets of abilities,
//! or one of each.

use std::time::Duration;

use jobhall_core::needs::{Abilities, Accepts, Needs};
use jobhall_core::{NewJob, TypeName};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::life::{self, Trade, Way};
use crate::setup::Hall;
use crate::{Failed, Options};

const TYPES: usize = 100;
/// Number of sets of abilities, and of requirements.
const SETS: usize = 100;
const VACANCIES_EACH: usize = 10;
const ZONES: usize = 10;

/// Measures both in turns.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for turn in 0..options.alternations {
        for (name, trade, found) in [("one", one_kind()?, &mut one), ("many", many_kinds()?, &mut many)] {
            let mut hall = Hall::open(options, &format!("{name}-{turn}"), 0).await?;
            found.push(life::measure_trade(&mut hall, options, Way::HandedOver, trade).await?);
            hall.engine.stop().await;
            drop(hall);
            sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(json!({ "one": one, "many": many }))
}

fn one_kind() -> Result<Trade, Failed> {
    let worker = (Abilities::parse(&abilities(0))?, Accepts::default());
    let job = NewJob { needs: Needs::parse("os=linux, gpu>=0")?, ..life::noop()? };
    Ok(Trade { jobs: vec![job], workers: vec![worker; SETS], kept_open: VACANCIES_EACH })
}

fn many_kinds() -> Result<Trade, Failed> {
    let mut jobs = Vec::new();
    for set in 0..SETS {
        for number in 0..TYPES {
            let job_type = TypeName::new(&format!("noop-{number}"))?;
            jobs.push(NewJob { job_type, needs: Needs::parse(&needs(set))?, ..life::noop()? });
        }
    }
    let worker = |set| Ok((Abilities::parse(&abilities(set))?, Accepts::default()));
    let workers = (0..SETS).map(worker).collect::<Result<_, Failed>>()?;
    Ok(Trade { jobs, workers, kept_open: VACANCIES_EACH })
}

fn abilities(set: usize) -> String {
    format!("os=linux, zone=z{}, gpu={}", set / ZONES, set % ZONES)
}

/// Half of them name a zone and match one to ten workers; the other half exclude one and match up to ninety.
fn needs(set: usize) -> String {
    let (zone, gpu) = (set / ZONES, set % ZONES);
    let asked = if set.is_multiple_of(2) { "=" } else { "!=" };
    format!("os=linux, zone{asked}z{zone}, gpu>={gpu}")
}
