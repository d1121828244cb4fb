#!/usr/bin/env bash
# Five minutes with queries: what is asked twice runs once, and an edit runs no more than it changes.
# It starts a temporary server in a temporary directory, with a copy of these files.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null && wait "$server" || true; rm -rf "$work"' EXIT
mkdir "$work/files" && cp .jobhall.toml clean.sh by.awk sales.csv "$work/files" && cd "$work/files"
: >"$work/up"
jobhall up --data "$work/data" --listen 127.0.0.1:0 >"$work/up" 2>"$work/said" &
server=$!
until url=$(sed -n 's/^jobhall is up: //p' "$work/up") && [ -n "$url" ]; do sleep 0.1; done
export JOBHALL_SERVER=$url JOBHALL_DATA="$work/data"
until jobhall query commands | grep -q '^top '; do sleep 0.1; done

query='@sales.csv | clean | by region | top 2'
say() { printf '\n%s\n' "$*"; }
ask() { jobhall query --json "$query"; }
# How each step was answered: the first "cache" of the document is that of the whole answer.
how() { ask | grep -o '"cache": *"[a-z]*"' | tail -n +2 | cut -d'"' -f4 | paste -sd' ' -; }
is() {
  printf '   %s\n' "$1"
  [ "$1" = "$2" ] || { echo "expected: $2" >&2; exit 1; }
}

say '1. Ask. All three steps are computed.'
jobhall query "$query"

say '2. Ask again: nothing runs.'
is "$(how)" 'hit hit hit'

say '3. Add a comment to by.awk: that step runs. It writes the same bytes, so the next one does not run.'
echo '# sums' >>by.awk
is "$(how)" 'hit computed skipped'

say '4. Add a row that clean drops: only clean runs.'
cp sales.csv was.csv
echo '2026-12-31,north,' >>sales.csv
is "$(how)" 'computed skipped skipped'

say '5. Put the old data back: nothing runs.'
cp was.csv sales.csv
is "$(how)" 'hit hit hit'

say '6. Two people ask for something new at the same time: one computation, two answers.'
echo '2026-12-31,north,100' >>sales.csv
ask >"$work/a" &
other=$!
ask >"$work/b"
wait "$other"
is "$(cat "$work/a" "$work/b" | grep -o '"value": *"[^"]*"' | sort -u | wc -l | tr -d ' ') value" '1 value'
is "$(jobhall job list --all --json | grep -o '"type": *"q.clean"' | wc -l | tr -d ' ') runs of clean" '3 runs of clean'

say '7. What would run after an edit of clean.sh, and why? This runs nothing.'
echo '# faster' >>clean.sh
jobhall query --explain "$query"
