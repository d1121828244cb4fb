-- What nodes know each other by.
SELECT secret FROM jobhall.hall
