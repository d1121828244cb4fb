"""What windows and cron lines come to around every change of the clocks, by Python's zoneinfo.

Reads a request as JSON from standard input: the zones, the years, windows and cron lines. Walks through the minutes
around each change and asks zoneinfo what the clock on the wall shows; nothing here is derived from the code that it
checks. Writes JSON: for each zone its changes, and for each change what opens, closes and ticks.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
AROUND = timedelta(hours=14)
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def changes(zone, first, last):
    """The moments between two years at which the offset to UTC becomes another, to the second."""
    step = timedelta(hours=6)
    at = datetime(first, 1, 1, tzinfo=timezone.utc)
    end = datetime(last + 1, 1, 1, tzinfo=timezone.utc)
    offset = lambda moment: moment.astimezone(zone).utcoffset()
    while at < end:
        before, after = at, at + step
        if offset(before) != offset(after):
            while after - before > timedelta(seconds=1):
                middle = before + (after - before) // 2
                middle = middle.replace(microsecond=0)
                if offset(middle) == offset(before):
                    before = middle
                else:
                    after = middle
            yield after
        at += step


def is_open(window, wall):
    minute = wall.hour * 60 + wall.minute
    days = window["days"]
    today = DAYS[wall.weekday()] in days
    yesterday = DAYS[(wall.weekday() - 1) % 7] in days
    start, end = window["start"], window["end"]
    if start < end:
        return today and start <= minute < end
    return (today and minute >= start) or (yesterday and minute < end)


def spans(windows, minutes):
    """[open, close] in milliseconds; null where the end of the minutes cuts it."""
    found, begin = [], None
    for moment, wall in minutes:
        now_open = any(is_open(window, wall) for window in windows)
        if now_open and begin is None:
            begin = moment
        if not now_open and begin is not None:
            found.append([begin, moment])
            begin = None
    if begin is not None:
        found.append([begin, None])
    return found


def matches(line, wall):
    return wall.minute in line["minutes"] and wall.hour in line["hours"]


def shown(line, minutes):
    return [moment for moment, wall in minutes if matches(line, wall)]


def once(line, minutes, zone):
    """Each clock time of the line once: when it is first shown, or when the clock jumps over it."""
    ticks, seen, last = set(), set(), None
    for moment, wall in minutes:
        key = wall.replace(tzinfo=None, fold=0)
        if last is not None:
            between = last + MINUTE
            while between < key:
                if matches(line, between) and between not in seen:
                    seen.add(between)
                    ticks.add(moment)
                between += MINUTE
        if matches(line, wall) and key not in seen:
            seen.add(key)
            ticks.add(moment)
        last = key
    return sorted(ticks)


def around(zone, change, request):
    minutes = []
    at = change - AROUND
    while at <= change + AROUND:
        minutes.append((int(at.timestamp()) * 1000, at.astimezone(zone)))
        at += MINUTE
    lines = {
        line["text"]: shown(line, minutes) if len(line["hours"]) == 24 else once(line, minutes, zone)
        for line in request["cron"]
    }
    return {
        "change": int(change.timestamp()) * 1000,
        "begin": minutes[0][0],
        "end": minutes[-1][0],
        "windows": {name: spans(windows, minutes) for name, windows in request["windows"].items()},
        "cron": lines,
    }


def main():
    request = json.load(sys.stdin)
    answer = {}
    for name in request["zones"]:
        zone = ZoneInfo(name)
        found = changes(zone, request["first_year"], request["last_year"])
        answer[name] = [around(zone, change, request) for change in found]
    json.dump(answer, sys.stdout)


main()
