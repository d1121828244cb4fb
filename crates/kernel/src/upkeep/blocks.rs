//! Closes blocks of ids whose jobs are all completed; for blocks with few open jobs, the store keeps a list of those.
//! So a start reads little more than the open jobs.

use jobhall_core::JobId;
use jobhall_store::{BlockChange, CommitError};

use super::{Service, Wake};
use crate::jobs::ids::FEW;
use crate::kernel::{Kernel, StoreRequest};

pub(super) const SERVICE: Service = Service { name: "blocks", next, run };

/// Time between two checks, so that several changes are written together.
const PAUSE_MS: u64 = 1_000;

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.ids.has_low().then_some(Wake::Mono(kernel.deadlines.blocks_at))
}

fn run(kernel: &mut Kernel) {
    kernel.deadlines.blocks_at = kernel.env.mono().plus_ms(PAUSE_MS);
    let changes: Vec<_> =
        kernel.ids.take_low().into_iter().filter_map(|first| change(kernel, first)).collect();
    if !changes.is_empty() {
        kernel.want(StoreRequest::SettleBlocks(changes));
    }
}

fn change(kernel: &Kernel, first: JobId) -> Option<BlockChange> {
    let block = kernel.ids.settled(first)?;
    if block.open == 0 {
        return Some(BlockChange::Close(first));
    }
    if block.open > FEW || block.listed {
        return None;
    }
    let ids = (first.get()..=block.last.get()).filter_map(|id| JobId::new(id).ok());
    let live: Vec<_> = ids.filter(|id| kernel.jobs.contains(*id)).collect();
    // A job still in flight to the store is counted but not found: check again later.
    (live.len() == block.open as usize).then_some(BlockChange::Shrink(first, live))
}

impl Kernel {
    pub(crate) fn blocks_settled(&mut self, changes: Vec<BlockChange>, error: Option<&CommitError>) {
        if let Some(error) = error {
            self.storage_failed(error);
        }
        for change in changes {
            match (change, error.is_none()) {
                (BlockChange::Close(first), true) => self.ids.close(first),
                (BlockChange::Shrink(first, _), true) => self.ids.listed(first),
                (BlockChange::Close(first) | BlockChange::Shrink(first, _), false) => {
                    self.ids.look_again(first);
                }
            }
        }
    }
}
