//! Job tokens: `jh_job_<attempt>_<mac><seal>`. They are not stored. The MAC is computed from the attempt and its
//! lease with a key of the hall, so a token is valid as long as the attempt holds that lease. The seal is computed
//! from the rest of the token: a forged token is refused without a query to the engine. A token that is made while
//! several keys are valid has a MAC and a seal of each of them.

use jobhall_core::{AttemptId, LeaseId};

use super::keys::{HallKeys, KEYS};
use super::secret::{Hash, PREFIX, hex, is_hex};

/// Hex digits of the MAC, and of the seal after it.
const MAC: usize = 64;
const SEAL: usize = 32;

/// Makes and checks the proofs in the tokens of jobs.
#[derive(Clone, Copy)]
pub(super) struct JobKey(pub [u8; 32]);

/// A job token whose seal is valid, with the MACs that the engine's lease must match.
pub(super) struct JobToken {
    pub attempt: AttemptId,
    proofs: Vec<(JobKey, String)>,
}

impl JobToken {
    pub(super) fn make(keys: &HallKeys, attempt: AttemptId, lease: LeaseId) -> String {
        let mut token = format!("{PREFIX}job_{attempt}_");
        for key in keys.ring().valid() {
            let mac = key.jobs.mac(attempt, lease);
            token += &mac;
            token += &key.jobs.seal(attempt, &mac);
        }
        token
    }

    /// Opens a token that was made with one of these keys, for any lease.
    pub(super) fn open(keys: &HallKeys, token: &str) -> Option<JobToken> {
        let (attempt, rest) = token.strip_prefix(PREFIX)?.strip_prefix("job_")?.split_once('_')?;
        let attempt: AttemptId = attempt.parse().ok()?;
        let count = rest.len() / (MAC + SEAL);
        if count > KEYS || !is_hex(rest, count * (MAC + SEAL)) {
            return None;
        }
        let keys: Vec<JobKey> = keys.ring().valid().map(|key| key.jobs).collect();
        let parts = (0..count).map(|at| rest[at * (MAC + SEAL)..(at + 1) * (MAC + SEAL)].split_at(MAC));
        let sealed = parts.flat_map(|(mac, seal)| {
            let makers = keys.iter().filter(move |key| same(seal, &key.seal(attempt, mac)));
            makers.map(|key| (*key, mac.to_owned()))
        });
        let proofs: Vec<_> = sealed.collect();
        (!proofs.is_empty()).then_some(JobToken { attempt, proofs })
    }

    /// Whether the token was made for the attempt with this lease.
    pub(super) fn is_for(&self, lease: LeaseId) -> bool {
        self.proofs.iter().any(|(key, mac)| same(mac, &key.mac(self.attempt, lease)))
    }
}

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
}

/// Compares hashes, so that timing does not reveal where the texts differ.
fn same(given: &str, known: &str) -> bool {
    Hash::is(Hash::of(given), Some(Hash::of(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(keys: &HallKeys) -> String {
        JobToken::make(keys, "17-2".parse().unwrap(), LeaseId(7))
    }

    #[test]
    fn a_token_is_good_for_its_attempt_and_lease_alone() {
        let keys = HallKeys::fixed(&[1; 32]);
        let token = made(&keys);
        let opened = JobToken::open(&keys, &token).unwrap();
        assert_eq!(opened.attempt, "17-2".parse().unwrap());
        assert!(opened.is_for(LeaseId(7)) && !opened.is_for(LeaseId(8)));
        assert!(super::super::secret::split(&token).is_none(), "no token of another kind");
    }

    #[test]
    fn what_was_not_made_here_is_not_even_opened() {
        let (keys, other) = (HallKeys::fixed(&[1; 32]), HallKeys::fixed(&[2; 32]));
        let token = made(&keys);
        assert!(JobToken::open(&other, &token).is_none());
        assert!(JobToken::open(&keys, &token.replace("17-2", "17-3")).is_none());
        for at in [15, token.len() - 1] {
            let mut wrong = token.clone();
            let digit = if &token[at..=at] == "0" { "1" } else { "0" };
            wrong.replace_range(at..=at, digit);
            assert!(JobToken::open(&keys, &wrong).is_none(), "{wrong}");
        }
        let long = token.clone() + &"0".repeat((MAC + SEAL) * KEYS);
        for bad in ["", "jh_job_", "jh_job_17-2_", "jh_job_17_ab", &token[..token.len() - 1], &long] {
            assert!(JobToken::open(&keys, bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_token_of_an_overlap_is_good_with_either_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hall.key");
        let old = HallKeys::open(&path).unwrap();
        let both = HallKeys::rotate(&path, 60_000).unwrap();
        let good = |keys: &HallKeys, token: &str| {
            JobToken::open(keys, token).is_some_and(|token| token.is_for(LeaseId(7)))
        };
        assert!(good(&both, &made(&old)) && good(&old, &made(&both)));
        let during = made(&both);
        let new = HallKeys::rotate(&path, 0).unwrap();
        assert!(!good(&new, &during) && !good(&new, &made(&old)), "both keys were replaced");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().lines().next().unwrap()).unwrap();
        assert!(good(&HallKeys::open(&path).unwrap(), &made(&new)));
    }
}
