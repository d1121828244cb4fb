//! The marker of a file whose content was moved to another store: `<path>.moved`, with a line that says where. It
//! is a separate file, because a move does not change the database file. To use the file anyway, remove the marker.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jobhall_store::StoreError;

use crate::data_dir::{beside, failed};

fn mark_of(path: &Path) -> PathBuf {
    beside(path, ".moved")
}

/// Refuses a file that was moved: each of its open jobs would be executed twice.
pub(crate) fn refuse(path: &Path) -> Result<(), StoreError> {
    let Some(to) = read(path)? else { return Ok(()) };
    Err(StoreError::new(format!(
        "{} was moved to {to}: a hall on it would do every open job a second time; if nothing arrived there, or you \
         want it all the same, remove {}",
        path.display(),
        mark_of(path).display()
    )))
}

/// The target of a moved file, if it was moved.
pub(crate) fn read(path: &Path) -> Result<Option<String>, StoreError> {
    let mark = mark_of(path);
    match fs::read_to_string(&mark) {
        Ok(text) => Ok(Some(text.lines().next().unwrap_or("another place").to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &mark, &error)),
    }
}

/// Marks a file as moved there, or removes its mark; durable when it returns.
pub(crate) fn set(path: &Path, to: Option<&str>) -> Result<(), StoreError> {
    let mark = mark_of(path);
    match to {
        Some(to) => put(&mark, to).map_err(|error| failed("write", &mark, &error)),
        None => fs::remove_file(&mark)
            .and_then(|()| sync_folder(&mark))
            .map_err(|error| failed("remove", &mark, &error)),
    }
}

/// Writes a temporary file first, so that a mark is never partial.
fn put(mark: &Path, line: &str) -> io::Result<()> {
    let aside = beside(mark, ".new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&aside)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    fs::rename(&aside, mark)?;
    sync_folder(mark)
}

fn sync_folder(mark: &Path) -> io::Result<()> {
    let folder = mark.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use crate::{Options, Sqlite};

    #[test]
    fn a_file_that_was_moved_is_refused_until_its_mark_is_gone() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("jobs.db");
        drop(Sqlite::open(&path, Options::default()).expect("a new store"));
        assert_eq!(super::read(&path), Ok(None));
        for to in ["one", "two"] {
            super::set(&path, Some(to)).expect("a mark");
            assert_eq!(super::read(&path), Ok(Some(to.to_owned())));
        }
        let error = Sqlite::open(&path, Options::default()).expect_err("it was moved");
        assert!(error.message.contains("jobs.db was moved to two: "), "{error}");
        assert!(error.message.ends_with("jobs.db.moved"), "{error}");
        super::set(&path, None).expect("no mark");
        drop(Sqlite::open(&path, Options::default()).expect("as before"));
    }
}
