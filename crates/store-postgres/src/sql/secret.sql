-- The secret that nodes authenticate each other with.
SELECT secret FROM jobhall.hall
