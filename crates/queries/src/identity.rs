//! Identities are the first 160 bits of BLAKE3 over the transcript: collisions are out of reach, and the key of a job
//! stays short.

use jobhall_core::query::{Hasher, Identity};

/// Hashes a transcript.
#[derive(Clone, Default)]
pub struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn identity(&self) -> Identity {
        let mut bytes = [0; 20];
        self.0.finalize_xof().fill(&mut bytes);
        Identity::new(bytes)
    }
}

/// The identity of these bytes.
#[must_use]
pub fn identity_of(bytes: &[u8]) -> Identity {
    let mut hasher = Blake3::default();
    hasher.update(bytes);
    hasher.identity()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_beginning_of_blake3() {
        // The test vector of BLAKE3 for no bytes begins with af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9.
        let identity = identity_of(b"");
        let hex: String = identity.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9");
        assert_eq!(identity.to_string().len(), 32);
        assert_eq!(identity, {
            let mut parts = Blake3::default();
            parts.update(b"");
            parts.clone().identity()
        });
    }
}
