"""Tables of the fields of JSON schemas, in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parent.parent / "python/moorage/cli/schemas"
_MOST_LEVELS = 6


def table(file: Path) -> Iterator[str]:
    """Iterate over the lines of a table with one row for each field of a schema."""
    schema = json.loads(file.read_text())
    yield from (
        "",
        f"## {file.name}",
        "",
        schema["title"],
        "",
        "| field | type | meaning |",
        "|---|---|---|",
    )
    for path, kind, meaning in dict.fromkeys(_fields(schema, schema, "", 0)):  # answers share fields
        yield f"| `{path}` | {kind} | {meaning} |"


def _fields(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: str, level: int
) -> Iterator[tuple[str, str, str]]:
    """Iterate over the fields of an object: path, type, meaning."""
    if level > _MOST_LEVELS:  # a schema may contain itself
        return
    for word in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(word, ()):
            yield from _fields(_resolved(part, root), root, path, level)
    for name, value in schema.get("properties", {}).items():
        field = _resolved(value, root)
        whole = f"{path}.{name}" if path else name
        yield whole, _type(field), _escaped(value.get("description") or field.get("description", ""))
        yield from _parts(field, root, whole, level + 1)


def _parts(
    field: Mapping[str, Any], root: Mapping[str, Any], path: str, level: int
) -> Iterator[tuple[str, str, str]]:
    yield from _fields(field, root, path, level)
    for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(field.get(word), dict):
            yield from _parts(_resolved(field[word], root), root, path + mark, level + 1)


def _resolved(field: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in field:
        target: Any = root
        for step in field["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        field = target
    return field


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field or "enum" in field:
        return ", ".join(f"`{json.dumps(one)}`" for one in field.get("enum", [field.get("const")]))
    kinds = field.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("|", "\\|")
