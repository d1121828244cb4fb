"""Writes ``src/jobhall/models.py`` and ``src/jobhall/requests.py`` from the API's description.

A test runs it and compares: a change of ``crates/protocol/openapi.json`` that concerns the client fails until the files
are written again with ``python scripts/generate_models.py``.
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
SPEC = HERE.parent.parent / "crates" / "protocol" / "openapi.json"
RESPONSES = (
    *(
        "Artifact",
        "ArtifactPage",
        "Attempt",
        "AttemptPage",
        "Explanation",
        "Group",
        "GroupPage",
        "Job",
        "JobPage",
    ),
    *("Queue", "QueuePage", "QueueSettings", "Schedule", "SchedulePage", "Submitted", "TickPage"),
    *("TypeSettings", "TypeSettingsPage", "WorkerPage"),
    *("KnownCommand", "QueryPromise"),
)
REQUESTS = (
    "Cancel",
    "CancelGroup",
    "CreateGroup",
    "EditJob",
    "SetQueue",
    "SetSchedule",
    "SetType",
    "SubmitJob",
)
SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}
Schema = dict[str, Any]


class Generator:
    """Collects the schemas that are reachable from the roots, and renders them."""

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self.schemas = schemas

    def is_object(self, name: str) -> bool:
        return "properties" in self.schemas[name]

    def reachable(self, roots: tuple[str, ...]) -> list[str]:
        found: list[str] = []

        def visit(name: str) -> None:
            if name in found or not self.is_object(name):
                return
            found.append(name)
            for schema in self.schemas[name]["properties"].values():
                for other in references(schema):
                    visit(other)

        for root in roots:
            visit(root)
        return sorted(found)

    def type_of(self, schema: Any, time: str) -> tuple[str, bool]:
        """The type, and whether null is allowed."""
        if schema is True or not isinstance(schema, dict):
            return "Any", False
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[1], time), False
        for word in ("anyOf", "oneOf"):
            if word in schema:
                parts = [part for part in schema[word] if part.get("type") != "null"]
                types = sorted({self.type_of(part, time)[0] for part in parts})
                return " | ".join(types), len(parts) < len(schema[word])
        kind = schema.get("type")
        nullable = isinstance(kind, list) and "null" in kind
        if isinstance(kind, list):
            kind = next(one for one in kind if one != "null")
        if kind == "array":
            return f"list[{self.type_of(schema['items'], time)[0]}]", nullable
        if kind == "object":
            more = schema.get("additionalProperties", True)
            value = self.type_of(more, time)[0] if isinstance(more, dict) else "Any"
            return f"dict[str, {value}]", nullable
        return SCALARS.get(kind or "", "Any"), nullable

    def named(self, name: str, time: str) -> str:
        if name == "Timestamp":
            return time
        if self.is_object(name):
            return name
        schema = self.schemas[name]
        if "oneOf" in schema and all("const" in one for one in schema["oneOf"]):
            return "str"
        if name == "Reuse":
            return "dict[str, Any]"
        return self.type_of(schema, time)[0]

    def responses(self) -> str:
        lines = header("What the server answers.", "datetime", dataclass=True)
        for name in self.reachable(RESPONSES):
            lines += self.response(name)
        return "\n".join(lines) + "\n"

    def response(self, name: str) -> list[str]:
        schema = self.schemas[name]
        required = [key for key in schema["properties"] if key in schema.get("required", [])]
        optional = [key for key in schema["properties"] if key not in required]
        out = ["", "", "@dataclass(frozen=True, slots=True, kw_only=True)", f"class {name}:"]
        out += doc(schema.get("description", name), "    ")
        reads = []
        for key in [*required, *optional]:
            kind, nullable = self.type_of(schema["properties"][key], "datetime")
            is_required = key in required and not nullable
            default, missing = self.default(schema["properties"][key], kind, nullable or key not in required)
            if not is_required and missing == "None" and kind != "Any":
                kind += " | None"
            field = safe(key)
            out += ["", f"    {field}: {kind}{'' if is_required else default}"]
            out += doc(described(schema["properties"][key]), "    ")
            reads.append(f"{field}={self.read(key, schema['properties'][key], is_required, missing)},")
        out += ["", "    @staticmethod", f"    def from_wire(data: Mapping[str, Any]) -> {name}:"]
        out += [f'        """Reads {name} from JSON; unknown fields are ignored."""']
        out += [f"        return {name}(", *(f"            {line}" for line in reads), "        )"]
        return out

    def default(self, schema: Schema, kind: str, nullable: bool) -> tuple[str, str]:
        if kind.startswith("list["):
            return " = field(default_factory=list)", "[]"
        if kind.startswith("dict["):
            return " = field(default_factory=dict)", "{}"
        value = schema.get("default")
        if isinstance(value, (bool, int, str)):
            return f" = {value!r}", repr(value)
        if kind == "bool":
            return " = False", "False"
        return (" = None", "None") if nullable else ("", "None")

    def read(self, key: str, schema: Schema, required: bool, missing: str) -> str:
        value = f'data["{key}"]' if required else f'data.get("{key}")'
        convert = self.converter(schema)
        kind = self.type_of(schema, "datetime")[0]
        if kind.startswith("list["):
            inner = self.converter(schema.get("items", {}))
            source = value if required else f"({value} or ())"
            return f"[{inner}(one) for one in {source}]" if inner else f"list({source})"
        if convert and required:
            return f"{convert}({value})"
        if convert:
            return f"None if (found := {value}) is None else {convert}(found)"
        if required or missing == "None":
            return value
        return f'data.get("{key}", {missing})'

    def converter(self, schema: Any) -> str:
        for name in references(schema):
            if name == "Timestamp":
                return "datetime.fromisoformat"
            if self.is_object(name):
                return f"{name}.from_wire"
        return ""

    def requests(self) -> str:
        lines = header("What the client sends, as the keys of JSON objects.", "", dataclass=False)
        for name in self.reachable(REQUESTS):
            schema = self.schemas[name]
            out = ["", "", f"class {name}(TypedDict, total=False):"]
            out += doc(schema.get("description", name), "    ")
            for key in schema["properties"]:
                kind, nullable = self.type_of(schema["properties"][key], "str")
                kind += " | None" if nullable else ""
                if key in schema.get("required", []):
                    kind = f"Required[{kind}]"
                out += ["", f"    {key}: {kind}", *doc(described(schema["properties"][key]), "    ")]
            lines += out
        return "\n".join(lines) + "\n"


def references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else []
        parts = [schema.get("items"), *schema.get("anyOf", []), *schema.get("oneOf", [])]
        return own + [name for part in parts for name in references(part)]
    return []


def described(schema: Any) -> str:
    return schema.get("description", "") if isinstance(schema, dict) else ""


def doc(text: str, indent: str) -> list[str]:
    text = " ".join(text.replace("`", "``").split())
    if not text:
        return []
    lines = textwrap.wrap(text, 110 - len(indent) - 6)
    lines[0] = f'"""{lines[0]}'
    lines[-1] += '"""'
    return [indent + line for line in lines]


def safe(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def header(title: str, times: str, *, dataclass: bool) -> list[str]:
    lines = [
        f'"""{title}',
        "",
        "Written by scripts/generate_models.py from crates/protocol/openapi.json; a test fails if it is stale.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    if dataclass:
        lines += ["from collections.abc import Mapping", "from dataclasses import dataclass, field"]
        lines += ["from datetime import datetime", "from typing import Any"]
    else:
        lines += ["from typing import Any, Required, TypedDict"]
    return lines


def generate() -> dict[Path, str]:
    """The files and what they should contain."""
    generator = Generator(json.loads(SPEC.read_text(encoding="utf-8"))["components"]["schemas"])
    package = HERE / "src" / "jobhall"
    return {package / "models.py": generator.responses(), package / "requests.py": generator.requests()}


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
