-- Idempotency keys have the field's name. Functions are replaced, not dropped: operators have granted some of them.

ALTER TABLE jobhall.submit_keys RENAME TO idempotency_keys;
ALTER TABLE jobhall.idempotency_keys RENAME CONSTRAINT submit_keys_pkey TO idempotency_keys_pkey;
ALTER INDEX jobhall.submit_keys_at RENAME TO idempotency_keys_at;

-- The job that came of a call of jobhall.submit; NULL: none yet, or it is more than a day ago. Ends with an error if the
-- request was refused.
CREATE OR REPLACE FUNCTION jobhall.job_of(inbox_id bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE reason text;
BEGIN
    SELECT why INTO reason FROM jobhall.inbox_refused WHERE id = inbox_id;
    IF FOUND THEN
        RAISE EXCEPTION 'inbox row % was refused: %', inbox_id, reason USING ERRCODE = 'JH004';
    END IF;
    RETURN (SELECT (answer::jsonb -> 0 ->> 0)::bigint FROM jobhall.idempotency_keys AS known
        WHERE scope = 'sql:inbox' AND known.key = inbox_id::text);
END $$;
