-- The identifier of the hall's key, who wrote it where and when, and the identifier of an earlier key that is valid.
SELECT id, host, path, (extract(epoch FROM written) * 1000)::bigint,
    CASE WHEN earlier_until > clock_timestamp() THEN earlier_id END
FROM jobhall.hall_key
