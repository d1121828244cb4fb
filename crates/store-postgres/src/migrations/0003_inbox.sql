-- Jobs out of other programs' transactions. A program calls jobhall.submit in its own transaction; what that leaves here
-- is a job's request. The node that holds the desk makes a job of it, and takes the row away in the same transaction.

-- Requests that are not jobs yet. Set by jobhall.submit; gone with the job's insert, or refused.
CREATE TABLE jobhall.inbox (
    id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- told to the caller; not in the order of the commits
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),       -- when it was written
    role text        NOT NULL DEFAULT session_user,            -- by whom
    body text        NOT NULL                                  -- JSON, as POST /api/v1/jobs takes it
);

-- Requests that cannot be jobs, for 30 days. Set by the node that holds the desk.
CREATE TABLE jobhall.inbox_refused (
    id         bigint      PRIMARY KEY, -- as it was
    at         timestamptz NOT NULL,    -- as it was
    role       text        NOT NULL,    -- as it was
    body       text        NOT NULL,    -- as it was
    refused_at timestamptz NOT NULL,    -- when it was refused
    why        text        NOT NULL     -- what is wrong with it
);

CREATE INDEX inbox_refused_at ON jobhall.inbox_refused (refused_at);

-- Ends with an error that names the argument unless a text is a name: letters, digits, '.', '_' and '-'.
CREATE FUNCTION jobhall.check_name(field text, given text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM jobhall.check_text(field, given, 128);
    IF given !~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' THEN
        RAISE EXCEPTION '% is %, but only letters, digits, ".", "_" and "-" are allowed, a letter or digit first',
            field, quote_literal(left(given, 140)) USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Ends with an error that names the argument unless a text has 1 to so many bytes, and none of them controls anything.
CREATE FUNCTION jobhall.check_text(field text, given text, most integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given = '' THEN
        RAISE EXCEPTION '% is empty', field USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(given) > most THEN
        RAISE EXCEPTION '% has % bytes, the limit is %', field, octet_length(given), most
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF given ~ '[\x01-\x1f\x7f-\x9f]' THEN
        RAISE EXCEPTION '% has a control character, which is not allowed there', field
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Ends with an error that names the argument unless a number is within its bounds.
CREATE FUNCTION jobhall.check_number(field text, given bigint, lowest bigint, highest bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given NOT BETWEEN lowest AND highest THEN
        RAISE EXCEPTION '% of % is outside % to %', field, given, lowest, highest
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Asks for a job: it exists exactly when the caller's transaction commits. See docs/sql.md.
CREATE FUNCTION jobhall.submit(
    type text,
    params jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    key text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    needs text DEFAULT NULL,
    uses text DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    on_duplicate text DEFAULT NULL,
    after bigint[] DEFAULT NULL,
    group_id bigint DEFAULT NULL,
    owner text DEFAULT NULL,
    tags text[] DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    body jsonb;
    tag text;
    inbox_id bigint;
    moment timestamptz := coalesce(run_at, clock_timestamp() + delay);
BEGIN
    IF type IS NULL THEN
        RAISE EXCEPTION 'type is missing' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM jobhall.check_name('type', type), jobhall.check_name('queue', queue),
        jobhall.check_text('key', key, 512), jobhall.check_text('owner', owner, 128),
        jobhall.check_text('needs', nullif(needs, ''), 16384), jobhall.check_text('uses', nullif(uses, ''), 16384),
        jobhall.check_number('max_attempts', max_attempts, 1, 1000),
        jobhall.check_number('group_id', group_id, 1, 9007199254740991),
        jobhall.check_number('params in bytes', octet_length(params::text), 0, 262144),
        jobhall.check_number('tags', cardinality(tags), 0, 32),
        jobhall.check_number('after', cardinality(after), 0, 10000);
    FOREACH tag IN ARRAY coalesce(tags, '{}') LOOP
        PERFORM jobhall.check_text('tags', coalesce(tag, ''), 64);
        IF tag ~ '[\s,"\\]' THEN
            RAISE EXCEPTION 'tags has %, but no space, comma, quote or backslash is allowed', quote_literal(tag)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay say the same thing: give one' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT isfinite(moment) OR moment NOT BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59Z' THEN
        RAISE EXCEPTION '% is outside 1970 to 9999', CASE WHEN delay IS NULL THEN 'run_at' ELSE 'delay' END
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF on_duplicate NOT IN ('join', 'reject', 'supersede', 'run_again') THEN
        RAISE EXCEPTION 'on_duplicate is %, but must be join, reject, supersede or run_again', quote_literal(on_duplicate)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- What is missing is left out, so that it is as the type or the hall says.
    SELECT jsonb_object_agg(field, value) INTO STRICT body FROM (VALUES
        ('type', to_jsonb(type)), ('queue', to_jsonb(queue)), ('key', to_jsonb(key)),
        ('priority', to_jsonb(priority)), ('needs', to_jsonb(needs)), ('uses', to_jsonb(uses)),
        -- Up to the next millisecond: never early.
        ('run_at', to_jsonb(to_char((moment + interval '999 microseconds') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))),
        ('retry', CASE WHEN max_attempts IS NOT NULL THEN jsonb_build_object('max_attempts', max_attempts) END),
        ('on_duplicate', to_jsonb(on_duplicate)), ('after', to_jsonb(after)), ('group', to_jsonb(group_id)),
        ('owner', to_jsonb(owner)), ('tags', to_jsonb(tags))
    ) AS given (field, value) WHERE value IS NOT NULL;
    INSERT INTO jobhall.inbox (body) VALUES ((body || jsonb_build_object('params', coalesce(params, '{}')))::text)
        RETURNING id INTO STRICT inbox_id;
    PERFORM pg_notify('jobhall_inbox', '');
    RETURN inbox_id;
END $$;

-- The job that came of a call of jobhall.submit; NULL: none yet, or it is more than a day ago. Ends with an error if the
-- request was refused.
CREATE FUNCTION jobhall.job_of(inbox_id bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE reason text;
BEGIN
    SELECT why INTO reason FROM jobhall.inbox_refused WHERE id = inbox_id;
    IF FOUND THEN
        RAISE EXCEPTION 'inbox row % was refused: %', inbox_id, reason USING ERRCODE = 'JH004';
    END IF;
    RETURN (SELECT (answer::jsonb -> 0 ->> 0)::bigint FROM jobhall.submit_keys
        WHERE scope = 'sql:inbox' AND submit_keys.key = inbox_id::text);
END $$;

-- Puts a request aside that cannot be a job. Only the node that holds the desk may.
CREATE FUNCTION jobhall.refuse(at_epoch bigint, inbox_id bigint, reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM jobhall.desk WHERE epoch = at_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another node has taken the desk' USING ERRCODE = 'JH001';
    END IF;
    WITH gone AS (DELETE FROM jobhall.inbox WHERE id = inbox_id RETURNING *)
    INSERT INTO jobhall.inbox_refused (id, at, role, body, refused_at, why)
    SELECT id, at, role, body, clock_timestamp(), reason FROM gone;
    DELETE FROM jobhall.inbox_refused WHERE refused_at < clock_timestamp() - interval '30 days';
END $$;

-- Whoever may submit is granted that by name.
REVOKE ALL ON FUNCTION jobhall.submit FROM PUBLIC;
REVOKE ALL ON FUNCTION jobhall.job_of FROM PUBLIC;
