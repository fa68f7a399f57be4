"""Every document of ``-o json`` follows its schema in ``cli/schemas``, which allows no other field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import moorage.cli
from moorage.cli import main

SCHEMAS = {path.name.split(".")[0]: path for path in Path(moorage.cli.__file__).parent.glob("schemas/*.json")}
EXAMPLES = ["-f", "examples"]
GPU = ["-f", "examples/gpu/cluster.yaml", "-f", "examples/gpu/pods.yaml", "-f", "examples/gpu/misfits.yaml"]
TRACE = ["tests/data/openb/nodes.csv", "tests/data/openb/pods.csv"]
TYPES = "examples/karpenter/instance_types.yaml"
POOLS = ["-f", "examples/karpenter/cluster.yaml", "--instance-types", TYPES]
NODE_GROUPS = ["-f", "tests/data/troubleshoot_bundle.json", "-f", "examples/node-groups/release.yaml"]
NODE_GROUPS += ["--node-groups", "examples/node-groups/groups.yaml"]
UNDERUSED = "examples/karpenter/underused/cluster.yaml"
GANG = ["-f", "tests/data/gang.yaml", "--kubernetes-version", "1.37"]
GROUPS = [*GANG, "--feature-gates", "GenericWorkload=true"]
COMMANDS = [
    ["simulate", *EXAMPLES],
    ["simulate", *EXAMPLES, "--summary"],
    ["capacity", *EXAMPLES, "--pod", "tests/data/web_pod.yaml"],
    ["capacity", *EXAMPLES, "--pod", "tests/data/web_pod.yaml=2", "--max-limit", "1"],
    ["capacity", *GPU, "--pod", "examples/gpu/quarter.yaml"],
    ["capacity", *EXAMPLES, "--pod", "tests/data/web_pod.yaml", "--gang", "2"],
    ["explain", "podgroup/train", *GROUPS],
    ["explain", "train-0", *GROUPS],
    ["check", *EXAMPLES],
    ["check", *GROUPS],
    ["simulate", *GROUPS],
    ["lint", *EXAMPLES],
    ["nodes", *EXAMPLES],
    ["nodes", *GPU, "--by", "zone"],
    ["nodes", *EXAMPLES, "-n", "pai-gpu"],
    ["plan", "nodes", *EXAMPLES, "--like", "node-1"],
    ["plan", "drain", *EXAMPLES, "--count", "1"],
    ["plan", "drain", *EXAMPLES, "node-1"],
    ["plan", "defragment", *EXAMPLES, "--nodes", "1"],
    ["plan", "bound", *EXAMPLES],
    [
        "plan",
        "consolidate",
        "-f",
        UNDERUSED,
        "--instance-types",
        TYPES,
        "--once",
    ],
    ["check", *POOLS],
    ["simulate", *POOLS],
    ["plan", "nodes", *POOLS],
    ["check", *NODE_GROUPS],
    ["check", "--synthetic", "nodes=3,pods=9"],
    ["check", *EXAMPLES, "--survive", "node", "--at-once", "2"],
    ["check", *EXAMPLES, "-f", "tests/data/left_out.yaml"],
    ["simulate", *EXAMPLES, "-f", "tests/data/left_out.yaml"],
    ["compare", "as-is", "drain worker-1", *EXAMPLES],
    ["compare", "kubernetes 1.35", "kubernetes 1.37", "-f", "examples/upgrade/cluster.yaml"],
    ["explain", "gpu-rs-03-hc4qv", "-n", "pai-gpu", *EXAMPLES, "--node", "master-1"],
    ["explain", "single-pod", *EXAMPLES, "--nodes", "all"],
    ["explain", "--all-pending", *EXAMPLES],
    ["explain", "node/node-a", "-f", UNDERUSED, "--instance-types", TYPES],
    ["explain", "node/new-a", "-f", "examples/shop"],
    ["explain", "--all-pending", *GPU],
    ["explain", "watch", *GPU],
    ["explain", "render", *GPU],
    ["sweep", "tests/data/openb/sweep.yaml", "--executor", "serial"],
    ["replay", *TRACE],
    *(["replay", *TRACE, "--show", part] for part in ("decisions", "pods", "nodes", "usage")),
    ["replay", "tests/data/simkube/trace.json", "--format", "simkube", *EXAMPLES, "--verify"],
]


pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_document_follows_its_schema(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "-o", "json"]) < 2
    document = json.loads(capsys.readouterr().out)
    name = document["apiVersion"].removesuffix(".moorage.dev/v1")
    assert name == command[0]
    schema = json.loads(SCHEMAS[name].read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that describes an object with given fields."""
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_names_every_field(name: str) -> None:
    schema = json.loads(SCHEMAS[name].read_text())
    Draft202012Validator.check_schema(schema)
    assert all(part["additionalProperties"] is False for part in objects(schema))
    versions = [part["properties"].get("apiVersion") for part in objects(schema)]
    assert {"const": f"{name}.moorage.dev/v1"} in versions
    assert name in {command[0] for command in COMMANDS}
