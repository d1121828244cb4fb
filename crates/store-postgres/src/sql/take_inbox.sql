-- Requests that become jobs in this transaction. One that is not there leaves its job out; then the count tells.
WITH taken AS (DELETE FROM jobhall.inbox WHERE id = ANY($1::bigint[]) RETURNING 1)
SELECT jobhall.expect((SELECT count(*) FROM taken), $2)
