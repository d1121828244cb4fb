-- How many things the schema holds, and whether its migrations are recorded.
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('jobhall')),
    to_regclass('jobhall.migrations') IS NOT NULL
