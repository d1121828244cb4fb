//! A value that is too large to be in memory.

use std::path::Path;

use jobhall_client::{ClientError, LargeValue};

use crate::commands::job::{Transfer, save};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::print_bytes;

/// Writes the value to a file, or to standard output.
pub async fn write(
    context: &Context,
    value: LargeValue,
    output: Option<&Path>,
    failed: &dyn Fn(ClientError) -> Failure,
) -> Outcome<()> {
    let mut transfer = Transfer::new(context, value.reader, failed);
    match output {
        Some(path) => save(&mut transfer, path).await,
        None => transfer.copy(&mut print_bytes).await,
    }
}
