"""Make the table of the fields of Karpenter's kinds from its CustomResourceDefinitions.

    python -m tests.objects.validate.make_karpenter_field_names CRD.yaml... > FILE

FILE is python/moorage/objects/validate/karpenter_field_names.json; the definitions are pkg/apis/crds/*.yaml
of the module sigs.k8s.io/karpenter v1.15.0.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SOURCE = "pkg/apis/crds of the Go module sigs.k8s.io/karpenter v1.15.0"


def put(structs: dict[str, dict[str, str]], name: str, schema: dict[str, Any]) -> None:
    """Add a struct and those below it."""
    structs[name] = {}
    for field, of in sorted(schema["properties"].items()):
        items = of.get("items", of)
        structs[name][field] = ""
        if field == "metadata" and "properties" not in of:
            structs[name][field] = "meta.v1.ObjectMeta"
        elif "properties" in items:
            inner = f"{name}.{field}"
            put(structs, inner, items)
            structs[name][field] = inner + ("[]" if items is not of else "")


def table(paths: list[str]) -> dict[str, Any]:
    kinds: dict[str, str] = {}
    structs: dict[str, dict[str, str]] = {}
    for path in paths:
        spec = yaml.safe_load(Path(path).read_text())["spec"]
        kind = spec["names"]["kind"]
        for version in spec["versions"]:
            name = f"karpenter.{version['name']}.{kind}"
            kinds[f"{spec['group']}/{version['name']}/{kind}"] = name
            put(structs, name, version["schema"]["openAPIV3Schema"])
    return {"source": SOURCE, "licence": "Apache-2.0", "kinds": kinds, "structs": structs}


if __name__ == "__main__":
    print(json.dumps(table(sys.argv[1:]), indent=1))
