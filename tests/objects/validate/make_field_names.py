"""Makes the table of field names from the JSON schemas of Kubernetes' types, of one release or of several.

For each release:

    pip download --no-deps kubernetes-validate==1.37.0 && unzip -p kubernetes_validate-1.37.0-*.whl \\
        kubernetes_validate/kubernetes-json-schema/v1.37.0-local/_definitions.json > v1.37.json

Then, the earliest first:

    python -m tests.objects.validate.make_field_names v1.34.json v1.35.json v1.36.json v1.37.json > FILE

FILE is python/moorage/kube/apiserver/field_names.json. It has the kinds and the fields of all of them, as
clusters of each release are read, and the releases of each field that some lack. The names of the files tell
the releases.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

SOURCE = {
    "source": "PyPI kubernetes-validate 1.34.1 to 1.37.0, kubernetes-json-schema/v*-local/_definitions.json"
    ", made from api/openapi-spec/swagger.json of github.com/kubernetes/kubernetes v1.34.0 to v1.37.0",
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


def definitions_of(files: list[str]) -> dict[str, dict[str, Any]]:
    """The types of all files; one that several have has the fields of all."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for name, schema in json.loads(Path(file).read_text())["$defs"].items():
            earlier = found.get(name, {}).get("properties", {})
            fields = {"properties": earlier | schema["properties"]} if "properties" in schema else {}
            found[name] = schema | fields
    return found


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
    # 1.38 serves the kind as v1beta1; its schema is not published yet, and has the fields of the earlier one.
    alpha = kinds.get("scheduling.k8s.io/v1alpha3/CompositePodGroup")
    if alpha is not None:
        kinds.setdefault("scheduling.k8s.io/v1beta1/CompositePodGroup", alpha)
    return {"kinds": dict(sorted(kinds.items())), "structs": dict(sorted(structs.items()))}


def spans(releases: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """By struct and field, the first and the last release that has a field, "" for one that has not ended; of
    fields that are not in each release that has their struct.

    Parameters
    ----------
    releases : dict
        The `table` of each release, the earliest first.
    """
    structs = {release: made["structs"] for release, made in releases.items()}
    spans = dict[str, dict[str, list[str]]]()
    for struct in sorted({name for known in structs.values() for name in known}):
        having = [release for release, known in structs.items() if struct in known]
        for field in sorted({name for release in having for name in structs[release][struct]}):
            known = [release for release in having if field in structs[release][struct]]
            if known != having:
                last = "" if known[-1] == having[-1] else known[-1]
                spans.setdefault(struct, {})[field] = [known[0], last]
    return spans


def text(made: dict[str, Any]) -> str:
    """JSON with one kind or struct in each line."""
    parts = [f'"{name}": {json.dumps(value)}' for name, value in SOURCE.items()]
    for section, values in made.items():
        lines = [
            f"  {json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
            for name, value in values.items()
        ]
        parts.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    files = sys.argv[1:]
    of_each = {Path(file).stem.removeprefix("v"): table(definitions_of([file])) for file in files}
    print(text(table(definitions_of(files)) | {"releases": spans(of_each)}), end="")
