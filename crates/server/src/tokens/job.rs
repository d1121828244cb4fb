//! Job tokens: `jh_job_<attempt>_<mac><seal>`. They are not stored. The MAC is computed from the attempt and its
//! lease with the key of the hall, so a token is valid as long as the attempt holds that lease. The seal is computed
//! from the rest of the token: a forged token is refused without a query to the engine.

use jobhall_core::{AttemptId, LeaseId};

use super::secret::{Hash, PREFIX, hex, is_hex};

/// Hex digits of the MAC, and of the seal after it.
const MAC: usize = 64;
const SEAL: usize = 32;

/// Makes and checks the tokens of jobs.
pub(super) struct JobKey(pub [u8; 32]);

impl JobKey {
    fn mac(&self, attempt: AttemptId, lease: LeaseId) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"mac").update(&attempt.job.get().to_be_bytes());
        hasher.update(&attempt.claim.to_be_bytes()).update(&lease.0.to_be_bytes());
        hex(hasher.finalize().as_bytes())
    }

    fn seal(&self, attempt: AttemptId, mac: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"seal").update(&attempt.job.get().to_be_bytes());
        hasher.update(&attempt.claim.to_be_bytes()).update(mac.as_bytes());
        hex(&hasher.finalize().as_bytes()[..SEAL / 2])
    }

    pub(super) fn token(&self, attempt: AttemptId, lease: LeaseId) -> String {
        let mac = self.mac(attempt, lease);
        format!("{PREFIX}job_{attempt}_{mac}{}", self.seal(attempt, &mac))
    }

    /// The attempt and the MAC of a token made with this key, for any lease.
    pub(super) fn open<'a>(&self, token: &'a str) -> Option<(AttemptId, &'a str)> {
        let (attempt, rest) = token.strip_prefix(PREFIX)?.strip_prefix("job_")?.split_once('_')?;
        let attempt: AttemptId = attempt.parse().ok()?;
        let (mac, seal) = is_hex(rest, MAC + SEAL).then(|| rest.split_at(MAC))?;
        same(seal, &self.seal(attempt, mac)).then_some((attempt, mac))
    }

    /// Whether this MAC was made for the attempt with this lease.
    pub(super) fn made(&self, mac: &str, attempt: AttemptId, lease: LeaseId) -> bool {
        same(mac, &self.mac(attempt, lease))
    }
}

/// Compares hashes, so that timing does not reveal where the texts differ.
fn same(given: &str, known: &str) -> bool {
    Hash::is(Hash::of(given), Some(Hash::of(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_good_for_its_attempt_and_lease_alone() {
        let attempt: AttemptId = "17-2".parse().unwrap();
        let (key, other) = (JobKey([1; 32]), JobKey([2; 32]));
        let token = key.token(attempt, LeaseId(7));
        let (told, mac) = key.open(&token).unwrap();
        assert_eq!(told, attempt);
        assert!(key.made(mac, attempt, LeaseId(7)));
        assert!(!key.made(mac, attempt, LeaseId(8)) && !other.made(mac, attempt, LeaseId(7)));
        assert!(!key.made(mac, "17-3".parse().unwrap(), LeaseId(7)));
        assert!(super::super::secret::split(&token).is_none(), "no token of another kind");
    }

    #[test]
    fn what_was_not_made_here_is_not_even_opened() {
        let (key, other) = (JobKey([1; 32]), JobKey([2; 32]));
        let token = key.token("17-2".parse().unwrap(), LeaseId(7));
        assert!(other.open(&token).is_none());
        assert!(key.open(&token.replace("17-2", "17-3")).is_none());
        for at in [15, token.len() - 1] {
            let mut wrong = token.clone();
            let digit = if &token[at..=at] == "0" { "1" } else { "0" };
            wrong.replace_range(at..=at, digit);
            assert!(key.open(&wrong).is_none(), "{wrong}");
        }
        for bad in ["", "jh_job_", "jh_job_17-2_", "jh_job_17_ab", &token[..token.len() - 1]] {
            assert!(key.open(bad).is_none(), "{bad}");
        }
    }
}
