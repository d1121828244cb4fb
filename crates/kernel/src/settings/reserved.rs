//! Types of applications: users cannot create their jobs, edit more than when they run, or retry them unless the
//! application allows it. Jobs that are already stored run as they are.

use jobhall_core::needs::{JOB_BOUNDS, Needs, RESERVED_BOUNDS};
use jobhall_core::{Application, NewJob, TypeName};

use super::Settings;
use crate::api::answer::Rejected;
use crate::submit::{bound, check_job};

impl Settings {
    /// Checks that jobs of this type may be created by this application, or by a user.
    pub fn check_type(&self, by: Option<Application>, job_type: &TypeName) -> Result<(), Rejected> {
        match self.reserved.forbids(by, job_type) {
            None => Ok(()),
            Some(found) => {
                let (job_type, prefix) = (job_type.clone(), found.application.0);
                Err(Rejected::Reserved { job_type, prefix, instead: None })
            }
        }
    }

    /// Checks that a user may repeat a job of this type.
    pub fn check_retry(&self, job_type: &TypeName) -> Result<(), Rejected> {
        match self.reserved.of(job_type) {
            Some(found) if found.retry_with.is_some() => {
                let (job_type, prefix) = (job_type.clone(), found.application.0);
                Err(Rejected::Reserved { job_type, prefix, instead: found.retry_with })
            }
            _ => Ok(()),
        }
    }

    /// Rejects a job with values out of bounds.
    pub fn check_job(&self, job: &NewJob) -> Result<(), Rejected> {
        self.check_needs(&job.job_type, &job.needs)?;
        check_job(job)
    }

    /// Rejects needs that are too large for a job of this type.
    pub fn check_needs(&self, job_type: &TypeName, needs: &Needs) -> Result<(), Rejected> {
        let most = if self.reserved.of(job_type).is_some() { RESERVED_BOUNDS } else { JOB_BOUNDS };
        bound("needs length", needs.as_str().len(), 0, most.bytes)?;
        bound("needs list length", needs.longest_list(), 0, most.entries)
    }

    /// The application whose type it is.
    pub fn application_of(&self, job_type: &TypeName) -> Option<Application> {
        self.reserved.of(job_type).map(|found| found.application)
    }
}
