//! What the modes of a command mean for one of its steps.
//!
//! | declared | after a volatile step | kept | what follows is volatile |
//! |---|---|---|---|
//! | – | no | shared | no |
//! | – | yes | never | yes |
//! | `volatile` | either | never | yes |
//! | `soft_volatile` | no | never | no |
//! | `inline`, or `serialisable = false` | no | on its worker | no |
//! | `cacheable = false` | no | in flight | no |
//!
//! A step after a volatile one, or with an argument that is volatile, is volatile itself, whatever its command declares.
//! Of several modes the topmost counts, except that `mainthread` is about the place and combines with all. What
//! follows a `soft_volatile` step is not computed again when the value of that step changes.

use serde::{Deserialize, Serialize};

use super::arguments::is_false;
use crate::name::WorkerName;

/// The modes that a command declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Modes {
    /// Each evaluation computes the value, and the values of what follows.
    #[serde(skip_serializing_if = "is_false")]
    pub volatile: bool,
    /// Each evaluation computes the value; what follows is cached.
    #[serde(skip_serializing_if = "is_false")]
    pub soft_volatile: bool,
    /// The value is cached on its worker only.
    #[serde(skip_serializing_if = "is_false")]
    pub inline: bool,
    /// Whether the value is bytes and can leave its worker.
    #[serde(skip_serializing_if = "is_true")]
    pub serialisable: bool,
    /// Whether the value may be used by later requests.
    #[serde(skip_serializing_if = "is_true")]
    pub cacheable: bool,
    /// The step runs on the main worker, one at a time.
    #[serde(skip_serializing_if = "is_false")]
    pub mainthread: bool,
}

fn is_true(value: &bool) -> bool {
    *value
}

impl Default for Modes {
    fn default() -> Modes {
        Modes {
            volatile: false,
            soft_volatile: false,
            inline: false,
            serialisable: true,
            cacheable: true,
            mainthread: false,
        }
    }
}

/// For how long and for whom a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// For every request that means the same.
    Shared,
    /// For the requests that arrive while it is computed.
    InFlight,
    /// On the worker that made it.
    OnWorker,
    /// For this evaluation only.
    Never,
}

/// Where a step runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On any worker with the command.
    Any,
    /// On the main worker, which is the one with the ability `main`.
    Main,
    /// On this worker.
    On(WorkerName),
}

/// What holds for one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub kept: Kept,
    /// Whether what follows is computed in each evaluation as well.
    pub volatile: bool,
    pub place: Place,
}

/// The ruling for a step of a command with these modes. `volatile_input` says whether the input of the step or one of
/// its links is volatile; `on` is the worker that the query designates.
#[must_use]
pub fn rule(modes: Modes, volatile_input: bool, on: Option<&WorkerName>) -> Ruling {
    let volatile = modes.volatile || volatile_input;
    let kept = if volatile || modes.soft_volatile {
        Kept::Never
    } else if modes.inline || !modes.serialisable {
        Kept::OnWorker
    } else if !modes.cacheable {
        Kept::InFlight
    } else {
        Kept::Shared
    };
    let place = match on {
        Some(worker) => Place::On(worker.clone()),
        None if modes.mainthread => Place::Main,
        None => Place::Any,
    };
    Ruling { kept, volatile, place }
}
