-- Deletes the inbox rows that become jobs in this transaction. A missing row is skipped; the row count then differs
-- from the expected one.
WITH taken AS (DELETE FROM jobhall.inbox WHERE id = ANY($1::bigint[]) RETURNING 1)
SELECT jobhall.expect((SELECT count(*) FROM taken), $2)
