-- Properties of the server: version, fsync, encoding, whether it is a standby.
SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('server_encoding'),
    pg_is_in_recovery()
