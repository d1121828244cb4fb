-- Begins a transaction in which several reads see one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
