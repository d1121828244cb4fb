//! The prepared statements of a connection, each from the file of its name: prepared once, so that the hot path looks
//! no SQL text up.

use rusqlite::{Connection, PrepFlags, Statement};

/// Prepares a statement that stays.
fn prepare<'c>(conn: &'c Connection, sql: &str) -> rusqlite::Result<Statement<'c>> {
    conn.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
}

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
                    $($name: prepare(conn, include_str!(concat!("sql/", stringify!($name), ".sql")))?,)*
                })
            }
        }
    };
}

statements!(
    /// What the writer says.
    Writes:
    begin commit rollback savepoint rollback_to release checkpoint
    insert_job insert_spec change_live change_end change_any take_key replace_params insert_attempt
    standing state live_holder next_holder success_since job spec
    setting put_setting submit_key put_submit_key
    insert_feed feed_last feed_kept_from
    prune_feed prune_job prune_spec prune_attempts prune_submit_keys
    insert_block close_block shrink_block meta put_meta
);

statements!(
    /// What a reader asks.
    Reads:
    job open_jobs attempts blocks completed settings feed meta
);
