"""Clusters that are asked about: inputs of which an answer was wrong once, and dumps; what all have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import yaml

from tests.agreement.objects import Object, controller_of, key_of, name_of, with_statuses

ZONE = "topology.kubernetes.io/zone"
ROOT = Path(__file__).parents[2]
FIXED = Path(__file__).parent / "inputs"
"""A folder each: cluster.yaml, and the files that its options name."""
DUMPS = ("etcd_quorum_guard.json", "openshift_insights.json", "troubleshoot_bundle.json")


@dataclass(frozen=True)
class Workload:
    """A workload that controllers know, and its pods."""

    obj: Object
    pods: tuple[Object, ...]

    @property
    def kind(self) -> str:
        return self.obj["kind"]

    @property
    def name(self) -> str:
        return name_of(self.obj)

    @property
    def namespace(self) -> str:
        return self.obj["metadata"].get("namespace", "default")

    @property
    def target(self) -> str:
        """As options name it."""
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"

    @property
    def replicas(self) -> int:
        return self.obj["spec"].get("replicas", 1)

    @property
    def nodes(self) -> list[str]:
        """The nodes that its pods are on."""
        return sorted({pod["spec"]["nodeName"] for pod in self.pods if pod["spec"].get("nodeName")})


@dataclass(frozen=True)
class Cluster:
    """Objects, and the options that each question about them takes."""

    name: str
    objects: list[Object]
    options: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """What files of the options have, by name."""
    is_drawn: bool = False

    def of(self, kind: str) -> list[Object]:
        return [obj for obj in self.objects if obj["kind"] == kind]

    @cached_property
    def nodes(self) -> list[Object]:
        return self.of("Node")

    @cached_property
    def pods(self) -> list[Object]:
        return self.of("Pod")

    @cached_property
    def zones(self) -> list[str]:
        return sorted({zone for node in self.nodes if (zone := node["metadata"].get("labels", {}).get(ZONE))})

    @property
    def is_settled(self) -> bool:
        """Whether all pods have a node."""
        return bool(self.pods) and all(pod["spec"].get("nodeName") for pod in self.pods)

    @property
    def grows(self) -> bool:
        """Whether autoscalers make nodes."""
        return bool(self.options) or bool(self.of("NodePool"))

    @cached_property
    def workloads(self) -> list[Workload]:
        """Deployments, StatefulSets, DaemonSets and Jobs with their pods."""
        by_key = {key_of(obj): obj for obj in self.objects}
        pods: dict[object, list[Object]] = {}
        for pod in self.pods:
            owner, namespace = controller_of(pod), pod["metadata"].get("namespace", "default")
            if owner is not None and owner["kind"] == "ReplicaSet":
                between = by_key.get(("ReplicaSet", namespace, owner["name"]))
                owner = owner if between is None else controller_of(between) or owner
            if owner is not None:
                pods.setdefault((owner["kind"], namespace, owner["name"]), []).append(pod)
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job")
        return [Workload(obj, tuple(pods.get(key_of(obj), ()))) for kind in kinds for obj in self.of(kind)]

    def scaled(self) -> list[Workload]:
        """The workloads with replicas."""
        return [workload for workload in self.workloads if workload.kind in ("Deployment", "StatefulSet")]

    def with_objects(self, objects: Iterable[Object]) -> Cluster:
        """The cluster with other objects; in a drawn one controllers have seen them."""
        return replace(self, objects=with_statuses(list(objects)) if self.is_drawn else list(objects))


def fixed() -> Iterator[Cluster]:
    """Inputs of which two answers did not agree once, and dumps."""
    for folder in sorted(FIXED.iterdir()):
        options = folder / "options.txt"
        words = tuple(options.read_text().split()) if options.exists() else ()
        files = {path.name: path.read_text() for path in folder.iterdir() if path.name != "cluster.yaml"}
        yield Cluster(folder.name, read(folder / "cluster.yaml"), words, files)
    for name in DUMPS:
        yield Cluster(Path(name).stem, read(ROOT / "tests/data" / name))


def read(path: Path) -> list[Object]:
    """The objects of a file, those of lists one by one."""
    text = path.read_text()
    documents = [json.loads(text)] if path.suffix == ".json" else yaml.load_all(text, yaml.CSafeLoader)
    found: list[Object] = []
    for document in filter(None, documents):
        found += document["items"] if document["kind"].endswith("List") else [document]
    return found
