//! The files of a command, as its worker has read them. Whoever asks on the same machine compares them with what is there,
//! and so knows whether the worker has already declared an edit.

use jobhall_core::query::ENTRIES_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::schema;

/// Maximum number of files of a command that are declared: those of `run`, those of `files`, and the worker file.
pub const COMMAND_FILES_MAX: usize = 2 * ENTRIES_MAX + 1;
/// Maximum length of the other texts about a file.
pub const FILE_WORD_BYTES_MAX: usize = 100;

/// A file of a command, as its worker has read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandFile {
    /// Its absolute path.
    #[schemars(with = "schema::CommandText")]
    pub path: String,
    /// Device and inode of its directory: the same path may be another file elsewhere.
    #[schemars(with = "schema::FileWord")]
    pub place: String,
    /// Size, time of the last change and inode; empty if the file was too new for that to identify its content.
    #[schemars(with = "schema::FileWord")]
    pub stat: String,
    /// The hash of its content.
    #[schemars(with = "schema::FileWord")]
    pub digest: String,
}

impl CommandFile {
    /// Refuses texts that are too long.
    ///
    /// # Errors
    /// Names the field and its limit.
    pub fn check(&self) -> Result<(), String> {
        let texts = [
            ("path", &self.path, jobhall_core::query::DECLARED_BYTES_MAX),
            ("place", &self.place, FILE_WORD_BYTES_MAX),
            ("stat", &self.stat, FILE_WORD_BYTES_MAX),
            ("digest", &self.digest, FILE_WORD_BYTES_MAX),
        ];
        match texts.into_iter().find(|(_, text, most)| text.len() > *most || text.contains('\0')) {
            Some((field, _, most)) => Err(format!("{field}: a text has up to {most} bytes and no NUL")),
            None => Ok(()),
        }
    }
}
