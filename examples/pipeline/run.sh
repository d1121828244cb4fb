#!/bin/sh
# A pipeline of exec jobs: one split, 100 shards that read a file of it, and one merge that reads the results of all
# shards. Run it against a server with a worker that allows exec (`jobhall up`) and has `jobhall` in its PATH.
set -eu

shards=${1:-100}

split='for n in $(seq 0 $((SHARDS - 1))); do
  seq $((n * 100 + 1)) $((n * 100 + 100)) > $JOBHALL_OUTPUT/shard-$n
done
echo $SHARDS > $JOBHALL_RESULT'

# Input 0 is the split. Its artifacts are read by name.
shard='jobhall input 0 --artifact shard-$SHARD -o numbers
awk "{ sum += \$1 } END { print sum }" numbers > $JOBHALL_RESULT'

# The inputs are the shards, in the order of `after`: all results at once from the file, and the last one alone.
merge='sum=$(grep -o "\"result\":[0-9]*" "$JOBHALL_INPUTS" | cut -d: -f2 | awk "{ sum += \$1 } END { print sum }")
echo "{\"sum\": $sum, \"last\": $(jobhall input $((SHARDS - 1)))}" > $JOBHALL_RESULT'

# The text of a script as a JSON string.
quoted() {
    printf '"%s"' "$(printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' | awk '{ printf "%s%s", sep, $0; sep = "\\n" }')"
}

# One job per line; "#0" is the first one of the file.
jobs() {
    printf '{"type":"exec","params":{"script":%s,"env":{"SHARDS":"%s"}}}\n' "$(quoted "$split")" "$shards"
    text=$(quoted "$shard")
    after=
    for n in $(seq 0 $((shards - 1))); do
        printf '{"type":"exec","after":["#0"],"params":{"script":%s,"env":{"SHARD":"%s"}}}\n' "$text" "$n"
        after="$after${after:+,}\"#$((n + 1))\""
    done
    printf '{"type":"exec","after":[%s],"params":{"script":%s,"env":{"SHARDS":"%s"}}}\n' \
        "$after" "$(quoted "$merge")" "$shards"
}

last=$(jobs | jobhall job submit --from - --quiet --jsonl | tail -n 1 | sed 's/.*"id":\([0-9]*\).*/\1/')
jobhall job wait "$last" --quiet > /dev/null
jobhall job show "$last" --json --fields result
