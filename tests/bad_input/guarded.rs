//! A server that is checked before and after: the same jobs, no file left open, no panic, and it still works.

use std::ops::Deref;

use jobhall_tests::{Answer, Rig, eventually, files, text};

pub struct Guarded {
    rig: Rig,
    token: String,
    pid: u32,
    files: usize,
    jobs: String,
}

impl Deref for Guarded {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Guarded {
    /// A server without a worker.
    pub fn server() -> Guarded {
        Guarded::with(&[])
    }

    /// A server without a worker, with these additional arguments.
    pub fn with(words: &[&str]) -> Guarded {
        Guarded::new(Rig::server(words))
    }

    /// A server with its local worker, which has connected.
    pub fn up() -> Guarded {
        let rig = Rig::up(&["--slots", "1"]);
        eventually("the local worker", || text(&rig.run(&["worker", "list"]).stdout).contains("local"));
        Guarded::new(rig)
    }

    /// A server with one job that no worker takes.
    fn new(mut rig: Rig) -> Guarded {
        let (token, pid) = (rig.token(), rig.hall().pid());
        let mut guarded = Guarded { rig, token, pid, files: 0, jobs: String::new() };
        let made = guarded.post("/api/v1/jobs", r#"{"type":"untouched","key":"k"}"#);
        assert_eq!(made.status, 201, "{}", made.body);
        guarded.jobs = guarded.all_jobs();
        guarded.files = files(pid);
        guarded
    }

    fn all_jobs(&self) -> String {
        self.get("/api/v1/jobs?limit=500").body
    }

    /// A request with token and host, and these additional header lines.
    pub fn head(&self, first: &str, lines: &str) -> String {
        let token = &self.token;
        format!("{first} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{lines}\r\n")
    }

    /// A whole request with this body.
    pub fn request(&self, first: &str, lines: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
        let length = body.as_ref().len();
        let lines = format!("Connection: close\r\nContent-Length: {length}\r\n{lines}");
        let mut bytes = self.head(first, &lines).into_bytes();
        bytes.extend_from_slice(body.as_ref());
        bytes
    }

    pub fn get(&self, path: &str) -> Answer {
        self.raw().say(self.request(&format!("GET {path}"), "", "")).answer()
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.raw().say(self.request(&format!("POST {path}"), "", body)).answer()
    }

    /// The server is unchanged: nothing stored, nothing left open, no panic.
    pub fn is_unharmed(&self) {
        assert_eq!(self.all_jobs(), self.jobs, "the jobs are as they were");
        self.is_well();
    }

    /// The server works, has closed all connections, and never panicked.
    pub fn is_well(&self) {
        assert_eq!(self.get("/readyz").status, 200);
        eventually("the close of ended connections", || files(self.pid) <= self.files);
        let said = self.said("hall");
        assert!(!said.contains("panicked"), "{said}");
    }
}
