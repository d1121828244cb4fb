//! The prepared statements of a connection, from the files in `sql/`. They are prepared once, so that the hot path
//! looks up no SQL text.

use rusqlite::{Connection, PrepFlags, Statement};

fn prepare<'c>(conn: &'c Connection, sql: &str) -> rusqlite::Result<Statement<'c>> {
    conn.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

/// The text of a statement. The statements that read whole jobs or specs share the list of columns.
macro_rules! sql {
    (job) => { $crate::statements::sql!(of_jobs "sql/job.sql") };
    (list) => { $crate::statements::sql!(of_jobs "sql/list.sql") };
    (list_key) => { $crate::statements::sql!(of_jobs "sql/list_key.sql") };
    (export_jobs) => { $crate::statements::sql!(of_jobs "sql/export_jobs.sql") };
    (spec) => { concat!("SELECT\n", include_str!("sql/spec_columns.sql"), include_str!("sql/spec.sql")) };
    (of_jobs $file:literal) => {
        concat!(include_str!("sql/select_job.sql"), include_str!("sql/spec_columns.sql"), include_str!($file))
    };
    ($name:ident) => { include_str!(concat!("sql/", stringify!($name), ".sql")) };
}

pub(crate) use sql;

macro_rules! statements {
    ($(#[$doc:meta])* $set:ident: $($name:ident)*) => {
        $(#[$doc])*
        pub(crate) struct $set<'c> {
            pub(crate) conn: &'c Connection,
            $(pub(crate) $name: Statement<'c>,)*
        }

        impl<'c> $set<'c> {
            pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<$set<'c>> {
                Ok($set {
                    conn,
                    $($name: prepare(conn, sql!($name))?,)*
                })
            }
        }
    };
}

statements!(
    /// The statements of the writer.
    Writes:
    begin commit rollback savepoint rollback_to release checkpoint
    insert_job insert_plain insert_spec insert_spec_member insert_spec_whole
    change_live change_live_plain complete_job complete_job_plain change_any take_key replace_spec insert_attempt
    standing state live_holder next_holder success_since job spec
    setting put_setting remove_setting record record_rev put_record remove_record prune_records
    group_row group_rev put_group put_link remove_links idempotency_key put_idempotency_key
    insert_feed feed_last feed_kept_from insert_audit
    prune_feed prune_group prune_job prune_spec prune_attempts prune_idempotency_keys prune_audit
    insert_block close_block shrink_block meta put_meta
);

statements!(
    /// The statements of a reader.
    Reads:
    job open_jobs attempts blocks select_completed count_completed next_id list list_key id_span settings group_row group_page open_groups members links feed feed_last success_since
    record record_page record_page_group audit meta
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations;

    fn plan(conn: &Connection, sql: &str) -> String {
        let mut explained = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = explained.raw_query();
        let mut lines: Vec<String> = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            lines.push(row.get(3).unwrap());
        }
        lines.join("; ")
    }

    #[test]
    fn statements_go_the_way_they_were_meant_to() {
        let conn = Connection::open_in_memory().unwrap();
        migrations::run(&conn, migrations::ALL, &mut || ()).unwrap();
        let by_id = "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)";
        let live = "SEARCH jobs USING COVERING INDEX jobs_live_key (live_key=?)";
        let next = "SEARCH jobs USING COVERING INDEX jobs_next_key (next_key=?)";
        for (sql, wanted) in [
            (include_str!("sql/change_live.sql"), by_id),
            (include_str!("sql/change_live_plain.sql"), by_id),
            (include_str!("sql/change_any.sql"), by_id),
            (include_str!("sql/live_holder.sql"), live),
            (include_str!("sql/next_holder.sql"), next),
        ] {
            assert_eq!(plan(&conn, sql), wanted, "{sql}");
        }
        for (sql, wanted) in [
            (
                include_str!("sql/complete_job.sql"),
                "SEARCH successor USING COVERING INDEX jobs_next_key (next_key=?)",
            ),
            (
                include_str!("sql/complete_job_plain.sql"),
                "SEARCH successor USING COVERING INDEX jobs_next_key (next_key=?)",
            ),
            (
                include_str!("sql/success_since.sql"),
                "SEARCH specs USING COVERING INDEX specs_key (type=? AND key=? AND rowid>?)",
            ),
            (sql!(open_jobs), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            (sql!(list), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            (include_str!("sql/select_completed.sql"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>?)"),
            (include_str!("sql/select_completed.sql"), "INDEX specs_key (type=? AND key=? AND rowid>?)"),
            (include_str!("sql/next_id.sql"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>?)"),
            (include_str!("sql/prune_idempotency_keys.sql"), "INDEX idempotency_keys_at (at<?)"),
            (include_str!("sql/prune_audit.sql"), "INDEX audit_at (at<?)"),
            (include_str!("sql/open_groups.sql"), "INDEX groups_open (open=? AND rowid<?)"),
            (include_str!("sql/group_page.sql"), "SEARCH groups USING INTEGER PRIMARY KEY (rowid<?)"),
            (include_str!("sql/members.sql"), "INDEX specs_group (group_id=? AND rowid>?)"),
            (include_str!("sql/links.sql"), "SEARCH links USING PRIMARY KEY ((parent,call)>(?,?))"),
            (include_str!("sql/record_page.sql"), "INDEX sqlite_autoindex_records_1 (kind=? AND key>?)"),
            (
                include_str!("sql/record_page_group.sql"),
                "INDEX records_group (kind=? AND group_id=? AND key>?)",
            ),
            (include_str!("sql/prune_records.sql"), "INDEX records_at (kind=? AND at<?)"),
            (include_str!("sql/export_records.sql"), "INDEX sqlite_autoindex_records_1 ((kind,key)>(?,?))"),
            (include_str!("sql/audit.sql"), "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"),
        ] {
            // The queues of a scope are a short list.
            let plan = plan(&conn, sql).replace("SCAN json_each", "");
            assert!(
                plan.contains(wanted) && !plan.contains("SCAN") && !plan.contains("TEMP"),
                "{plan}: {sql}"
            );
        }
    }

    #[test]
    fn audit_l6_jobs_of_a_key_are_found_by_their_index() {
        let conn = Connection::open_in_memory().unwrap();
        migrations::run(&conn, migrations::ALL, &mut || ()).unwrap();
        let plan = plan(&conn, sql!(list_key));
        let by_key = "SEARCH specs USING INDEX specs_key (type=? AND key=? AND rowid<?)";
        assert!(plan.contains(by_key) && !plan.contains("SCAN") && !plan.contains("TEMP"), "{plan}");
    }
}
