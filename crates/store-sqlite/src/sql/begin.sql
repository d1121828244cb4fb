-- IMMEDIATE: the only writer takes the lock at once, so nothing later in the transaction can find it taken.
BEGIN IMMEDIATE
