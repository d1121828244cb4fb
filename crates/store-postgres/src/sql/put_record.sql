-- Writes records, after their revs were compared.
INSERT INTO jobhall.records (kind, key, rev, at, group_id, bytes, value)
SELECT kind, key, rev, at, group_id, octet_length(value), value
FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::text[])
    AS written (kind, key, rev, at, group_id, value)
ON CONFLICT (kind, key) DO UPDATE SET
    rev = excluded.rev, at = excluded.at, group_id = excluded.group_id, bytes = excluded.bytes, value = excluded.value
