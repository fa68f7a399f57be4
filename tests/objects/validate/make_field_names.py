"""Makes the table of field names from the JSON schema of Kubernetes' types.

    pip download --no-deps kubernetes-validate==1.36.0 && unzip -p kubernetes_validate-*.whl \\
        kubernetes_validate/kubernetes-json-schema/v1.36.0-local/_definitions.json > definitions.json
    python -m tests.objects.validate.make_field_names definitions.json > FILE

FILE is python/moorage/objects/validate/field_names.json.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

SOURCE = {
    "source": "PyPI kubernetes-validate 1.36.0, kubernetes-json-schema/v1.36.0-local/_definitions.json, made "
    "from api/openapi-spec/swagger.json of github.com/kubernetes/kubernetes v1.36.0",
    "licence": "Apache-2.0",
}
PREFIX = re.compile(r"^io\.k8s\.(api|apimachinery\.pkg\.apis|[\w.-]+\.pkg\.apis)\.")
LISTS, MAPS = "[]", "{}"
RECURSIVE = {"apiextensions.v1.JSONSchemaProps"}
"""Structs that contain themselves; the table leaves them out."""


def short(reference: str) -> str:
    return PREFIX.sub("", reference.removeprefix("#/$defs/"))


def target(schema: dict[str, Any], structs: set[str]) -> str:
    """The struct that a field has, lists or maps; "" for anything else."""
    for key, mark in (("", ""), ("items", LISTS), ("additionalProperties", MAPS)):
        part = schema.get(key) if key else schema
        if isinstance(part, dict) and short(part.get("$ref", "")) in structs - RECURSIVE:
            return short(part["$ref"]) + mark
    return ""


def table(definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Kinds with their structs, and structs with their fields, as far as kinds reach them."""
    by_name = {short(name): schema for name, schema in definitions.items() if "properties" in schema}
    kinds: dict[str, str] = {}
    for name, schema in by_name.items():
        if "metadata" in schema["properties"] and "items" not in schema["properties"]:
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                kinds[f"{kind['group']}/{kind['version']}/{kind['kind']}".lstrip("/")] = name
    structs: dict[str, dict[str, str]] = {}
    pending = sorted(set(kinds.values()), reverse=True)
    while pending:
        name = pending.pop()
        if name not in structs:
            fields = by_name[name]["properties"]
            structs[name] = {field: target(fields[field], set(by_name)) for field in sorted(fields)}
            pending += {found.rstrip(LISTS + MAPS) for found in structs[name].values() if found}
    return {"kinds": dict(sorted(kinds.items())), "structs": dict(sorted(structs.items()))}


def text(made: dict[str, Any]) -> str:
    """JSON with one kind or struct in each line."""
    parts = [f'"{name}": {json.dumps(value)}' for name, value in SOURCE.items()]
    for section in ("kinds", "structs"):
        lines = [
            f"  {json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
            for name, value in made[section].items()
        ]
        parts.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    print(text(table(json.loads(Path(sys.argv[1]).read_text())["$defs"])), end="")
