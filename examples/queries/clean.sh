# In place of a computation that takes an hour.
sleep 1
awk -F, 'NR == 1 || $3 != ""'
