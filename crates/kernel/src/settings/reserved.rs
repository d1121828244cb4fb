//! Types of applications: nobody else creates, changes or repeats their jobs. Jobs that a store has already run as they are.

use jobhall_core::{Application, TypeName};

use super::Settings;
use crate::api::answer::Rejected;

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

    /// The application whose type it is.
    pub fn application_of(&self, job_type: &TypeName) -> Option<Application> {
        self.reserved.of(job_type).map(|found| found.application)
    }
}
