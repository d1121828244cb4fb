-- IMMEDIATE: the only writer takes the lock at once, so no later statement of the transaction can fail to get it.
BEGIN IMMEDIATE
