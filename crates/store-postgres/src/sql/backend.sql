-- Identifies the server process behind this connection.
SELECT pg_backend_pid() || ' since ' || pg_postmaster_start_time()
