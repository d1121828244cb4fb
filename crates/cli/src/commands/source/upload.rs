//! Data that is put under a key: a file, or standard input, which is written to a temporary file first.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jobhall_client::{SourceUpload, UploadError};
use jobhall_protocol::{ARTIFACT_BYTES, Source};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::progress::LARGE_BYTES;

/// Data to be put.
#[derive(Debug)]
pub struct Data {
    file: File,
    size: u64,
    /// What it is called in errors.
    name: String,
}

impl Data {
    /// The data of a file.
    pub fn file(path: &Path) -> Outcome<Data> {
        let name = path.display().to_string();
        let wrong = |why: &dyn std::fmt::Display| unreadable(&name, why);
        let file = File::open(path).map_err(|error| wrong(&error))?;
        let about = file.metadata().map_err(|error| wrong(&error))?;
        if !about.is_file() {
            return Err(wrong(&"it is not a plain file"));
        }
        within(about.len(), &name)?;
        Ok(Data { file, size: about.len(), name })
    }

    /// All of standard input.
    pub fn stdin() -> Outcome<Data> {
        let name = "standard input".to_owned();
        let failed = |error: io::Error| unreadable(&name, &error);
        let mut file = temporary().map_err(failed)?;
        let size = io::copy(&mut io::stdin().lock().take(ARTIFACT_BYTES + 1), &mut file).map_err(failed)?;
        within(size, &name)?;
        file.flush().and_then(|()| file.rewind()).map_err(failed)?;
        Ok(Data { file, size, name })
    }

    /// The BLAKE3 hash of the data, in hexadecimal digits.
    pub fn digest(&mut self) -> Outcome<String> {
        let failed = |error: io::Error| unreadable(&self.name, &error);
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut self.file, &mut hasher).map_err(failed)?;
        self.file.rewind().map_err(failed)?;
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Sends the data.
    pub async fn put(
        &self,
        context: &Context,
        key: &str,
        media_type: &str,
        digest: Option<&str>,
    ) -> Outcome<Source> {
        let (size, name) = (self.size, &self.name);
        // From the beginning, although it may have been sent before.
        let file = self.file.try_clone().and_then(|mut file| file.rewind().map(|()| file));
        let file = file.map_err(|error| unreadable(name, &error))?;
        let progress = (size >= LARGE_BYTES).then(|| Mutex::new(context.output.progress(size, "upload")));
        let passed = move |bytes| {
            if let Some(progress) = &progress {
                let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.set(bytes, "");
                if bytes == size {
                    progress.finish();
                }
            }
        };
        let upload = SourceUpload { key, media_type, file, size, digest };
        context.client()?.put_source(upload, passed).await.map_err(|error| match error {
            UploadError::File(error) => unreadable(name, &error),
            UploadError::Client(error) => Failure::from(error).while_doing(&format!("source {key}")),
        })
    }
}

fn within(size: u64, name: &str) -> Outcome<()> {
    if size <= ARTIFACT_BYTES {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{name} has more than {ARTIFACT_BYTES} bytes, which is the limit of a source"
    ))
    .fix("store it elsewhere, and begin the query with a command that reads it"))
}

fn unreadable(name: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("failed to read {name}")).why(why.to_string())
}

/// A file without a name, which is gone when it is closed.
fn temporary() -> io::Result<File> {
    let path: PathBuf = std::env::temp_dir().join(format!("jobhall-source-{:016x}", rand::random::<u64>()));
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
