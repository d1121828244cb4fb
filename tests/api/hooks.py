"""What schemathesis cannot know: texts with a grammar, the live attempt of a worker, and which refusals are right."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import allowed
from hall import Api, lease

API = Api(os.environ["JOBHALL_FUZZ_URL"], os.environ["JOBHALL_FUZZ_TOKEN"])
KNOWN: dict[str, list[Any]] = json.loads(os.environ["JOBHALL_FUZZ_KNOWN"])
TALLY = Path(os.environ["JOBHALL_FUZZ_TALLY"])

words = st.sampled_from(["os", "gpu", "mem_gb", "lang"])
numbers = st.integers(1, 9).map(str)
terms = st.one_of(
    st.builds("{}={}".format, words, numbers),
    st.builds("{}>={}".format, words, numbers),
    st.builds("{} in (linux, darwin)".format, words),
    words,
)


def joined(one: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(one, max_size=3, unique_by=lambda text: re.split("[=> ]", text)[0]).map(", ".join)


moments = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
offsets = st.integers(-12, 12).map(lambda hours: timezone(timedelta(hours=hours)))
FORMATS: dict[str, st.SearchStrategy[str]] = {
    "needs": joined(terms),
    "uses": joined(st.builds("{}={}".format, words, numbers)),
    "abilities": joined(st.builds("{}={}".format, words, numbers)),
    "accepts": joined(st.sampled_from(["queue=mail", "type=fuzz", "queue in (a, b)"])),
    "windows": st.sampled_from(["", "22:00-06:00", "mon-fri 08:00-18:00 Europe/Berlin"]),
    "cron": st.sampled_from(["@daily", "0 3 * * *", "*/5 8-18 * jan-mar mon-fri", "59 23 31 12 *"]),
    "time-zone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "asia/tokyo"]),
    "limit-by": st.sampled_from(["owner", "key", 'key.before("/")', "params.customer.id", "queue"]),
    "span": st.builds("{}{}".format, st.integers(1, 59), st.sampled_from(["m", "s"])) | st.just("30m5s250ms"),
    "byte-range": st.builds("bytes={}-{}".format, st.integers(0, 5), st.integers(5, 9) | st.just("")),
    "entity-tags": st.just('"af1349b9"'),
    "query": st.sampled_from(["fuzz", "fuzz-1", "fuzz-a~_b-2"]),
    "media-type": st.sampled_from(["text/csv", "application/json"]),
    "expiry": st.sampled_from(["5m", "EOD Europe/Berlin"]),
    "prefer": st.sampled_from(["respond-async", "respond-async, wait=0", "wait=0"]),
    "date-time": st.builds(lambda at, zone: at.astimezone(zone).isoformat(), moments, offsets),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

tally: Counter[str] = Counter()
live: dict[str, Any] = {}


def route(case: Any) -> str:
    return f"{case.method} {case.path}"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Shortens what would wait, and lets every other report about an attempt be about a live one."""
    waits = case.path.endswith(("/vacancies", "/wait")) and isinstance(case.body, dict)
    if waits and isinstance(case.body.get("wait_s", 20), int):
        case.body["wait_s"] = 0
    if case.path.endswith("/wait") and positive(case) and not isinstance(case.body, dict):
        case.body = {"wait_s": 0}
    # A query waits for its value, whenever it is there.
    if case.method == "GET" and (case.path.startswith("/q/") or case.path.endswith("/value")) and positive(case):
        case.query = {**(case.query or {}), "wait": 0}
    follows = case.path.endswith("/log") and case.method == "GET" and "follow" in (case.query or {})
    if follows and case.path_parameters.get("id") not in KNOWN["completed"]:
        case.query.pop("follow")
    if "/attempts/{id}/" in case.path and positive(case):
        live["turn"] = not live.get("turn")
        if live["turn"]:
            use_live(case)
    # One job is enough: retrying all of them would double them again and again, and cancelling them ends them.
    if case.path.endswith("/operations") and positive(case) and case.method == "POST":
        case.body["up_to"] = KNOWN["jobs"][0]
    token = KNOWN["join"][0] if case.path.endswith("/join") else API.token
    case.headers["Authorization"] = f"Bearer {token}"


def use_live(case: Any) -> None:
    if "attempt" not in live:
        live["attempt"] = API.claim()
    case.path_parameters["id"] = live["attempt"]["id"]
    case.headers.update(lease(live["attempt"]))


def positive(case: Any) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


def problem(response: Any) -> tuple[str, str]:
    try:
        told = json.loads(response.content)
        return told["code"], told["detail"]
    except (ValueError, KeyError, TypeError):
        return "", ""


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    mode = "positive" if positive(case) else "negative"
    tally[mode] += 1
    tally[f"{mode} {response.status_code}"] += 1
    code, detail = problem(response)
    if code == "lease_lost" or case.path.endswith("/outcome"):
        live.pop("attempt", None)
    if mode == "positive" and code in ("bad_request", "too_large"):
        found = allowed.find(code, detail)
        tally["refused"] += 1
        line = {
            "route": route(case),
            "detail": detail,
            "allowed": bool(found),
            "body": repr(case.body)[:600],
            "path": repr(case.path_parameters),
            "query": repr(case.query),
            "headers": repr(case.headers),
        }
        with TALLY.with_suffix(".refused").open("a") as file:
            file.write(json.dumps(line) + "\n")
        if found:
            tally[found.name] += 1
    TALLY.write_text(json.dumps(tally))


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keeps a failure unless the refusal is one that no schema can tell, or a head too large to reach a route."""
    if response.status_code == 431:
        return False
    return type(failure).__name__ != "RejectedPositiveData" or allowed.find(*problem(response)) is None
