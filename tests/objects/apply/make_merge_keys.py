"""Makes the table of patch strategies and merge keys from the JSON schema of Kubernetes' types.

    python -m tests.objects.apply.make_merge_keys v1.36.json v1.37.json > FILE

FILE is python/moorage/kube/apiserver/merge_keys.json; `tests.objects.validate.make_field_names` says where
the schemas are from.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.objects.validate.make_field_names import SOURCE, definitions_of, short, table

STRATEGY, KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"


def merge_keys(definitions: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """By struct and field, the patch strategy and the merge key; of structs in the table of field names."""
    known = table(definitions)["structs"]
    found: dict[str, dict[str, list[str]]] = {}
    for name, schema in definitions.items():
        for field, one in schema.get("properties", {}).items() if short(name) in known else ():
            if STRATEGY in one:
                found.setdefault(short(name), {})[field] = [one[STRATEGY], one.get(KEY, "")]
    return {name: dict(sorted(fields.items())) for name, fields in sorted(found.items())}


def text(made: dict[str, dict[str, list[str]]]) -> str:
    """JSON with one struct in each line."""
    parts = [f'"{name}": {json.dumps(value)}' for name, value in SOURCE.items()]
    rows = {name: json.dumps(fields, separators=(",", ":")) for name, fields in made.items()}
    lines = [f"  {json.dumps(name)}: {row}" for name, row in rows.items()]
    return "{\n" + ",\n".join([*parts, '"structs": {\n' + ",\n".join(lines) + "\n}"]) + "\n}\n"


if __name__ == "__main__":
    print(text(merge_keys(definitions_of(sys.argv[1:]))), end="")
