-- Keeps the changes of the unit.
RELEASE unit
