-- The number of relations in the schema, and whether the table of migrations exists.
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('jobhall')),
    to_regclass('jobhall.migrations') IS NOT NULL
