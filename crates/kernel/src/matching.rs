//! Matching ready jobs to vacancies: the board of classes and profiles, and the fleet of workers.

pub(crate) mod avoid;
pub(crate) mod board;
pub(crate) mod credit;
pub(crate) mod pause;
pub(crate) mod resources;
pub(crate) mod session;
#[cfg(test)]
mod tests;
pub(crate) mod vacancy;

use std::collections::BTreeMap;

use jobhall_core::{JobId, WorkerName};

use crate::api::effect::{SessionId, VacancyId};
use crate::jobs::ids::IdMap;
use avoid::Avoids;
use pause::WorkerConfig;
use resources::WorkerState;
use session::{Hold, SessionState};
use vacancy::Vacancy;

/// The workers: their sessions, what they hold, offer and use.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    sessions: BTreeMap<SessionId, SessionState>,
    /// By job: the session that holds its live attempt.
    holders: IdMap<JobId, Hold>,
    vacancies: BTreeMap<VacancyId, Vacancy>,
    workers: BTreeMap<WorkerName, WorkerState>,
    /// What operators have ordered of workers, with the revisions of these settings.
    configs: BTreeMap<WorkerName, (u32, WorkerConfig)>,
    /// By job: the worker that is reserved for it.
    reservations: IdMap<JobId, WorkerName>,
    /// By job: the workers that it avoids.
    avoids: IdMap<JobId, Avoids>,
}

impl Fleet {
    pub fn session(&self, id: SessionId) -> Option<&SessionState> {
        self.sessions.get(&id)
    }

    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut SessionState> {
        self.sessions.get_mut(&id)
    }

    pub fn sessions(&self) -> impl Iterator<Item = &SessionState> {
        self.sessions.values()
    }

    /// The session that holds the live attempt of a job.
    pub fn holder(&self, job: JobId) -> Option<SessionId> {
        self.holders.get(&job).map(|hold| hold.session)
    }

    /// How the live attempt of a job is held.
    pub fn hold(&self, job: JobId) -> Option<&Hold> {
        self.holders.get(&job)
    }

    pub fn hold_mut(&mut self, job: JobId) -> Option<&mut Hold> {
        self.holders.get_mut(&job)
    }

    pub fn vacancy(&self, id: VacancyId) -> Option<&Vacancy> {
        self.vacancies.get(&id)
    }

    pub fn vacancy_mut(&mut self, id: VacancyId) -> Option<&mut Vacancy> {
        self.vacancies.get_mut(&id)
    }

    pub fn vacancies(&self) -> impl Iterator<Item = &Vacancy> {
        self.vacancies.values()
    }

    /// The vacancy that represents the credit of the session that holds a job.
    pub fn credit_of_holder(&self, job: JobId) -> Option<VacancyId> {
        self.session(self.holder(job)?)?.credit
    }

    pub fn worker(&self, name: &WorkerName) -> Option<&WorkerState> {
        self.workers.get(name)
    }

    /// The worker that is reserved for a job.
    pub fn reserved_for(&self, job: JobId) -> Option<&WorkerName> {
        self.reservations.get(&job)
    }
}
