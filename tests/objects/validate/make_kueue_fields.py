"""Make the file of the fields of Kueue's kinds from its CustomResourceDefinitions.

    python -m tests.objects.validate.make_kueue_fields CRD.yaml... > FILE

FILE is python/moorage/kube/apiserver/kueue_fields.json; the definitions are kueue.x-k8s.io_*.yaml of
config/components/crd/bases in github.com/kubernetes-sigs/kueue v0.17.8, of the kinds that people write. Each
struct has its fields as field_names.json has them; its name is the kind and the path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

SOURCE = "config/components/crd/bases of github.com/kubernetes-sigs/kueue v0.17.8, names of fields alone"


def structs(schema: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a struct with its fields, and those in it."""
    fields = {}
    for field, of in schema["properties"].items():
        inner = of.get("items", of)
        has_fields = "properties" in inner
        fields[field] = f"{name}.{field}" + "[]" * (inner is not of) if has_fields else ""
        if has_fields:
            yield from structs(inner, f"{name}.{field}")
    yield name, fields


def table(paths: list[str]) -> dict[str, Any]:
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        spec = yaml.safe_load(Path(path).read_text())["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            found |= dict(structs(version["schema"]["openAPIV3Schema"], name))
            found[name]["metadata"] = "meta.v1.ObjectMeta"
    return {"source": SOURCE, "licence": "Apache-2.0", "structs": found}


if __name__ == "__main__":
    print(json.dumps(table(sys.argv[1:]), separators=(",", ":")))
