"""Make a file of the fields of kinds of another project from its CustomResourceDefinitions.

    python -m tests.objects.validate.make_operator_fields SOURCE CRD.yaml... > FILE

FILE in python/moorage/kube/apiserver is kueue_fields.json, of the kinds that people write in
config/components/crd/bases of Kueue; or workload_fields.json, of Rollouts, CloneSets and LeaderWorkerSets.
The files say what SOURCE was. Each struct has its fields as field_names.json has them; its name is the kind
and the path, but for templates of pods.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

POD = "core.v1.PodTemplateSpec"


def structs(schema: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a struct with its fields, and those in it."""
    fields = {}
    for field, of in schema["properties"].items():
        inner = of.get("items", of)
        has_fields = "properties" in inner
        is_pod = has_fields and "containers" in inner["properties"].get("spec", {}).get("properties", ())
        fields[field] = (
            (POD if is_pod else f"{name}.{field}") + "[]" * (inner is not of) if has_fields else ""
        )
        if has_fields and not is_pod:
            yield from structs(inner, f"{name}.{field}")
    yield name, fields


def table(source: str, paths: list[str]) -> dict[str, Any]:
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        spec = yaml.safe_load(Path(path).read_text())["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            found |= dict(structs(version["schema"]["openAPIV3Schema"], name))
            found[name]["metadata"] = "meta.v1.ObjectMeta"
    return {"source": source, "licence": "Apache-2.0", "structs": found}


if __name__ == "__main__":
    print(json.dumps(table(sys.argv[1], sys.argv[2:]), separators=(",", ":")))
