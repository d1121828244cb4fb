//! Values that stay on this worker: those of `inline` steps. They are kept for later jobs, in files without a name, which
//! no job can reach and which end with the worker.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobhall_core::query::{ArgumentParam, Identity, InputPlace, NodeParams, StepParams};

use crate::workspace::outputs;

/// Maximum number of values, as each is an open file.
const VALUES_MAX: usize = 256;
/// Maximum size of all values, in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// Read at once.
const PIECE_BYTES: usize = 1 << 18;

/// The values that this worker keeps. All clones share them.
#[derive(Clone, Default)]
pub(crate) struct KeptValues(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// The one used longest ago first.
    values: VecDeque<(Identity, Arc<KeptValue>)>,
    bytes: u64,
}

/// A value that is kept.
pub(super) struct KeptValue {
    file: File,
    size: u64,
}

/// How a job gets the value of one of its steps.
pub(super) enum StepAnswer {
    /// The step runs.
    Run,
    /// Its value was kept.
    Kept(Arc<KeptValue>),
    /// Only steps receive its value whose own was kept.
    NotNeeded,
}

impl KeptValues {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a job gets the values of its steps.
    pub(super) fn answers(&self, params: &NodeParams) -> Vec<StepAnswer> {
        let mut answers: Vec<StepAnswer> = params.steps.iter().map(|_| StepAnswer::NotNeeded).collect();
        let mut needed = vec![false; params.steps.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        for (at, step) in params.steps.iter().enumerate().rev() {
            if !needed[at] {
                continue;
            }
            match step.kept.filter(|_| !params.anew).and_then(|identity| self.find(&identity)) {
                Some(value) => answers[at] = StepAnswer::Kept(value),
                None => {
                    answers[at] = StepAnswer::Run;
                    inputs(step).filter(|input| *input < at).for_each(|input| needed[input] = true);
                }
            }
        }
        answers
    }

    fn find(&self, identity: &Identity) -> Option<Arc<KeptValue>> {
        let mut kept = self.lock();
        let at = kept.values.iter().position(|(known, _)| known == identity)?;
        let found = kept.values.remove(at)?;
        let value = found.1.clone();
        kept.values.push_back(found);
        Some(value)
    }

    /// Keeps a copy of the value that a step has left in a file. The file was the job's to write, so no link is followed.
    pub(super) fn keep(&self, identity: Identity, path: &Path) -> io::Result<()> {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        let (from, size) = match outputs::open(folder, Path::new(name)) {
            Ok(opened) => opened,
            // A step that writes nothing has an empty value.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (tempfile::tempfile()?, 0),
            Err(error) => return Err(error),
        };
        if size > BYTES_MAX {
            return Ok(());
        }
        let file = tempfile::tempfile()?;
        let size = copy(&from, size, &file)?;
        self.lock().put(identity, KeptValue { file, size });
        Ok(())
    }
}

impl Kept {
    fn put(&mut self, identity: Identity, value: KeptValue) {
        if let Some(at) = self.values.iter().position(|(known, _)| *known == identity) {
            self.remove(at);
        }
        self.bytes += value.size;
        self.values.push_back((identity, Arc::new(value)));
        while self.values.len() > VALUES_MAX || self.bytes > BYTES_MAX {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) {
        if let Some((_, value)) = self.values.remove(at) {
            self.bytes -= value.size;
        }
    }
}

impl KeptValue {
    /// Writes the value to a file.
    pub(super) fn write(&self, to: &File) -> io::Result<()> {
        copy(&self.file, self.size, to).map(drop)
    }
}

/// Copies at most this many bytes, and returns their number.
fn copy(from: &File, size: u64, mut to: &File) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut copied = 0;
    while copied < size {
        let read = from.read_at(&mut piece, copied)?;
        if read == 0 {
            break;
        }
        to.write_all(&piece[..read])?;
        copied += read as u64;
    }
    Ok(copied)
}

/// The earlier steps whose values a step receives.
fn inputs(step: &StepParams) -> impl Iterator<Item = usize> + '_ {
    let links = step.arguments.iter().filter_map(|argument| match argument {
        ArgumentParam::Link(place) => Some(*place),
        ArgumentParam::Text(_) => None,
    });
    step.input.into_iter().chain(links).filter_map(|place| match place {
        InputPlace::Step(at) => Some(at),
        InputPlace::Input(_) | InputPlace::Source(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(byte: u8) -> Identity {
        Identity::new([byte; 20])
    }

    fn value(size: u64) -> KeptValue {
        KeptValue { file: tempfile::tempfile().unwrap(), size }
    }

    fn params(kept: [Option<Identity>; 3], anew: bool) -> NodeParams {
        let step = |kept: Option<Identity>, input: Option<usize>| serde_json::json!({"command": "a", "version": "1", "kept": kept, "input": input.map(|at| serde_json::json!({"step": at}))});
        let steps: Vec<_> =
            kept.into_iter().enumerate().map(|(at, kept)| step(kept, at.checked_sub(1))).collect();
        let all =
            serde_json::json!({"query": "a/a/a", "identity": identity(9), "steps": steps, "anew": anew});
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_value_that_was_kept_is_used_and_the_steps_before_it_do_not_run() {
        let kept = KeptValues::default();
        let words = |params: &NodeParams| -> Vec<&str> {
            let word = |answer: &StepAnswer| match answer {
                StepAnswer::Run => "run",
                StepAnswer::Kept(_) => "kept",
                StepAnswer::NotNeeded => "not needed",
            };
            kept.answers(params).iter().map(word).collect()
        };
        let chain = params([Some(identity(1)), Some(identity(2)), None], false);
        assert_eq!(words(&chain), ["run", "run", "run"]);
        kept.lock().put(identity(2), value(1));
        assert_eq!(words(&chain), ["not needed", "kept", "run"]);
        kept.lock().put(identity(1), value(1));
        assert_eq!(words(&chain), ["not needed", "kept", "run"]);
        assert_eq!(words(&params([Some(identity(1)), None, None], false)), ["kept", "run", "run"]);
        assert_eq!(words(&params([Some(identity(1)), None, None], true)), ["run", "run", "run"]);
        assert_eq!(words(&params([Some(identity(3)), None, None], false)), ["run", "run", "run"]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_value_used_longest_ago_goes_first() {
        let kept = KeptValues::default();
        for byte in 0..=255 {
            kept.lock().put(identity(byte), value(1));
        }
        assert!(kept.find(&identity(0)).is_some(), "used now");
        kept.lock().put(identity(7), value(1));
        assert_eq!(kept.lock().bytes, 256, "the same value again");
        kept.lock().put(identity(1), value(BYTES_MAX - 2));
        assert!(kept.lock().bytes <= BYTES_MAX);
        assert!(kept.find(&identity(2)).is_none() && kept.find(&identity(0)).is_some());
    }

    #[test]
    fn a_copy_is_kept_and_a_link_is_not_followed() {
        let (kept, folder) = (KeptValues::default(), tempfile::tempdir().unwrap());
        let path = folder.path().join("value");
        std::fs::write(&path, "one").unwrap();
        kept.keep(identity(1), &path).unwrap();
        std::fs::write(&path, "two").unwrap();
        let copied = folder.path().join("copied");
        kept.find(&identity(1)).unwrap().write(&File::create(&copied).unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(&copied).unwrap(), "one");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(kept.keep(identity(2), &link).is_err());
    }
}
