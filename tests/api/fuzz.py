"""Compares real servers with their own description: ``fuzz.py [--examples N] [--seed N] BINARY [OPERATION…]``.

schemathesis sends requests that the description allows and requests that it does not, and checks every response. The
data is that of a fixed seed. It fails if a request of the first kind is refused (see allowed.py), one of the second
kind is accepted, a response is not described, or the server fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from allowed import ALLOWED
from hall import Hall, furnish

HERE = Path(__file__).parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
)
# Refusals that depend on what is stored and not on the request: of a token, for what does not exist, for what is in
# another state or version, and for a range that the content does not have.
STORED = ("2xx", "3xx", "401", "403", "404", "409", "412", "416")
# A path, and the dictionary of its parameter.
IDS = {
    "/api/v1/jobs/{id}": "jobs",
    "/api/v1/attempts/{id}": "attempts",
    "/api/v1/groups/{id}": "groups",
    "/api/v1/operations/{id}": "operations",
    "/api/v1/types/{name}": "types",
    "/api/v1/queues/{name}": "queues",
    "/api/v1/schedules/{name}": "schedules",
    "/api/v1/workers/{name}": "workers",
    "/api/v1/tokens/{id}": "tokens",
}


def settings(known: dict[str, list[Any]], seconds: float) -> str:
    """The configuration of schemathesis, with the ids of real objects."""
    lines = [f"hooks = {json.dumps(str(HERE / 'hooks.py'))}", "max-stream-events = 1", "max-redirects = 0"]
    lines += [f"request-timeout = {seconds}", "[checks]", "enabled = false"]
    for check in CHECKS:
        lines += [f"[checks.{check}]", "enabled = true"]
        if check == "positive_data_acceptance":
            lines.append(f"expected-statuses = {json.dumps(STORED)}")
        if check == "negative_data_rejection":
            lines.append(f"expected-statuses = {json.dumps(['4xx'])}")
    # The hooks set the token.
    lines += ["[generation]", "with-security-parameters = false"]
    lines += ["[phases.stateful]", "enabled = false"]
    for name, values in known.items():
        if name in IDS.values() or name in ("artifacts", "keys"):
            lines += [f"[dictionaries.{name}]", f"values = {json.dumps(values)}"]
    for path, name in IDS.items():
        parameter = path.rsplit("{", 1)[1].rstrip("}")
        lines += ["[[operations]]", f"include-path-regex = {json.dumps('^' + path.replace('{', '[{]') + '(/|$)')}"]
        bound = {f"path.{parameter}": name}
        lines.append("parameters = { " + ", ".join(bind(key, name) for key, name in bound.items()) + " }")
    for operation in ("events", "jobEvents"):
        lines += ["[[operations]]", f'include-operation-id = "{operation}"', "request-timeout = 0.1"]
    return "\n".join(lines) + "\n"


def bind(parameter: str, dictionary: str) -> str:
    return f'"{parameter}" = {{ dictionary = "{dictionary}", probability = 0.7 }}'


def weight(document: dict[str, Any], schema: Any, seen: frozenset[str] = frozenset()) -> int:
    """About how much there is to vary in a schema."""
    if isinstance(schema, list):
        return sum(weight(document, one, seen) for one in schema)
    if not isinstance(schema, dict):
        return 1
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    if name and name not in seen:
        return weight(document, document["components"]["schemas"][name], seen | {name})
    return sum(weight(document, one, seen) for one in schema.values())


def shares(document: dict[str, Any], parts: int) -> list[list[str]]:
    """The operations in as many parts of about equal size, the largest first."""
    sizes: dict[str, int] = {}
    for methods in document["paths"].values():
        for described in methods.values():
            sizes[described["operationId"]] = weight(document, [described["parameters"], described.get("requestBody")])
    made: list[list[str]] = [[] for _ in range(parts)]
    for operation in sorted(sizes, key=lambda name: (-sizes[name], name)):
        min(made, key=lambda part: sum(sizes[one] for one in part)).append(operation)
    return made


def run(hall: Hall, part: int, arguments: argparse.Namespace) -> tuple[int, dict[str, int], str]:
    """The exit code of schemathesis for one part of the operations, what was counted, and its output."""
    known = furnish(hall.api)
    jobs = [hall.api.must("GET", f"/jobs/{one}") for one in known["jobs"]]
    known["completed"] = [job["id"] for job in jobs if job["state"] in ("succeeded", "failed", "cancelled")]
    config, tally, document = (hall.place / name for name in ("schemathesis.toml", "tally.json", "openapi.json"))
    config.write_text(settings(known, arguments.timeout))
    document.write_bytes(hall.api.send("GET", "//openapi.json").body)
    env = os.environ | {
        "JOBHALL_FUZZ_URL": hall.api.url,
        "JOBHALL_FUZZ_TOKEN": hall.api.token,
        "JOBHALL_FUZZ_KNOWN": json.dumps(known),
        "JOBHALL_FUZZ_TALLY": str(tally),
        "HOME": str(hall.place),
    }
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), "--config-file", str(config), "run", str(document), "--url", hall.api.url]
    command += ["--seed", str(arguments.seed), "--max-examples", str(arguments.examples)]
    command += ["--workers", "1", "--no-shrink", "--continue-on-failure", "--warnings", "off"]
    operations = arguments.operations or shares(json.loads(document.read_text()), arguments.parts)[part]
    for operation in operations:
        command += ["--include-operation-id", operation]
    output = hall.place / "schemathesis.log"
    with output.open("wb") as log:
        done = subprocess.run(
            command, env=env, cwd=hall.place, stdout=log, stderr=log, timeout=arguments.limit, check=False
        )
    return done.returncode, json.loads(tally.read_text()), output.read_text()


def with_server(part: int, place: Path, arguments: argparse.Namespace) -> tuple[int, dict[str, int], str]:
    hall = Hall(str(Path(arguments.binary).resolve()), place / str(part))
    hall.place.mkdir(parents=True)
    hall.start()
    try:
        code, counts, output = run(hall, part, arguments)
    finally:
        exit_code = hall.stop()
    log = hall.log.read_text()
    if exit_code != 0 or "panicked" in log:
        return 1, counts, f"{output}\nthe server ended with {exit_code}:\n{log[-4000:]}"
    return code, counts, output


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--examples", type=int, default=10, help="per operation")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--parts", type=int, default=2, help="processes, each with a server of its own")
    parser.add_argument("--timeout", type=float, default=5, help="of a request, in seconds")
    parser.add_argument("--limit", type=float, default=3600, help="of a process, in seconds")
    parser.add_argument("--keep", type=Path, help="a new directory for the data and the logs of the servers")
    parser.add_argument("operations", nargs="*", help="only these, by operationId, in one part")
    arguments = parser.parse_intermixed_args()
    parts = 1 if arguments.operations else arguments.parts
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jobhall-api-") as temporary:
        place = arguments.keep or Path(temporary)
        with ThreadPoolExecutor(parts) as pool:
            done = list(pool.map(lambda part: with_server(part, place, arguments), range(parts)))
    counts: Counter[str] = Counter()
    for code, counted, output in done:
        counts.update(counted)
        if code:
            print(output)
    print(f"{counts['positive']} allowed requests and {counts['negative']} others, seed {arguments.seed}, in ", end="")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:.0f} s ({used.ru_utime + used.ru_stime:.0f} s of CPU time); ", end="")
    print(f"refused as bad requests although they are allowed: {counts['refused']}, of which:")
    for one in ALLOWED:
        print(f"  {counts[one.name]:5} {one.code}: {one.detail} ({one.reason})")
    print("responses: " + ", ".join(f"{counts[name]} {name}" for name in sorted(counts) if name[-1].isdigit()))
    return max(code for code, _, _ in done)


if __name__ == "__main__":
    sys.exit(main())
