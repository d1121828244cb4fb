-- The row that says which node leads has the field's name. Nodes of version 0.1.0 that still run lose the leadership:
-- the epoch is raised, and what they commit at the old one is refused.

ALTER TABLE jobhall.desk RENAME TO leadership;
ALTER TABLE jobhall.leadership RENAME CONSTRAINT desk_pkey TO leadership_pkey;
ALTER TABLE jobhall.leadership RENAME CONSTRAINT desk_one_check TO leadership_one_check;
UPDATE jobhall.leadership SET epoch = epoch + 1, until = '-infinity' WHERE epoch > 0;

DROP FUNCTION jobhall.take_desk;

-- Takes the leadership if it is free or its term is over; returns who leads, at which epoch and for how long. A plain
-- read comes first, so that no node waits for a lock while the leader is healthy. FOR UPDATE waits for the commits under
-- way: they hold the row FOR KEY SHARE, which a mere UPDATE would not wait for.
CREATE FUNCTION jobhall.take_leadership(
    taker text, at_url text, its_version text, term_ms bigint,
    OUT mine boolean, OUT epoch bigint, OUT node text, OUT url text, OUT left_ms bigint
) LANGUAGE plpgsql AS $$
DECLARE held jobhall.leadership;
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM jobhall.seen(taker, at_url, its_version);
    SELECT * INTO STRICT held FROM jobhall.leadership;
    mine := false;
    IF held.until <= clock_timestamp() THEN
        SELECT * INTO STRICT held FROM jobhall.leadership FOR UPDATE;
        IF held.until <= clock_timestamp() THEN
            UPDATE jobhall.leadership AS stored SET
                epoch = stored.epoch + 1, node = taker, url = at_url,
                until = clock_timestamp() + term_ms * interval '1 millisecond'
            RETURNING * INTO STRICT held;
            mine := true;
            PERFORM pg_notify('jobhall_leadership', held.epoch::text);
        END IF;
    END IF;
    epoch := held.epoch;
    node := held.node;
    url := held.url;
    left_ms := greatest(0, extract(epoch FROM held.until - clock_timestamp()) * 1000)::bigint;
END $$;

-- Begins every commit, inside its transaction: bounds what a lost connection may block, locks the leadership's row at
-- the expected epoch, and sets the number of the commit. That number resolves an unknown outcome: the first to set it has
-- it, so a commit whose outcome is unknown either has set it, or never can once a tombstone has.
CREATE OR REPLACE FUNCTION jobhall.begin_commit(at_epoch bigint, number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One way to every row: by its index, one after the other. Plans made while the tables were small stay right.
    PERFORM set_config('lock_timeout', '10s', true), set_config('statement_timeout', '60s', true),
        set_config('idle_in_transaction_session_timeout', '10s', true), set_config('jit', 'off', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM 1 FROM jobhall.leadership WHERE epoch = at_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another node leads now' USING ERRCODE = 'JH001';
    END IF;
    UPDATE jobhall.meta SET value = number WHERE name = 'commits' AND value = number - 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'commit % was done already', number USING ERRCODE = 'JH002';
    END IF;
END $$;

-- Puts a request aside that cannot be a job. Only the leader may.
CREATE OR REPLACE FUNCTION jobhall.refuse(at_epoch bigint, inbox_id bigint, reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM jobhall.leadership WHERE epoch = at_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another node leads now' USING ERRCODE = 'JH001';
    END IF;
    WITH gone AS (DELETE FROM jobhall.inbox WHERE id = inbox_id RETURNING *)
    INSERT INTO jobhall.inbox_refused (id, at, role, body, refused_at, why)
    SELECT id, at, role, body, clock_timestamp(), reason FROM gone;
    DELETE FROM jobhall.inbox_refused WHERE refused_at < clock_timestamp() - interval '30 days';
END $$;
