//! The result file of a job: a small JSON document becomes the value, anything else becomes an artifact.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use jobhall_core::Json;
use jobhall_protocol::INLINE_RESULT_BYTES;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::workspace::outputs;

/// Maximum size of a result that is checked for being JSON.
const JSON_BYTES: u64 = 64 << 20;

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Left {
    Nothing,
    Value(Box<RawValue>),
    /// A file of this media type.
    File(&'static str),
}

pub(crate) fn look(path: &Path) -> io::Result<Left> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let (mut file, size) = match outputs::open(folder, Path::new(name)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::Nothing),
        Err(error) => return Err(error),
    };
    if size <= INLINE_RESULT_BYTES {
        let mut bytes = Vec::new();
        (&mut file).take(INLINE_RESULT_BYTES).read_to_end(&mut bytes)?;
        let text = bytes.trim_ascii();
        if text.is_empty() {
            return Ok(Left::Nothing);
        }
        if let Some(value) = value(text) {
            return Ok(Left::Value(value));
        }
        file.rewind()?;
    }
    media_type(file, size).map(Left::File)
}

/// The value, if the server accepts it as one.
fn value(text: &[u8]) -> Option<Box<RawValue>> {
    let json = Json::parse_bytes("result", text, usize::try_from(INLINE_RESULT_BYTES).ok()?).ok()?;
    RawValue::from_string(json.as_str().to_owned()).ok()
}

/// The media type of a file, determined without reading it into memory as a whole.
fn media_type(mut file: File, size: u64) -> io::Result<&'static str> {
    if !is_text(&mut file)? {
        return Ok("application/octet-stream");
    }
    file.rewind()?;
    let json = size <= JSON_BYTES && serde_json::from_reader::<_, IgnoredAny>(BufReader::new(file)).is_ok();
    Ok(if json { "application/json" } else { "text/plain; charset=utf-8" })
}

/// Whether the whole file is UTF-8.
fn is_text(file: &mut File) -> io::Result<bool> {
    let mut bytes = Vec::new();
    loop {
        let read = file.take(64 << 10).read_to_end(&mut bytes)?;
        let sound = match std::str::from_utf8(&bytes) {
            Ok(text) => text.len(),
            // A character may be split at the end of the buffer.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Ok(false),
        };
        bytes.drain(..sound);
        if read == 0 {
            return Ok(bytes.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Workspaces;

    fn kind(content: &[u8]) -> String {
        let outputs = Workspaces::default().take("1-1", None).unwrap();
        fs::write(outputs.result(), content).unwrap();
        match look(&outputs.result()).unwrap() {
            Left::Nothing => "nothing".to_owned(),
            Left::Value(value) => value.get().to_owned(),
            Left::File(kind) => kind.to_owned(),
        }
    }

    #[test]
    fn a_small_document_is_the_value_and_the_rest_is_a_file_of_its_kind() {
        let inline = usize::try_from(INLINE_RESULT_BYTES).unwrap();
        let string = |len: usize| format!("\"{}\"", "x".repeat(len - 2)).into_bytes();
        let deep = ["[".repeat(65), "]".repeat(65)].concat().into_bytes();
        for (content, expected) in [
            (b" \n".to_vec(), "nothing"),
            (b" {\"n\": 1}\n".to_vec(), "{\"n\": 1}"),
            (b"null".to_vec(), "null"),
            (string(inline + 1), "application/json"),
            (deep, "application/json"),
            (b"no JSON".to_vec(), "text/plain; charset=utf-8"),
            (b"{\"n\": 1} {}".to_vec(), "text/plain; charset=utf-8"),
            (b"\xff\xfe".to_vec(), "application/octet-stream"),
            (b"cut \xc3".to_vec(), "application/octet-stream"),
            ([vec![b'a'; (64 << 10) - 1], "\u{e4}".into()].concat(), "text/plain; charset=utf-8"),
        ] {
            assert_eq!(kind(&content), expected);
        }
        assert!(kind(&string(inline)).starts_with("\"x"), "exactly the limit is allowed");
    }

    #[test]
    fn what_is_no_file_is_no_result() {
        let outputs = Workspaces::default().take("1-1", None).unwrap();
        assert!(matches!(look(&outputs.result()).unwrap(), Left::Nothing));
        std::os::unix::fs::symlink("/etc/passwd", outputs.result()).unwrap();
        assert!(look(&outputs.result()).is_err());
    }
}
