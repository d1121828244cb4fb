//! A token, and what it may see.

use std::collections::BTreeSet;
use std::fmt;

use super::requests::Asked;
use crate::server::Reply;

/// Whose token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Viewer,
    Client,
    Worker,
    /// A worker of all queues that holds leases and takes no more jobs.
    Holder,
    Admin,
    /// The process of this job.
    Job(u64),
}

/// What an actor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The jobs of its queues.
    Jobs,
    /// One job, or none.
    Else,
}

#[derive(Clone)]
pub struct Actor {
    pub who: Who,
    pub token: String,
    /// As in the token: names and prefixes; empty for all queues.
    pub scope: Vec<String>,
    /// The queues that it reaches.
    pub queues: Vec<String>,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.who, self.scope)
    }
}

impl Actor {
    pub fn reads(&self) -> Reads {
        match self.who {
            Who::Viewer | Who::Client | Who::Admin => Reads::Jobs,
            Who::Worker | Who::Holder | Who::Job(_) => Reads::Else,
        }
    }

    pub fn is_limited(&self) -> bool {
        !self.scope.is_empty()
    }

    pub fn reaches(&self, queue: &str) -> bool {
        self.queues.iter().any(|own| own == queue)
    }

    /// One of its queues.
    pub fn queue(&self) -> &str {
        &self.queues[0]
    }

    pub fn changes(&self, queue: &str) -> bool {
        self.who != Who::Viewer && self.reaches(queue)
    }

    /// Checks that a response has no mark of a queue out of reach, except those that were in the request. Returns the
    /// marks of its own queues.
    pub fn check(&self, asked: &Asked, response: &str) -> BTreeSet<String> {
        let given = asked.text();
        let marks: BTreeSet<_> = marks(response).filter(|mark| !given.contains(mark)).collect();
        for mark in &marks {
            assert!(self.reaches(&mark[..4]), "{self}: {asked:?} shows {mark}:\n{response}");
        }
        marks.into_iter().map(str::to_owned).collect()
    }

    /// The process of a job sees no other job by its id. Its token ends when another actor ends the job.
    pub fn check_job(&self, asked: &Asked, reply: &Reply) {
        let Who::Job(own) = self.who else { return };
        let about =
            asked.path.strip_prefix("/api/v1/jobs/").map(|rest| rest.split(['/', '?']).next().unwrap());
        if about.is_some_and(|id| id != own.to_string()) {
            assert!([401, 403, 404, 429].contains(&reply.status), "{self}: {asked:?}: {reply:?}");
        }
    }
}

/// The marks in a text: words that begin with the name of a queue.
fn marks(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.len() >= 4 && word.starts_with("mk") && &word[3..4] == "z")
}
