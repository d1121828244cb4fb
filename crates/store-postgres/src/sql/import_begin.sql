-- Settings of the transaction of a move: no statement or idle timeout, and index scans although the tables have no
-- statistics yet.
SELECT
    set_config('lock_timeout', '5s', true), set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)
