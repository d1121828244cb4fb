//! Places that waiting attempts lend: to the jobs they wait for, and to one of them at a time.
//!
//! A chain of jobs on one place uses as much as its heaviest job. The kernel chooses which job is on which place,
//! so a claim is wrong only if no choice has space for it.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{Job, JobId, State};

use super::Checker;

/// With more borrowers, not all assignments are tried.
const TRIED: usize = 8;

/// Which job uses the place of which lender.
type Standing = BTreeMap<JobId, JobId>;

/// Which links from parents to sub-jobs count.
#[derive(Clone, Copy)]
enum Links {
    All,
    /// Those that a restart finds.
    Stored,
}

impl Checker {
    /// Why a job does not fit beside these leased jobs of its bucket, given this capacity. `known` is true if all of
    /// them started under the same limit: if the limit was changed since, they may exceed it.
    ///
    /// A job keeps a lent place when its parent has ended. A restart may not find that: the links of an ended parent
    /// are not stored, only which job it submitted. Both are correct.
    pub(super) fn no_place(&mut self, job: &Job, others: &[Job], most: u64, known: bool) -> Option<String> {
        let stayed = self.no_place_by(job, others, most, known, Links::All)?;
        self.no_place_by(job, others, most, known, Links::Stored).map(|_| stayed)
    }

    fn no_place_by(
        &mut self,
        job: &Job,
        others: &[Job],
        most: u64,
        known: bool,
        links: Links,
    ) -> Option<String> {
        let lenders = self.lenders(job.id, links);
        let lent = lenders.iter().any(|lender| others.iter().any(|other| other.id == *lender));
        let (taken, mut all) = (self.least(others, false, links)?, others.to_vec());
        all.push(job.clone());
        // A job on the only place always fits, whatever its weight.
        let with = self.least(&all, true, links)?;
        if with <= most || taken == 0 || with <= taken {
            if lent {
                self.seen.push(("limits", "claim beside a place that is lent to it"));
            }
            return None;
        }
        if lent && !known {
            return None;
        }
        let who: Vec<_> = all.iter().map(|job| (job.id.get(), job.spec.throttle_factor)).collect();
        Some(format!("weighs {}, and {taken} of {most} are taken: {who:?}", job.spec.throttle_factor))
    }

    /// The minimum weight of these jobs; zero, if `alone` is set, when all are on one place. None if there are too
    /// many assignments.
    fn least(&self, jobs: &[Job], alone: bool, links: Links) -> Option<u64> {
        let there: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        let lenders = |job: &Job| -> Vec<JobId> {
            self.lenders(job.id, links).into_iter().filter(|id| there.contains(id) && *id != job.id).collect()
        };
        let borrowers = jobs.iter().map(|job| (job.id, lenders(job))).filter(|(_, from)| !from.is_empty());
        let borrowers: Vec<_> = borrowers.collect();
        if borrowers.len() > TRIED {
            return None;
        }
        Some(place(&borrowers, &mut Standing::new(), jobs, alone))
    }

    /// The attempts that wait for a job, directly or through others.
    fn lenders(&self, job: JobId, links: Links) -> BTreeSet<JobId> {
        let counts = |parent: &JobId, child: &JobId| match links {
            Links::All => true,
            Links::Stored => self.is_open(*parent) || self.is_open(*child) && self.is_parent(*parent, *child),
        };
        let (mut found, mut next) = (BTreeSet::new(), vec![job]);
        while let Some(id) = next.pop() {
            let asked =
                self.limited.links.iter().filter(|(parent, child)| *child == id && counts(parent, child));
            let behind = self.rows.values().filter(|row| match row.status.state {
                State::Blocked(blocked) => blocked.holder == Some(id) || row.spec.after.contains(&id),
                _ => false,
            });
            let all: Vec<_> = asked.map(|(parent, _)| *parent).chain(behind.map(|row| row.id)).collect();
            next.extend(all.into_iter().filter(|id| found.insert(*id)));
        }
        found.retain(|id| self.waits_for_jobs(*id));
        found
    }

    fn is_open(&self, id: JobId) -> bool {
        self.rows.get(&id).is_some_and(|row| !row.status.state.is_terminal())
    }

    fn is_parent(&self, parent: JobId, child: JobId) -> bool {
        self.rows.get(&child).is_some_and(|row| row.spec.parent == Some(parent))
    }
}

/// The minimum weight of the jobs over all assignments to places.
fn place(borrowers: &[(JobId, Vec<JobId>)], on: &mut Standing, jobs: &[Job], alone: bool) -> u64 {
    let Some(((job, lenders), rest)) = borrowers.split_first() else { return weight(on, jobs, alone) };
    let mut least = place(rest, on, jobs, alone);
    for lender in lenders {
        if !on.contains_key(lender) {
            on.insert(*lender, *job);
            least = least.min(place(rest, on, jobs, alone));
            on.remove(lender);
        }
    }
    least
}

/// The weight of the jobs with this assignment: the heaviest job of each chain.
fn weight(on: &Standing, jobs: &[Job], alone: bool) -> u64 {
    let above: BTreeSet<_> = on.values().collect();
    let of = |id: JobId| jobs.iter().find(|job| job.id == id).map_or(0, |job| job.spec.throttle_factor);
    let lowest: Vec<_> = jobs.iter().map(|job| job.id).filter(|id| !above.contains(id)).collect();
    if alone && lowest.len() == 1 {
        return 0;
    }
    let chain = |id: JobId| std::iter::successors(Some(id), |id| on.get(id).copied()).map(of).max();
    lowest.into_iter().map(|id| u64::from(chain(id).unwrap_or(0))).sum()
}
