"""Writes the synchronous client from the asynchronous one. A test fails if it is stale."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "jobhall"
FILES = {
    "aio.py": "client.py",
    "_aio_settings.py": "_client_settings.py",
    "_aio_queries.py": "_client_queries.py",
}
HEADER = '"""The synchronous client. Written by scripts/generate_sync.py from {}; a test fails if it is stale."""'
NAMES = {
    "_aio_settings": "_client_settings",
    "_aio_queries": "_client_queries",
    "AwaitablePromise": "PromiseData",
    "AsyncPromise": "Promise",
    "AsyncQueries": "Queries",
    "AsyncSettings": "Settings",
    "AsyncTransport": "SyncTransport",
    "AsyncIterator": "Iterator",
    "AsyncClient": "Client",
    "AsyncGroup": "Group",
    "AsyncJob": "Job",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}


def generate() -> dict[Path, str]:
    """The files and what they should contain."""
    return {PACKAGE / target: synchronous(source) for source, target in FILES.items()}


def synchronous(source: str) -> str:
    text = (PACKAGE / source).read_text(encoding="utf-8")
    text = text[text.index('"""', 3) + 3 :]
    text = re.sub(r"\basync (def|for|with)\b", r"\1", text)
    text = re.sub(r"\bawait ", "", text)
    for name, other in NAMES.items():
        text = re.sub(rf"\b{name}\b", other, text)
    text = text.replace("Iterator, Iterable, Mapping", "Iterable, Iterator, Mapping")
    return HEADER.format(source) + text.replace("  # noqa: ASYNC230, PTH123", "  # noqa: PTH123")


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
