"""Refusals of requests that the description allows, because a schema cannot say what is wrong with them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """A problem code with the beginning of its detail, and the reason why no schema can tell."""

    code: str
    detail: str
    reason: str

    @property
    def name(self) -> str:
        return f"{self.code}: {self.detail}"

    def covers(self, code: str, detail: str) -> bool:
        return code == self.code and re.match(self.detail, detail) is not None


ALLOWED = (
    Allowed(
        "unknown_command",
        r"column \d+: there is no command",
        "which commands exist is stored",
    ),
    Allowed(
        "unknown_source",
        r"column \d+: there is no source",
        "which sources exist is stored",
    ),
    Allowed(
        "bad_request",
        r"the key of a source has at most 512 bytes",
        "a schema counts characters, the server bytes",
    ),
    Allowed(
        "bad_request",
        r"a key that begins with blake3/ is the digest of its data",
        "no pattern can say that a part of the path is the hash of the body",
    ),
    Allowed(
        "bad_request",
        r"a query without a command has no promise",
        "a text is a query without a command by its grammar",
    ),
    Allowed(
        "bad_request",
        r"commands(\.|: \")",
        "names of commands and arguments, placeholders, defaults and modes of a declaration depend on each other",
    ),
    Allowed(
        "bad_request",
        r"the body is wrong at .*: invalid type: floating point `-?\d+\.0`",
        "JSON Schema counts 1.0 as an integer; the server takes integers that are written as such",
    ),
    Allowed(
        "bad_request",
        r"(.*: )?a new schedule (needs cron or every|requires job)",
        "what a schedule needs depends on whether it exists",
    ),
    Allowed(
        "bad_request",
        "anchor belongs to every, which is missing",
        "an anchor may be given alone if the schedule has an interval",
    ),
    Allowed(
        "bad_request",
        r"the header jobhall-lease is missing",
        "the process of a job needs no lease, so the header is required of other tokens only",
    ),
    Allowed(
        "bad_request",
        r"this route requires a WebSocket upgrade",
        "an upgrade is part of the protocol, not of a request that a document describes",
    ),
    Allowed(
        "bad_request",
        r"the request has no cookie of a browser session",
        "a cookie of the browser, while the document describes API tokens",
    ),
    Allowed(
        "bad_request",
        r"(.*: )?(\w+) has \d+ bytes, the limit is \d+",
        "a schema counts characters, the server bytes",
    ),
    Allowed(
        "bad_request",
        r"(job \d+: )?copy_of: ",
        "which jobs can be copied depends on what is stored",
    ),
    Allowed(
        "bad_request",
        r"max_attempts of \d+ contradicts at_most_once",
        "whether an edited job runs at most once is stored",
    ),
    Allowed(
        "bad_request",
        r"job \d+ is not a sub-job of job \d+",
        "which jobs an attempt has called is stored",
    ),
    Allowed(
        "bad_request",
        r"jobs \d+ and \d+ of this submit have the same type and key",
        "a schema compares no items of an array",
    ),
    Allowed(
        "bad_request",
        r"append a note: it must be one line that ends with a line feed",
        "a schema says nothing about bytes",
    ),
    Allowed(
        "bad_request",
        r"jobhall-digest is [0-9a-f]{64}, but the body has",
        "a schema knows no hash",
    ),
    Allowed(
        "bad_request",
        r"exactly one of query, command, source and all=true must be given",
        "a description has no rule for several parameters together",
    ),
    Allowed(
        "bad_request",
        r"command: it cannot be given together with query",
        "a description has no rule for several parameters together",
    ),
    Allowed(
        "bad_request",
        r"source: ",
        "a key of a source has segments that are compared with reserved ones",
    ),
    Allowed(
        "bad_request",
        r"the value of .* is not stored for later requests",
        "which modes a command has is stored",
    ),
    Allowed(
        "bad_request",
        r"(job \d+: )?after: (job #\d+ names #\d+|jobs #\d+)",
        "a position names an earlier job of the same request",
    ),
)


def find(code: str, detail: str) -> Allowed | None:
    return next((one for one in ALLOWED if one.covers(code, detail)), None)
