//! The rows that a test proves according to its name.
//!
//! The last segment of the path counts: `claims::l14_l15_one_of_two_wins` proves L14 and L15. Ids come first,
//! joined by `_`, and end at the first word that is not an id.

use super::rows::RowId;

/// The rows at the beginning of a test's last path segment, in the order of the name.
#[must_use]
pub fn rows_of(test: &str) -> Vec<RowId> {
    let segment = test.rsplit("::").next().unwrap_or(test);
    segment.split('_').map_while(RowId::parse).collect()
}
