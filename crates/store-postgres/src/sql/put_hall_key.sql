-- Stores the identifier $1 of the hall's key, which host $2 has at path $3, if there is none yet, or in place of $4, which
-- is valid until $5 milliseconds since 1970.
INSERT INTO jobhall.hall_key AS stored (one, id, host, path, written) VALUES (true, $1, $2, $3, clock_timestamp())
ON CONFLICT (one) DO UPDATE SET
    id = excluded.id, host = excluded.host, path = excluded.path, written = excluded.written,
    earlier_id = stored.id, earlier_until = to_timestamp($5::bigint / 1000.0)
WHERE stored.id = $4
