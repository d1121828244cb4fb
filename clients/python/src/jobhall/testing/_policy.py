"""Whether and when a job is retried: the server's rules (``crates/core``, ``retry.rs`` and ``transition/next.rs``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidRequest

MAX_ATTEMPTS = 1_000
SNOOZES = 10_000
OUTCOMES = ("succeeded", "skipped", "failed", "crashed", "timed_out", "lost", "cancelled")
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)


def milliseconds(span: str) -> int:
    """A duration of the API, such as ``1h30m``."""
    found = _SPAN.fullmatch(span)
    if not span or found is None:
        raise InvalidRequest(f"{span!r} is not a span of time such as 250ms, 30s, 10m, 2h, 7d or 1h30m")
    return sum(int(number) * unit for number, unit in zip(found.groups(), _UNITS.values(), strict=True) if number)


@dataclass(frozen=True, slots=True)
class Policy:
    """When the attempts of a job are repeated. The defaults are those of a type without settings."""

    max_attempts: int = 5
    backoff: str = "exponential"
    delay_ms: int = 5_000
    max_delay_ms: int = 3_600_000
    on: frozenset[str] = frozenset({"failed", "crashed", "timed_out"})
    at_most_once: bool = False

    def over(self, retry: Mapping[str, Any]) -> Policy:
        """This policy with the fields of a submit."""
        unknown = set(retry) - {"max_attempts", "backoff", "delay", "max_delay", "on"}
        if unknown:
            raise InvalidRequest(f"retry has no field {sorted(unknown)[0]!r}")
        given = {name: value for name, value in retry.items() if value is not None}
        delay = milliseconds(given["delay"]) if "delay" in given else self.delay_ms
        longest = milliseconds(given["max_delay"]) if "max_delay" in given else self.max_delay_ms
        policy = Policy(
            max_attempts=given.get("max_attempts", self.max_attempts),
            backoff=given.get("backoff", self.backoff),
            delay_ms=delay,
            max_delay_ms=max(longest, delay),
            on=frozenset(given.get("on", self.on)),
            at_most_once=self.at_most_once,
        )
        policy._check()
        return policy

    def _check(self) -> None:
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            raise InvalidRequest(f"max_attempts of {self.max_attempts} is outside 1 to {MAX_ATTEMPTS}")
        if self.at_most_once and self.max_attempts != 1:
            raise InvalidRequest(f"max_attempts of {self.max_attempts} contradicts at_most_once, which allows only 1")
        if self.backoff not in ("constant", "linear", "exponential"):
            raise InvalidRequest(f"backoff must be constant, linear or exponential, not {self.backoff!r}")
        if wrong := self.on - set(OUTCOMES):
            raise InvalidRequest(f"retry.on has {sorted(wrong)[0]!r}, which is no outcome")

    def backoff_ms(self, tries: int) -> int:
        """The delay after the n-th counted attempt. The server subtracts up to a quarter of an exponential one."""
        if self.backoff == "constant":
            return self.delay_ms
        grown = self.delay_ms * tries if self.backoff == "linear" else self.delay_ms << min(tries - 1, 62)
        return min(grown, self.max_delay_ms)


def policy_of(wire: Mapping[str, Any]) -> Policy:
    """The policy of a job that is submitted."""
    base = Policy(max_attempts=1, at_most_once=True) if wire.get("at_most_once") else Policy()
    return base.over(wire.get("retry") or {})


@dataclass(frozen=True, slots=True)
class Next:
    """Another attempt."""

    delay_ms: int
    snoozed: bool = False


def decide(policy: Policy, outcome: str, verdict: Any, *, tries: int, snoozed: int) -> Next | None:
    """What follows an attempt without success: another one, or the end of the job."""
    if policy.at_most_once:
        return None
    asked = verdict if isinstance(verdict, dict) else {}
    if "snooze" in asked and snoozed < SNOOZES:
        return Next(milliseconds(asked["snooze"]), snoozed=True)
    if verdict == "never" or tries >= policy.max_attempts:
        return None
    if verdict == "now":
        return Next(0)
    if asked:
        return Next(milliseconds(asked.get("in") or asked["snooze"]))
    if outcome not in policy.on:
        return None
    return Next(policy.backoff_ms(tries))
