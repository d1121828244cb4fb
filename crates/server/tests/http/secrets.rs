use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

use crate::server::TestServer;

/// Collects all log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
        }
    }
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|found| found == word.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_found_in_database_blobs_or_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
    let hall = TestServer::start().await;
    let mut secrets = vec![hall.admin.clone(), hall.client.clone(), hall.worker.clone(), hall.tokens.code()];
    secrets.push(hall.secret(r#"{"name":"c2","role":"client"}"#).await);
    let join = hall.secret(r#"{"role":"worker","kind":"join"}"#).await;
    let joined = hall.send("POST", "/api/v1/join", &join, &[], br#"{"name":"gpu"}"#).await.json();
    secrets.extend([join, joined["secret"].as_str().unwrap().to_owned()]);
    hall.submit(r#"{"type":"t","params":{"a":1}}"#).await;
    let given = hall.take().await;
    secrets.push(given["token"].as_str().unwrap().to_owned());
    hall.word(&given, "log", b"a line\n").await;
    let entered = hall.send("GET", &format!("/?code={}", secrets[3]), "", &[], b"").await;
    let pair = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    let cookie = pair.split('=').nth(1).unwrap().to_owned();
    assert_eq!(hall.send("GET", "/api/v1/audit", "", &[("Cookie", pair)], b"").await.status, 200);
    hall.send("GET", "/api/v1/jobs", &format!("{}0", secrets[0]), &[], b"")
        .await
        .problem(401, "unauthorized");
    hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await;
    secrets.push(cookie);

    let TestServer { dir, running, .. } = hall;
    running.unwrap().stop().await;
    let mut found = Vec::new();
    files(dir.path(), &mut found);
    assert!(found.iter().any(|(name, bytes)| name.ends_with("hall.db") && !bytes.is_empty()));
    assert!(found.iter().any(|(_, bytes)| has(bytes, "a line")), "the log is among the files");
    found.retain(|(name, _)| !name.ends_with("admin.token"));
    let logged = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(has(&logged, "server listening"), "the log was captured");
    found.push(("the log".to_owned(), logged));
    for (at, secret) in secrets.iter().enumerate() {
        let secret = secret.rsplit('_').next().unwrap();
        for (name, bytes) in &found {
            assert!(!has(bytes, secret), "secret {at} is in {name}");
        }
    }
}
