"""Shares of dumps: some nodes with their pods, and workloads with as many replicas as they have then."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import moorage as mo
from tests.agreement.clusters import ROOT, Cluster
from tests.agreement.objects import Key, Object, controller_of, key_of, name_of

DUMPS = ("archives/must-gather.tar.gz", "users/dump.json.gz", "archives/insights.tar.gz")


@cache
def _objects(name: str) -> list[Object]:
    objects: list[Object] = mo.load(ROOT / "tests/data" / name).to_dict()["items"]
    return objects


def share(seed: int, number: int) -> Cluster:
    """The share of a number among those of a seed."""
    rng, name = random.Random(f"share {seed} {number}"), DUMPS[number % len(DUMPS)]
    objects = _objects(name)
    names = sorted(name_of(obj) for obj in objects if obj["kind"] == "Node")
    kept = set(rng.sample(names, min(len(names), rng.randint(3, 5))))
    gone = set(names) - kept
    lost = Counter(_owner(obj) for obj in objects if obj["kind"] == "Pod" and _is_of(obj, gone))
    by_key = {key_of(obj): obj for obj in objects}
    for key in [key for key in lost if key[0] == "ReplicaSet" and key in by_key]:
        lost[_owner(by_key[key])] += lost[key]
    sets = {key for key in lost if key[0] == "StatefulSet"}  # the pods that they have are the first ones
    rest = [obj for obj in objects if not _is_of(obj, gone) and not {key_of(obj), _owner(obj)} & sets]
    mine = [_changed(obj, lost[key_of(obj)]) for obj in rest]
    return Cluster(f"{name.split('/')[1].split('.')[0]}-{seed}-{number}", mine)


def _owner(obj: Object) -> Key:
    owner = controller_of(obj) or {"kind": "", "name": ""}
    return owner["kind"], obj["metadata"].get("namespace", ""), owner["name"]


def _changed(obj: Object, by: int) -> Object:
    """A Deployment or ReplicaSet with fewer replicas; a node without a release: the default decides."""
    if obj["kind"] == "Node":
        return {**obj, "status": {**obj["status"], "nodeInfo": {}}}
    if by and obj["kind"] in ("Deployment", "ReplicaSet"):
        return {**obj, "spec": {**obj["spec"], "replicas": obj["spec"].get("replicas", 1) - by}}
    return obj


def _is_of(obj: Object, nodes: set[str]) -> bool:
    """Whether an object is one of these nodes, or there for one."""
    if obj["kind"] in ("Node", "CSINode"):
        return name_of(obj) in nodes
    return obj["kind"] == "Pod" and obj["spec"].get("nodeName") in nodes
