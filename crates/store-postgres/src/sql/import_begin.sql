-- What a move asks of its transaction: it may take long, and finds every row by its index although nobody has counted
-- the tables yet.
SELECT
    set_config('lock_timeout', '5s', true), set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)
