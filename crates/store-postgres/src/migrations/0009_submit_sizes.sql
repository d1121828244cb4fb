-- jobhall.submit checks needs and uses with the limit of the server, 1,024 bytes, so that a call that is too large fails
-- at once and not after its commit.

-- Submits a job: it exists exactly if the caller's transaction commits. See docs/sql.md.
CREATE OR REPLACE FUNCTION jobhall.submit(
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
    moment timestamptz := run_at;
    notify text := coalesce(nullif(current_setting('jobhall.notify', true), ''), 'on');
BEGIN
    IF type IS NULL THEN
        RAISE EXCEPTION 'type is missing' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM jobhall.check_name('type', type), jobhall.check_name('queue', queue),
        jobhall.check_text('key', key, 512), jobhall.check_text('owner', owner, 128),
        jobhall.check_text('needs', nullif(needs, ''), 1024), jobhall.check_text('uses', nullif(uses, ''), 1024),
        jobhall.check_number('max_attempts', max_attempts, 1, 1000),
        jobhall.check_number('group_id', group_id, 1, 9007199254740991),
        jobhall.check_params(params), jobhall.check_list('tags', tags, 32), jobhall.check_list('after', after, 10000);
    PERFORM jobhall.check_number('after', id, 1, 9007199254740991)
        FROM unnest(after) AS wrong (id) WHERE id NOT BETWEEN 1 AND 9007199254740991;
    FOREACH tag IN ARRAY coalesce(tags, '{}') LOOP
        PERFORM jobhall.check_text('tags', tag, 64);
        IF tag ~ '[\s,"\\]' THEN
            RAISE EXCEPTION 'tags has %, but no space, comma, quote or backslash is allowed', quote_literal(tag)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay say the same thing: give one' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF delay IS NOT NULL THEN
        BEGIN
            moment := clock_timestamp() + delay;
        EXCEPTION WHEN datetime_field_overflow THEN
            moment := 'infinity';
        END;
    END IF;
    IF NOT isfinite(moment) OR moment NOT BETWEEN '1970-01-01Z' AND '9999-12-31 23:59:59Z' THEN
        RAISE EXCEPTION '% is outside 1970 to 9999', CASE WHEN delay IS NULL THEN 'run_at' ELSE 'delay' END
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF on_duplicate NOT IN ('join', 'reject', 'supersede', 'run_again') THEN
        RAISE EXCEPTION 'on_duplicate is %, but must be join, reject, supersede or run_again', quote_literal(on_duplicate)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF notify NOT IN ('on', 'off') THEN
        RAISE EXCEPTION 'jobhall.notify is %, but must be on or off', quote_literal(notify)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Missing arguments are left out, so that the defaults of the type apply.
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
    IF notify = 'on' THEN
        PERFORM pg_notify('jobhall_inbox', '');
    END IF;
    RETURN inbox_id;
END $$;
