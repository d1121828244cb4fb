-- Which process of which server answers.
SELECT pg_backend_pid() || ' since ' || pg_postmaster_start_time()
