//! The supervisor: one loop over the socket, the monitor's pidfd, and the pipes and the exit of the command it
//! runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

use super::job::Job;
use super::socket::{Orders, Reports};
use super::{group, set_up, settle_in, spawn, tree};
use crate::slots::ended::{Ended, Status};
use crate::slots::setup::Setup;
use crate::wire::{Order, Report};

/// An event source of the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Monitor,
    Orders,
    /// The worker can receive reports again.
    Reports,
    EndOfMain,
    Pipe(usize),
}

struct Supervisor {
    monitor: OwnedFd,
    orders: Orders,
    reports: Reports,
    job: Option<Job>,
}

/// Runs a slot until the worker or the monitor has ended, and then leaves no process behind.
pub(super) fn main(monitor: i32, setup: &Setup) -> io::Result<()> {
    settle_in(c"hall-slot")?;
    setup.control_group.as_deref().map_or(Ok(()), group::enter)?;
    let monitor = open_monitor(monitor)?;
    set_up(setup)?;
    ioctl_fionbio(io::stdin().as_fd(), true)?;
    let mut supervisor =
        Supervisor { monitor, orders: Orders::default(), reports: Reports::default(), job: None };
    let ended = supervisor.lead();
    tree::end_all();
    match ended {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        other => other,
    }
}

/// A process id may refer to another process by now; the id of the parent cannot while it is the parent.
fn open_monitor(monitor: i32) -> io::Result<OwnedFd> {
    let monitor = Pid::from_raw(monitor).ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(monitor, PidfdFlags::empty())?;
    if getppid() == Some(monitor) { Ok(handle) } else { Err(io::Error::other("the monitor has ended")) }
}

impl Supervisor {
    /// Returns only with an error; end of file means that the worker closed the slot.
    fn lead(&mut self) -> io::Result<()> {
        loop {
            let ready = self.wait()?;
            if ready.contains(&Source::Monitor) {
                return Err(io::Error::other("the monitor has ended"));
            }
            if ready.contains(&Source::Orders) {
                self.orders.receive()?;
                self.obey()?;
            }
            self.work(&ready);
            self.reports.send()?;
        }
    }

    fn wait(&self) -> io::Result<Vec<Source>> {
        let stdin = io::stdin();
        let mut sources = vec![Source::Monitor, Source::Orders];
        let mut handles = vec![
            PollFd::new(&self.monitor, PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        if !self.reports.is_empty() {
            sources.push(Source::Reports);
            handles.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
        }
        if let Some(job) = &self.job {
            self.watch(job, &mut sources, &mut handles);
        }
        let timeout = self.job.as_ref().and_then(Job::patience).map(timespec);
        match poll(&mut handles, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let woken = |handle: &PollFd<'_>| !handle.revents().is_empty();
        Ok(sources
            .into_iter()
            .zip(handles)
            .filter(|(_, handle)| woken(handle))
            .map(|(source, _)| source)
            .collect())
    }

    fn watch<'a>(&self, job: &'a Job, sources: &mut Vec<Source>, handles: &mut Vec<PollFd<'a>>) {
        if job.main_runs() {
            sources.push(Source::EndOfMain);
            handles.push(PollFd::new(&job.end, PollFlags::IN));
        }
        if self.reports.has_room() {
            for (number, pipe) in job.output.pipes() {
                sources.push(Source::Pipe(number));
                handles.push(PollFd::new(pipe, PollFlags::IN));
            }
        }
    }

    fn obey(&mut self) -> io::Result<()> {
        while let Some(order) = self.orders.next()? {
            match order {
                Order::Run { run, command } if self.job.is_none() => self.start(run, &command),
                Order::Run { .. } => return Err(io::Error::other("an order to run while a command runs")),
                Order::Stop { run, grace } => {
                    if let Some(job) = self.job.as_mut().filter(|job| job.run == run) {
                        job.stop(grace);
                    }
                }
                // The end of a command is after all of its output, and answers a flush as well.
                Order::Flush { run } => {
                    if let Some(job) = self.job.as_mut().filter(|job| job.run == run) {
                        job.output.ask_to_flush();
                    }
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, run: u64, command: &crate::Command) {
        match spawn::spawn(command) {
            Ok(spawned) => {
                let pid = spawned.pid.as_raw_nonzero().get().unsigned_abs();
                self.reports.push(&Report::Started { pid });
                self.job = Some(Job::new(run, command, spawned));
            }
            Err(status) => self.not_started(status),
        }
    }

    fn not_started(&mut self, status: Status) {
        tree::end_all();
        self.reports.push(&Report::Ended(Ended::bare(status)));
    }

    /// Output is handled first, so that it precedes the end in the order of reports.
    fn work(&mut self, ready: &[Source]) {
        let Some(job) = &mut self.job else { return };
        for source in ready {
            if let Source::Pipe(number) = source {
                job.output.pump(*number, &mut self.reports);
            }
        }
        job.output.flush(&mut self.reports);
        let only_output = ready.iter().all(|source| matches!(source, Source::Pipe(_) | Source::Reports));
        if !ready.is_empty() && only_output && job.main_runs() && !job.is_ending() {
            return;
        }
        if let Some(ended) = job.advance(&mut self.reports) {
            self.reports.push(&Report::Ended(ended));
            self.job = None;
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
