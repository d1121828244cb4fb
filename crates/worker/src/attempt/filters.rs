//! The commands that this worker offers to queries, with their versions.
//!
//! The version of a command is a hash of its declaration, of each file that a word of its command line names, and of the
//! files that it lists. It is part of the key of a value, so it is computed again around each run: what a changed script
//! makes is never stored under the version of the old one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobhall_core::query::{Declaration, Version};
use jobhall_protocol::{Command, CommandFile, DeclaredCommand, WorkerFile};

use super::files::Digests;

/// Digits of a version that is a hash.
const VERSION_DIGITS: usize = 16;

/// One command of this worker.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub declaration: Declaration,
    /// As it was declared to the server.
    pub version: Version,
    /// Relative paths begin here, and its processes run here.
    pub directory: PathBuf,
    /// The files that it consists of, and the worker file.
    files: Vec<CommandFile>,
    table: Command,
}

/// All commands of a worker, by name.
#[derive(Clone, Debug, Default)]
pub struct Filters(BTreeMap<String, Filter>);

impl Filters {
    /// Reads the commands of a worker file, and the files that they consist of.
    ///
    /// # Errors
    /// A declaration is wrong, or one of its files cannot be read.
    pub fn read(file: &WorkerFile) -> Result<Filters, String> {
        let (filters, problems) = Filters::read_again(file, &mut Digests::default());
        problems.into_iter().next().map_or(Ok(filters), Err)
    }

    /// Reads the commands that can be read, and says why the others cannot.
    pub(crate) fn read_again(file: &WorkerFile, digests: &mut Digests) -> (Filters, Vec<String>) {
        let (mut filters, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, table) in &file.commands {
            match filter(name, table, file, digests) {
                Ok(filter) => drop(filters.insert(name.clone(), filter)),
                Err(why) => problems.push(why),
            }
        }
        (Filters(filters), problems)
    }

    /// Names the worker file as these commands name it: it cannot be read now.
    pub(crate) fn keep_worker_file(&mut self, before: &Filters, file: &WorkerFile) {
        let Some(path) = file.path.as_ref().and_then(|path| path.to_str()) else { return };
        let named = |filter: &Filter| filter.files.iter().find(|file| file.path == path).cloned();
        let Some(known) = before.0.values().find_map(named) else { return };
        for filter in self.0.values_mut() {
            filter.files.retain(|file| file.path != path);
            filter.files.push(known.clone());
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each command with its version, such as `clean@3f2a1b7c9d01ab34`.
    #[must_use]
    pub fn abilities(&self) -> Vec<String> {
        self.0.iter().map(|(name, filter)| format!("{name}@{}", filter.version)).collect()
    }

    /// What is declared to the server.
    pub(crate) fn declarations(&self) -> BTreeMap<String, DeclaredCommand> {
        let declared = |filter: &Filter| DeclaredCommand {
            version: filter.version.to_string(),
            command: filter.table.clone(),
            files: filter.files.clone(),
        };
        self.0.iter().map(|(name, filter)| (name.clone(), declared(filter))).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Filter> {
        self.0.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Filter> {
        self.0.get(name)
    }
}

impl Filter {
    /// Whether its files are as they were declared.
    pub(crate) fn is_unchanged(&self) -> Result<bool, String> {
        let (version, _) = version(&self.declaration, &self.directory, &mut Digests::default())?;
        Ok(version == self.version)
    }
}

fn filter(name: &str, table: &Command, file: &WorkerFile, digests: &mut Digests) -> Result<Filter, String> {
    let declaration = table.declaration(name)?;
    let directory = directory(file)?;
    let (version, mut files) = version(&declaration, &directory, digests)?;
    // An edit of the table counts like one of a script.
    if let Some(path) = &file.path {
        let read = digests.read(path, &mut Digests::limit());
        files.push(read.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(Filter { declaration, version, directory, files, table: table.clone() })
}

fn directory(file: &WorkerFile) -> Result<PathBuf, String> {
    std::path::absolute(Path::new(".").join(&file.directory)).map_err(|error| error.to_string())
}

/// All paths whose content can change what this worker offers, whether or not there is a file now.
pub(crate) fn paths(file: &WorkerFile) -> Vec<PathBuf> {
    let Ok(directory) = directory(file) else { return Vec::new() };
    let words = file.commands.values().flat_map(|command| command.run.iter().chain(&command.files));
    let mut paths: Vec<PathBuf> = words.map(|word| directory.join(word)).chain(file.path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The version of a command, and the files that count.
fn version(
    declaration: &Declaration,
    directory: &Path,
    digests: &mut Digests,
) -> Result<(Version, Vec<CommandFile>), String> {
    if let Some(version) = &declaration.version {
        return Ok((version.clone(), Vec::new()));
    }
    let named = |field: &str, why: String| format!("commands.{}.{field}: {why}", declaration.name);
    let mut hasher = blake3::Hasher::new();
    let text = serde_json::to_vec(declaration).map_err(|error| error.to_string())?;
    add(&mut hasher, &text);
    let words = declaration.run.iter().filter(|word| directory.join(word).is_file());
    let words = words.map(|word| ("run", word)).chain(declaration.files.iter().map(|file| ("files", file)));
    let (mut left, mut files) = (Digests::limit(), Vec::new());
    for (field, word) in words {
        let file = digests.read(&directory.join(word), &mut left);
        let file = file.map_err(|error| named(field, format!("{word}: {error}")))?;
        add(&mut hasher, file.digest.as_bytes());
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let digits: String = hasher.finalize().to_hex().chars().take(VERSION_DIGITS).collect();
    Ok((Version::new(&digits).map_err(|error| error.to_string())?, files))
}

fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(directory: &Path, commands: &[(&str, Command)]) -> Result<Filters, String> {
        let commands = commands.iter().map(|(name, table)| ((*name).to_owned(), table.clone())).collect();
        Filters::read(&WorkerFile { commands, directory: directory.to_owned(), ..WorkerFile::default() })
    }

    fn run(words: &[&str]) -> Command {
        Command { run: words.iter().map(|word| (*word).to_owned()).collect(), ..Command::default() }
    }

    #[test]
    fn a_version_changes_with_the_declaration_the_script_and_the_named_files() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        write("clean.sh", "one");
        write("lib.sh", "lib");
        write("other", "1");
        let table = Command { files: vec!["lib.sh".to_owned()], ..run(&["sh", "clean.sh"]) };
        let read = || filters(place.path(), &[("clean", table.clone())]).unwrap();
        let first = read();
        write("other", "2");
        assert_eq!(read().abilities(), first.abilities(), "a file that it does not name");
        assert!(first.get("clean").unwrap().is_unchanged().unwrap());
        for (name, text) in [("clean.sh", "two"), ("lib.sh", "new")] {
            let old = std::fs::read_to_string(place.path().join(name)).unwrap();
            write(name, text);
            assert_ne!(read().abilities(), first.abilities(), "{name}");
            assert!(!first.get("clean").unwrap().is_unchanged().unwrap(), "{name}");
            write(name, &old);
            assert_eq!(read().abilities(), first.abilities(), "a revert is the old version");
        }
        let more = Command { help: Some("sorts".to_owned()), ..table.clone() };
        assert_ne!(filters(place.path(), &[("clean", more)]).unwrap().abilities(), first.abilities());
        let named = Command { version: Some("3".to_owned()), ..table };
        assert_eq!(filters(place.path(), &[("clean", named)]).unwrap().abilities(), ["clean@3"]);
    }

    #[test]
    fn a_missing_file_and_a_wrong_table_are_named() {
        let place = tempfile::tempdir().unwrap();
        let missing = Command { files: vec!["no.sh".to_owned()], ..run(&["sh"]) };
        let error = filters(place.path(), &[("clean", missing)]).unwrap_err();
        assert!(error.starts_with("commands.clean.files: no.sh: "), "{error}");
        let error = filters(place.path(), &[("Clean", run(&["sh"]))]).unwrap_err();
        assert!(error.starts_with("commands: \"Clean\" is no name"), "{error}");
    }
}
