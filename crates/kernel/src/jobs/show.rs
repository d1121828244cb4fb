//! Showing a job: the stored row, combined with the kernel's state of a live attempt. Its ended attempts are not read,
//! because most requests for a job only check something.

use jobhall_core::{Indicator, Job, JobId};

use crate::api::answer::{Rejected, Shown};
use crate::api::ticket::Ticket;
use crate::kernel::{JobTask, Kernel};

impl Kernel {
    /// The latest progress of a live attempt.
    pub fn progress(&self, id: JobId) -> Option<&[Indicator]> {
        self.jobs.progress(id).map(Vec::as_slice)
    }

    pub(crate) fn show(&mut self, task: &JobTask, to: Ticket<Box<Shown>>) {
        let id = task.id;
        if let Some(entry) = self.jobs.get(id) {
            let Some(spec) = entry.spec.clone() else { return };
            let job = Job { id, spec, status: entry.status.get().into_owned() };
            let progress = self.jobs.progress.get(&id).cloned().unwrap_or_default();
            let longer_than_ms = self.expected_ms(id);
            let shown = Shown { job, progress, longer_than_ms, cached: true };
            return self.answer(to, Ok(Box::new(shown)));
        }
        let cached = task.read.is_none();
        let shown = self.jobs.completed(id).map(|(job, _)| {
            let (job, progress) = (job.clone(), Vec::new());
            Box::new(Shown { job, progress, longer_than_ms: None, cached })
        });
        self.answer(to, shown.ok_or(Rejected::NoSuchJob(id)));
    }
}
