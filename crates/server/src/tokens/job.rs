//! Tokens of jobs: `jh_job_<attempt>_<mac>`. Nothing of them is stored. The mac is made of the attempt and its lease
//! with the hall's own key, so a token is good as long as that attempt holds that lease, and dies with it.

use jobhall_core::{AttemptId, LeaseId};

use super::secret::{Hash, PREFIX, hex, is_hex};

/// Makes and checks the tokens of jobs.
pub(super) struct JobKey(pub [u8; 32]);

impl JobKey {
    fn mac(&self, attempt: AttemptId, lease: LeaseId) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&attempt.job.get().to_be_bytes());
        hasher.update(&attempt.claim.to_be_bytes());
        hasher.update(&lease.0.to_be_bytes());
        hex(hasher.finalize().as_bytes())
    }

    /// The token of an attempt.
    pub(super) fn token(&self, attempt: AttemptId, lease: LeaseId) -> String {
        format!("{PREFIX}job_{attempt}_{}", self.mac(attempt, lease))
    }

    /// Whether this mac was made for the attempt under this lease.
    pub(super) fn made(&self, mac: &str, attempt: AttemptId, lease: LeaseId) -> bool {
        // Compared by their hashes, so that nothing is learnt from where they differ.
        Hash::is(Hash::of(mac), Some(Hash::of(&self.mac(attempt, lease))))
    }
}

/// The attempt and the mac of what looks like a job's token.
pub(super) fn split(token: &str) -> Option<(AttemptId, &str)> {
    let (attempt, mac) = token.strip_prefix(PREFIX)?.strip_prefix("job_")?.split_once('_')?;
    Some((attempt.parse().ok()?, mac)).filter(|(_, mac)| is_hex(mac, 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_good_for_its_attempt_and_lease_alone() {
        let attempt: AttemptId = "17-2".parse().unwrap();
        let (key, other) = (JobKey([1; 32]), JobKey([2; 32]));
        let token = key.token(attempt, LeaseId(7));
        let (told, mac) = split(&token).unwrap();
        assert_eq!(told, attempt);
        assert!(key.made(mac, attempt, LeaseId(7)));
        assert!(!key.made(mac, attempt, LeaseId(8)) && !other.made(mac, attempt, LeaseId(7)));
        assert!(!key.made(mac, "17-3".parse().unwrap(), LeaseId(7)));
        assert!(split("jh_job_17-2_").is_none() && split("jh_job_17_ab").is_none());
        assert!(super::super::secret::split(&token).is_none(), "no token of another kind");
    }
}
