-- The unit stands.
RELEASE unit
