-- Several nodes, one desk: who holds it, who else runs, and the fence that every commit passes. Times here are of the
-- database's clock, so that the nodes need not agree on theirs.

-- One row. The node in it is the only one whose commits pass, until `until`; who comes after that may take it.
CREATE TABLE jobhall.desk (
    one   boolean     PRIMARY KEY CHECK (one), -- there is one desk
    epoch bigint      NOT NULL,                -- raised by every taking
    node  text        NOT NULL,                -- who took it last; '': nobody ever
    url   text        NOT NULL,                -- where the others find that node
    until timestamptz NOT NULL                 -- set by taking and renewing; gone back by leaving
);

INSERT INTO jobhall.desk (one, epoch, node, url, until) VALUES (true, 0, '', '', '-infinity');

-- Who runs, holder or door. Written whenever a node asks for the desk or renews it; removed by its leaving or by age.
CREATE TABLE jobhall.nodes (
    name    text        PRIMARY KEY, -- unique for every start of a process
    url     text        NOT NULL,    -- where it is reached
    version text        NOT NULL,    -- of its program
    started timestamptz NOT NULL,    -- when it was first seen
    seen    timestamptz NOT NULL     -- when it was last seen
) WITH (fillfactor = 50);

-- What nodes know each other by. Made once, by the first that opens the database.
CREATE TABLE jobhall.hall (
    one    boolean PRIMARY KEY CHECK (one), -- there is one hall
    secret text    NOT NULL                 -- 32 random bytes, in hex
);

-- A node was seen.
CREATE FUNCTION jobhall.seen(node text, at_url text, its_version text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobhall.nodes AS stored (name, url, version, started, seen)
    VALUES (node, at_url, its_version, clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET url = excluded.url, version = excluded.version, seen = excluded.seen;
END $$;

-- Takes the desk if it is free or its time is over; tells who has it, at which epoch and for how long. A plain look
-- comes first, so that nobody waits for a lock while the holder is well. FOR UPDATE waits for the commits under way:
-- they hold the row FOR KEY SHARE, which a mere UPDATE would not wait for.
CREATE FUNCTION jobhall.take_desk(
    taker text, at_url text, its_version text, term_ms bigint,
    OUT mine boolean, OUT epoch bigint, OUT node text, OUT url text, OUT left_ms bigint
) LANGUAGE plpgsql AS $$
DECLARE held jobhall.desk;
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM jobhall.seen(taker, at_url, its_version);
    SELECT * INTO STRICT held FROM jobhall.desk;
    mine := false;
    IF held.until <= clock_timestamp() THEN
        SELECT * INTO STRICT held FROM jobhall.desk FOR UPDATE;
        IF held.until <= clock_timestamp() THEN
            UPDATE jobhall.desk AS stored SET
                epoch = stored.epoch + 1, node = taker, url = at_url,
                until = clock_timestamp() + term_ms * interval '1 millisecond'
            RETURNING * INTO STRICT held;
            mine := true;
            PERFORM pg_notify('jobhall_desk', held.epoch::text);
        END IF;
    END IF;
    epoch := held.epoch;
    node := held.node;
    url := held.url;
    left_ms := greatest(0, extract(epoch FROM held.until - clock_timestamp()) * 1000)::bigint;
END $$;

-- Begins every commit, inside its transaction: bounds what a lost connection may block, takes the desk's row at the
-- expected epoch, and sets the number of the commit. That number settles an unknown outcome: whoever sets it first has
-- it, so a commit whose fate is unknown either has set it, or never can once it was set in its place.
CREATE FUNCTION jobhall.begin_commit(at_epoch bigint, number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One way to every row: by its index, one after the other. Plans made while the tables were small stay right.
    PERFORM set_config('lock_timeout', '10s', true), set_config('statement_timeout', '60s', true),
        set_config('idle_in_transaction_session_timeout', '10s', true), set_config('jit', 'off', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM 1 FROM jobhall.desk WHERE epoch = at_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another node has taken the desk' USING ERRCODE = 'JH001';
    END IF;
    UPDATE jobhall.meta SET value = number WHERE name = 'commits' AND value = number - 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'commit % was done already', number USING ERRCODE = 'JH002';
    END IF;
END $$;

-- Ends the transaction unless as many rows were found as the caller decided on.
CREATE FUNCTION jobhall.expect(met bigint, wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF met <> wanted THEN
        RAISE EXCEPTION '% rows instead of %', met, wanted USING ERRCODE = 'JH003';
    END IF;
END $$;
