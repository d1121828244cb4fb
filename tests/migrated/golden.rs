//! The jobs in the golden file of a store.

use std::path::Path;

/// A job of the fixture.
#[derive(Debug, Default)]
pub struct Known {
    pub id: String,
    pub state: String,
    /// Of the last attempt, if any.
    pub outcome: Option<String>,
    pub reason: Option<String>,
    /// The member `case` of its params.
    pub case: String,
}

impl Known {
    pub fn is_completed(&self) -> bool {
        ["succeeded", "failed", "crashed", "cancelled"].contains(&self.state.as_str())
    }
}

/// The value after a label.
fn value<'a>(line: &'a str, label: &str, end: char) -> Option<&'a str> {
    let (_, behind) = line.split_once(label)?;
    Some(behind.split(end).next().unwrap_or(behind))
}

pub fn read(path: &Path) -> Vec<Known> {
    let text = std::fs::read_to_string(path).unwrap();
    let (mut jobs, mut outcome) = (Vec::<Known>::new(), None);
    for line in text.lines() {
        if let Some(job) = line.strip_prefix("job ") {
            let (id, state) = (job.split(' ').next().unwrap(), value(line, " state=", ' ').unwrap());
            outcome = value(line, " outcome=", ' ').map(str::to_owned);
            jobs.push(Known { id: id.to_owned(), state: state.to_owned(), ..Known::default() });
        } else if let Some(last) = jobs.last_mut() {
            match line.split_whitespace().next() {
                Some("asked") => last.case = value(line, "{\"case\": \"", '"').unwrap_or_default().to_owned(),
                Some("ended") => last.reason = value(line, " error=", '(').map(str::to_owned),
                Some("lease") => last.outcome = outcome.take(),
                _ => {}
            }
        }
    }
    assert!(jobs.len() > 80, "the golden file lists the jobs");
    jobs
}

/// The id of the job with this case.
pub fn of_case<'a>(golden: &'a [Known], case: &str) -> &'a str {
    let found: Vec<_> = golden.iter().filter(|known| known.case == case).collect();
    assert_eq!(found.len(), 1, "one job has the case {case:?}");
    &found[0].id
}
