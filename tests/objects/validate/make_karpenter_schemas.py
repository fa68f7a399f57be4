"""Make the file of the schemas of Karpenter's kinds from its CustomResourceDefinitions.

    python -m tests.objects.validate.make_karpenter_schemas CRD.yaml... > FILE

FILE is python/moorage/kube/apiserver/karpenter_schemas.json; the definitions are karpenter.sh_*.yaml and
autoscaling.x-k8s.io_capacitybuffers.yaml of pkg/apis/crds in the module sigs.k8s.io/karpenter v1.15.0, and
karpenter.k8s.aws_ec2nodeclasses.yaml there in the module github.com/aws/karpenter-provider-aws v1.15.0; and
aksnodeclasses and gcenodeclasses of the charts in github.com/Azure/karpenter-provider-azure 352646f5 and
github.com/cloudpilot-ai/karpenter-provider-gcp 417f047b. Descriptions are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SOURCE = (
    "pkg/apis/crds of the Go modules sigs.k8s.io/karpenter v1.15.0 and "
    "github.com/aws/karpenter-provider-aws v1.15.0, and charts of github.com/Azure/karpenter-provider-azure "
    "352646f5 and github.com/cloudpilot-ai/karpenter-provider-gcp 417f047b, without descriptions"
)


def bare(schema: Any, is_map: bool = False) -> Any:
    """A schema without its descriptions; in a map of properties, all names are those of fields."""
    if isinstance(schema, list):
        return [bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: bare(value, key == "properties" and not is_map)
        for key, value in schema.items()
        if is_map or key != "description"
    }


def table(paths: list[str]) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for path in paths:
        spec = yaml.safe_load(Path(path).read_text())["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            kinds[name] = bare(version["schema"]["openAPIV3Schema"])
    return {"source": SOURCE, "licence": "Apache-2.0", "kinds": kinds}


if __name__ == "__main__":
    print(json.dumps(table(sys.argv[1:]), separators=(",", ":")))
