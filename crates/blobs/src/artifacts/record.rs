//! One record of a manifest: a header of 63 bytes, little-endian, followed by two strings.
//!
//! ```text
//!   0       8        12      20     28       60         62          63
//!   check   number   at_ms   size   digest   bytes of   bytes of    name, media type
//!                                            the name   the type
//! ```
//!
//! The check is the first eight bytes of the BLAKE3 hash of everything after it. It covers the number, so an old
//! record in a wrong position is not accepted.

use super::Artifact;
use crate::{ArtifactName, Digest, MEDIA_TYPE_BYTES, MediaType, NAME_BYTES};

const HEAD_BYTES: usize = 63;
/// Maximum size of a record.
pub(super) const RECORD_BYTES: usize = HEAD_BYTES + NAME_BYTES + MEDIA_TYPE_BYTES;

pub(super) fn encode(number: u32, artifact: &Artifact) -> Vec<u8> {
    let (name, media_type) = (artifact.name.as_str(), artifact.media_type.as_str());
    let mut out = vec![0; 8];
    out.extend(number.to_le_bytes());
    out.extend(artifact.at_ms.to_le_bytes());
    out.extend(artifact.size.to_le_bytes());
    out.extend(artifact.digest.as_bytes());
    // Both lengths are bounded by their types.
    out.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.push(u8::try_from(media_type.len()).unwrap_or(u8::MAX));
    out.extend(name.bytes());
    out.extend(media_type.bytes());
    let check = check(&out[8..]);
    out[..8].copy_from_slice(&check);
    out
}

/// The record with this number at the beginning of these bytes, and its length; none if it is invalid.
pub(super) fn decode(number: u32, bytes: &[u8]) -> Option<(Artifact, usize)> {
    let (head, texts) = bytes.split_at_checked(HEAD_BYTES)?;
    if head[8..12] != number.to_le_bytes() {
        return None;
    }
    let name = usize::from(u16::from_le_bytes([head[60], head[61]]));
    let end = name + usize::from(head[62]);
    let texts = texts.get(..end)?;
    if head[..8] != check(&bytes[8..HEAD_BYTES + end]) {
        return None;
    }
    let artifact = Artifact {
        at_ms: u64::from_le_bytes(head[12..20].try_into().ok()?),
        size: u64::from_le_bytes(head[20..28].try_into().ok()?),
        digest: Digest::from(<[u8; 32]>::try_from(&head[28..60]).ok()?),
        name: ArtifactName::from_bytes(&texts[..name]).ok()?,
        media_type: MediaType::new(std::str::from_utf8(&texts[name..]).ok()?).ok()?,
    };
    Some((artifact, HEAD_BYTES + end))
}

fn check(bytes: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    check
}

#[cfg(test)]
mod tests {
    use super::{Artifact, ArtifactName, Digest, MediaType, decode, encode};

    fn sample() -> Artifact {
        Artifact {
            name: ArtifactName::new("report/ümläut.html").unwrap(),
            digest: Digest::of(b"content"),
            size: 7,
            media_type: MediaType::new("text/html").unwrap(),
            at_ms: 1_700_000_000_123,
        }
    }

    #[test]
    fn a_record_reads_back_from_the_beginning_of_more() {
        let mut bytes = encode(3, &sample());
        let len = bytes.len();
        bytes.extend(b"more");
        assert_eq!(decode(3, &bytes), Some((sample(), len)));
    }

    #[test]
    fn a_record_that_was_moved_changed_or_cut_is_none() {
        let bytes = encode(3, &sample());
        assert_eq!(decode(4, &bytes), None, "moved");
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(3, &changed), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(decode(3, &bytes[..len]), None, "cut to {len}");
        }
        assert_eq!(decode(0, &[0; 2_000]), None, "zeros, as a crash may leave");
    }
}
