-- Records by kind and key.
SELECT records.kind, records.key, records.rev, records.at, records.group_id, records.value
FROM unnest($1::text[], $2::text[]) AS wanted (kind, key)
JOIN jobhall.records ON records.kind = wanted.kind AND records.key = wanted.key
