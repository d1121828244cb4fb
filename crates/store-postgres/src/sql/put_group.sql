-- Writes groups, after their revs were compared.
INSERT INTO jobhall.groups (
    id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, open, fails
)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::boolean[],
    $9::text[], $10::bigint[], $11::smallint[], $12::text[], $13::boolean[], $14::boolean[]
)
ON CONFLICT (id) DO UPDATE SET
    rev = excluded.rev, closed = excluded.closed, cancel = excluded.cancel, ended_at = excluded.ended_at,
    verdict = excluded.verdict, counts = excluded.counts, open = excluded.open, fails = excluded.fails
