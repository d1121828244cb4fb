//! Attacks by reads of what one job has stored.

use super::Ground;
use crate::under_attack::UnderAttack;

/// Connections of each kind that follow a job.
const FOLLOWERS: usize = 8;
/// Maximum size of a job in a response: its newest attempts, without the data of their errors.
const JOB_BYTES: usize = 300_000;
/// Maximum size of a page of attempts.
const PAGE_BYTES: usize = 5 << 20;

impl Ground {
    /// Followers of a job with a long history of failed attempts.
    pub(super) fn history(&self, attempts: usize) -> UnderAttack {
        let job = r#"{"type":"long","queue":"evil","retry":{"max_attempts":100}}"#;
        let id = self.submit(job)["id"].as_u64().unwrap();
        let error = format!(r#"{{"reason":"no","explanation":"no","data":"{}"}}"#, "x".repeat(250_000));
        let outcome = format!(r#"{{"outcome":"failed","retry":"now","error":{error}}}"#);
        for _ in 0..attempts {
            let given = self.worker.take();
            let path = format!("attempts/{}/outcome", given["id"].as_str().unwrap());
            self.worker.ask("POST", &path, given["lease"].as_str().unwrap(), &outcome);
        }
        let own = self.worker.with(self.worker.take()["token"].as_str().unwrap());
        let followers = (0..FOLLOWERS).flat_map(|_| {
            let paths = [format!("jobs/{id}/events?after=0"), format!("jobs/{id}/log?follow=true")];
            paths.map(|path| self.client.begin("GET", &path, "", 0, b""))
        });
        let followers = followers.collect();
        let (client, path) = (self.client.clone(), format!("jobs/{id}"));
        let attack = UnderAttack::repeating(3, move || {
            let shown = client.send("GET", &path, "", b"");
            assert!(shown.status == 200 && shown.body.len() < JOB_BYTES, "{} bytes", shown.body.len());
            // The token of the job ends with its lease; too many requests with a token that has ended are refused too.
            let shown = own.send("GET", &path, "", b"");
            assert!(
                [200, 401, 429].contains(&shown.status) && shown.body.len() < JOB_BYTES,
                "{}",
                shown.status
            );
            let page = client.send("GET", &format!("{path}/attempts?limit=100"), "", b"");
            assert!([200, 429].contains(&page.status) && page.body.len() < PAGE_BYTES, "{}", page.status);
        });
        attack.and_holding(followers)
    }

    /// Single bytes of an artifact of this size.
    pub(super) fn ranges(&self, bytes: usize) -> UnderAttack {
        let id = self.submit(r#"{"type":"large","queue":"evil"}"#)["id"].as_u64().unwrap();
        let given = self.worker.take();
        let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
        let stored = self.worker.send(
            "PUT",
            &format!("attempts/{attempt}/artifacts/large"),
            lease,
            &vec![b'x'; bytes],
        );
        assert_eq!(stored.status, 200, "{stored:?}");
        let succeeded = r#"{"outcome":"succeeded"}"#;
        self.worker.ask("POST", &format!("attempts/{attempt}/outcome"), lease, succeeded);
        let (client, path) = (self.client.clone(), format!("jobs/{id}/artifacts/large"));
        let range = format!("bytes 0-0/{bytes}");
        UnderAttack::repeating(4, move || {
            let answer = client.first_byte(&path);
            assert_eq!((answer.status, answer.body.as_str()), (206, "x"));
            assert!(answer.head.contains(&range), "{}", answer.head);
        })
    }
}
