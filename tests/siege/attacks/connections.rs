//! Attacks that hold connections: readers that do not read, uploads that drip, streams, polls and sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobhall_tests::{Raw, eventually};

use super::{Ground, SESSIONS, WAITING};
use crate::under_attack::UnderAttack;

/// A connection on which requests are sent and no response is read.
struct SlowReader {
    raw: Raw,
    /// How much of the current request was sent.
    sent: usize,
}

impl SlowReader {
    /// Sends requests until the socket would block; returns whether the server has cut the connection.
    fn is_cut(&mut self, request: &[u8]) -> bool {
        loop {
            match self.raw.offer(&request[self.sent..]) {
                Some(0) => return false,
                Some(count) => self.sent = (self.sent + count) % request.len(),
                None => return true,
            }
        }
    }
}

impl Ground {
    /// Requests without a token whose responses are never read, on as many connections as there were before when the
    /// server cuts some.
    pub(super) fn slow_readers(&self, count: usize) -> UnderAttack {
        let address = self.address;
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(100).into_bytes();
        let open = move || SlowReader { raw: Raw::open(address), sent: 0 };
        let mut readers: Vec<_> = (0..count).map(|_| open()).collect();
        let cut = Arc::new(AtomicUsize::new(0));
        let counted = cut.clone();
        let attack = UnderAttack::pacing(move || {
            for reader in readers.iter_mut().filter_map(|reader| reader.is_cut(&request).then_some(reader)) {
                *reader = open();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        eventually("the server to cut as many connections", || cut.load(Ordering::Relaxed) >= count);
        attack
    }

    /// Uploads of one attempt that send a byte from time to time.
    pub(super) fn uploads(&self) -> UnderAttack {
        self.submit(r#"{"type":"up","queue":"evil"}"#);
        let given = self.worker.take();
        let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
        let begin = |n: usize| {
            let path = format!("attempts/{attempt}/artifacts/f{n}");
            self.worker.begin("PUT", &path, lease, 1_000_000, b"x")
        };
        let mut connections: Vec<_> = (0..128).map(begin).collect();
        let attack = UnderAttack::pacing(move || {
            connections.retain_mut(|raw| raw.offer(b"x").is_some());
        });
        let path = format!("attempts/{attempt}/artifacts/more");
        eventually("the refusal of an upload", || {
            let answer = self.worker.send("PUT", &path, lease, b"x");
            answer.status == 503 && answer.body.contains("8 uploads of attempt")
        });
        attack
    }

    /// Event streams and long polls.
    pub(super) fn streams(&self, count: usize) -> UnderAttack {
        let mut streams: Vec<_> =
            (0..count).map(|_| self.client.begin("GET", "events", "", 0, b"")).collect();
        assert_eq!(refused(&mut streams, "200"), count - WAITING, "streams of one token are refused");
        let poll = br#"{"slots":1,"wait_s":60}"#;
        let polls =
            (0..count).map(|_| self.worker.begin("POST", "vacancies", "", poll.len(), poll)).collect();
        let attack = UnderAttack::holding(streams).and_holding(polls);
        eventually("the refusal of a poll", || {
            self.worker.send("POST", "vacancies", "", br#"{"slots":1,"wait_s":0}"#).status == 429
        });
        attack
    }

    /// Sessions that say nothing; then ever more of them.
    pub(super) fn sessions(&self, count: usize) -> UnderAttack {
        let mut sessions: Vec<_> = (0..count).map(|_| self.worker.session()).collect();
        let refusals = refused(&mut sessions, "101");
        // A session without a hello is closed after some time, so on a slow machine there may be fewer refusals.
        assert!((1..=count - SESSIONS).contains(&refusals), "{refusals} sessions of one token are refused");
        let worker = self.worker.clone();
        let attack = UnderAttack::repeating(2, move || {
            refused(&mut [worker.session()], "101");
        });
        attack.and_holding(sessions)
    }
}

/// The number of requests that are answered with 429; the others have this status.
fn refused(requests: &mut [Raw], admitted: &str) -> usize {
    let mut refused = 0;
    for raw in requests {
        let head = raw.next("HTTP/1.1 200".len()).expect("a response");
        match String::from_utf8_lossy(&head).split_once(' ') {
            Some((_, "429")) => refused += 1,
            Some((_, status)) => assert_eq!(status, admitted),
            None => panic!("no status in {head:?}"),
        }
    }
    refused
}
