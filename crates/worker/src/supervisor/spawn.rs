//! Starts a command with one `posix_spawn`, and reports clearly why it failed.
//!
//! The program is looked up here, in the command's `PATH`, for two reasons: the error can name what was searched,
//! and the standard library would otherwise have to fork and exec, which is a quarter slower.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::fs::{
    Access, FileType, MemfdFlags, Mode, OFlags, SealFlags, access, fcntl_add_seals, fstat, memfd_create, open,
};
use rustix::io::{Errno, ioctl_fionbio, pwrite};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::slots::command::{Command, DEFAULT_PATH, Stdin, Stdout};
use crate::slots::ended::Status;

/// A command that was started.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    /// Readable when the command has ended.
    pub(super) end: OwnedFd,
    /// None if it is a file.
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: OwnedFd,
}

/// Starts `command` in a new process group.
pub(super) fn spawn(command: &Command) -> Result<Spawned, Status> {
    let directory = directory(command)?;
    let program = find(command, &directory)?;
    let stdin = match &command.stdin {
        Stdin::Empty => Stdio::null(),
        Stdin::Bytes(bytes) => input(bytes).map_err(|error| not_started(&error.into()))?.into(),
        Stdin::File(path) => plain_file(&directory.join(path), OFlags::RDONLY)?.into(),
    };
    let stdout = match &command.stdout {
        Stdout::Pipe => Stdio::piped(),
        Stdout::File(path) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            plain_file(&directory.join(path), flags)?.into()
        }
    };
    let is_piped = command.stdout == Stdout::Pipe;
    let child = std::process::Command::new(&program)
        .arg0(&command.argv[0])
        .args(&command.argv[1..])
        .env_clear()
        .envs(command.environment.iter())
        .current_dir(&directory)
        .process_group(0)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| refused(command, &program, &error))?;
    take(child, is_piped).map_err(|error| not_started(&error))
}

/// Opens a file for a command. This process has the user and the view of the job, so the job gets no more than it could
/// open itself. Without blocking, because a pipe without another end would stop this slot.
fn plain_file(path: &Path, flags: OFlags) -> Result<OwnedFd, Status> {
    let no_file = |reason: String| Status::NoFile { file: path.to_string_lossy().into_owned(), reason };
    let mode = Mode::from_raw_mode(0o666);
    let file = open(path, flags | OFlags::CLOEXEC | OFlags::NONBLOCK, mode)
        .map_err(|error| no_file(io::Error::from(error).to_string()))?;
    let about = fstat(&file).map_err(|error| no_file(io::Error::from(error).to_string()))?;
    if FileType::from_raw_mode(about.st_mode) == FileType::RegularFile {
        Ok(file)
    } else {
        Err(no_file("not a plain file".to_owned()))
    }
}

/// If the handles cannot be obtained, the command is killed with the tree, as after every end.
fn take(mut child: Child, is_piped: bool) -> io::Result<Spawned> {
    let pid = Pid::from_child(&child);
    let missing = || io::Error::other("no pipe");
    let stdout = match is_piped {
        true => Some(OwnedFd::from(child.stdout.take().ok_or_else(missing)?)),
        false => None,
    };
    let stderr: OwnedFd = child.stderr.take().ok_or_else(missing)?.into();
    stdout.as_ref().map_or(Ok(()), |stdout| ioctl_fionbio(stdout, true))?;
    ioctl_fionbio(&stderr, true)?;
    Ok(Spawned { pid, end: pidfd_open(pid, PidfdFlags::empty())?, stdout, stderr })
}

fn directory(command: &Command) -> Result<PathBuf, Status> {
    let directory = match &command.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(|error| not_started(&error))?,
    };
    let reason = match std::fs::metadata(&directory) {
        Ok(found) if found.is_dir() => return Ok(directory),
        Ok(_) => "not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Status::NoDirectory { directory: directory.to_string_lossy().into_owned(), reason })
}

/// The file of the program: as given if it contains a slash, else the first executable in the `PATH`.
fn find(command: &Command, directory: &Path) -> Result<PathBuf, Status> {
    let program = command.argv.first().map(AsRef::as_ref).unwrap_or(Path::new(""));
    let in_path = !program.as_os_str().as_bytes().contains(&b'/');
    let path = command.environment.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let candidates: Vec<PathBuf> = if in_path {
        std::env::split_paths(path).map(|entry| directory.join(entry).join(program)).collect()
    } else {
        vec![directory.join(program)]
    };
    if let Some(found) =
        candidates.iter().find(|file| file.is_file() && access(*file, Access::EXEC_OK).is_ok())
    {
        return Ok(found.clone());
    }
    Err(match candidates.iter().find(|file| file.exists()) {
        Some(file) => not_executable(file, if file.is_file() { "permission denied" } else { "not a file" }),
        None => Status::NotFound {
            program: program.to_string_lossy().into_owned(),
            searched: if in_path { path } else { directory.as_os_str() }.to_string_lossy().into_owned(),
        },
    })
}

/// The input as a file in memory: it needs no writer while the command runs, and a reader never blocks on it.
fn input(bytes: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(c"stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < bytes.len() {
        written += pwrite(&file, &bytes[written..], written as u64)?;
    }
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

fn refused(command: &Command, program: &Path, error: &io::Error) -> Status {
    match Errno::from_io_error(error) {
        Some(Errno::TOOBIG) => Status::TooBig { bytes: command.words() as u64 },
        Some(Errno::ACCESS | Errno::PERM) => not_executable(program, "permission denied"),
        Some(Errno::NOEXEC) => {
            not_executable(program, "neither a program of this machine nor a script with #!")
        }
        Some(Errno::NOENT) => not_executable(program, "its interpreter does not exist"),
        Some(Errno::TXTBSY) => not_executable(program, "it is being written"),
        _ => not_started(error),
    }
}

fn not_executable(program: &Path, reason: &str) -> Status {
    Status::NotExecutable { program: program.to_string_lossy().into_owned(), reason: reason.to_owned() }
}

fn not_started(error: &io::Error) -> Status {
    Status::NotStarted { reason: error.to_string() }
}
