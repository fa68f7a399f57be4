"""How a change that an answer offers is carried out: by an option, by a later file, or in the dump."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tests.agreement.asking import Asking
from tests.agreement.objects import Object, controller_of, manifest, name_of, pod_name, with_statuses

PATH = re.compile(r"spec\.(initContainers|containers)\[(\d+)\]\.resources\.requests\[(.+)\]")
REVISION = "deployment.kubernetes.io/revision"


class Carried(NamedTuple):
    """A change that is made."""

    options: tuple[str, ...]
    of: str = ""
    """The file of the cluster with the change; "" for the cluster as it is."""


def carried(asking: Asking, changes: Sequence[dict[str, Any]], pods: Collection[str]) -> Carried | None:
    """Carry out changes that `explain` offers for pods, together; None where this kit cannot."""
    options, objects = list[str](), copy.deepcopy(asking.cluster.objects)
    mine = [obj for obj in objects if obj["kind"] == "Pod" and pod_name(obj) in pods]
    for change in changes:
        if change["kind"] in OF_PODS:
            edited = [not pod["spec"].get("nodeName") and _edit(pod["spec"], change) for pod in mine]
            if not all(edited):  # what comes in the place of a pod with a node is not in the dump
                return None
        else:
            words = _option(asking, change, next(iter(pods)).split("/")[0])
            if words is None:
                return None
            options += words
    is_same = objects == asking.cluster.objects
    return Carried(tuple(options), "" if is_same else asking.write("carried", objects))


OF_PODS = ("lower-request", "add-toleration", "change-spread", "drop", "other-label")
"""Changes of the pods that wait, which are made in the dump."""


def _option(asking: Asking, change: dict[str, Any], namespace: str) -> tuple[str, ...] | None:
    """The option or the later file that makes a change of something else."""
    text = change["text"]
    match change["kind"]:
        case "add-node":
            place = {"zone": change["zone"]} if "zone" in change else {}
            labels = "".join(f",{key}={value}" for key, value in (place | change.get("label", {})).items())
            return "--add-nodes", f"{change['like']}={change.get('nodes', 1)}{labels}"
        case "uncordon-node":
            return "--uncordon", change["node"]
        case "remove-taint":
            key = re.match(r"remove the taint ([^=:\s]+)", text)
            return None if key is None else ("--taint", change["node"], f"{key[1]}-")
        case "add-label" if "node" in change:
            ((key, value),) = change["label"].items()
            return "--label", change["node"], f"{key}={value}"
        case "fewer-replicas":
            kind, name = change["workload"].split("/")
            return "--scale", f"{kind}/{namespace}/{name}={change['to']}"
        case "undo-rollout":
            return _undone(asking, change["workload"].split("/")[1], namespace, change["to"])
    return None


def _undone(asking: Asking, name: str, namespace: str, revision: str) -> tuple[str, ...] | None:
    """A later file with the template of the ReplicaSet of a revision."""
    cluster = asking.cluster
    deployments = {(one["metadata"]["namespace"], name_of(one)): one for one in cluster.of("Deployment")}
    for old in cluster.of("ReplicaSet"):
        meta, owner = old["metadata"], controller_of(old)
        is_own = owner is not None and (meta["namespace"], owner["name"]) == (namespace, name)
        if is_own and meta.get("annotations", {}).get(REVISION) == revision:
            new = manifest(deployments[namespace, name])
            new["spec"]["template"] = copy.deepcopy(old["spec"]["template"])
            new["spec"]["template"]["metadata"]["labels"].pop("pod-template-hash", None)
            return "-f", asking.write("undone", [new])
    return None


def _edit(spec: Object, change: dict[str, Any]) -> bool:
    """Make a change of a pod; False where this kit cannot."""
    match change["kind"]:
        case "lower-request":
            return min(_lower(spec, edit) for edit in change["edits"])
        case "add-toleration":
            spec["tolerations"] = [*spec.get("tolerations", ()), change["toleration"]]
            return True
        case "other-label":
            spec["nodeSelector"][change["field"]] = change["to"]
            return True
        case "change-spread":
            constraints, to = spec.get("topologySpreadConstraints", []), change["to"]
            if len(constraints) == 1:
                constraints[0][change["field"]] = int(to) if to.isdigit() else to
            return len(constraints) == 1
    return _drop(spec, change["constraint"]["kind"], change["constraint"]["name"])


def _lower(spec: Object, edit: dict[str, str]) -> bool:
    path = PATH.fullmatch(edit["path"])
    if path is None:
        return False
    resources = spec[path[1]][int(path[2])]["resources"]
    resources["requests"][path[3]] = edit["to"]
    if "/" in path[3]:  # an extended resource has one amount
        resources["limits"][path[3]] = edit["to"]
    return True


def _drop(spec: Object, kind: str, name: str) -> bool:
    """Drop a constraint, where the pod has no other of its kind."""
    match kind:
        case "node-selector":
            return spec.get("nodeSelector", {}).pop(name.partition("=")[0], None) is not None
        case "topology-spread" if len(spec.get("topologySpreadConstraints", ())) == 1:
            del spec["topologySpreadConstraints"]
            return True
        case "pod-anti-affinity" if len(spec["affinity"]) == 1:
            del spec["affinity"]
            return True
    return False


# ---- what a plan of drains offers --------------------------------------------------------------------------


def carried_for_a_drain(asking: Asking, text: str) -> list[Carried]:
    """The ways to carry out a change that `plan drain` offers; none where this kit cannot."""
    cluster = asking.cluster
    if found := re.match(r"set (\w+) of PodDisruptionBudget (\S+) to (\d+) ", text):
        budget = next(one for one in cluster.of("PodDisruptionBudget") if pod_name(one) == found[2])
        new = copy.deepcopy(budget)
        new["spec"][found[1]] = int(found[3])
        new["metadata"]["generation"] = new["metadata"].get("generation", 1) + 1
        later = Carried(("-f", asking.write("budget", [manifest(new)])))
        seen = with_statuses([new if obj is budget else obj for obj in cluster.objects])
        return [later, Carried((), asking.write("carried", seen))] if cluster.is_drawn else [later]
    if found := re.match(r"delete PodDisruptionBudget (\S+)$", text):
        gone = [one for one in cluster.of("PodDisruptionBudget") if pod_name(one) == found[1]]
        return [Carried((), asking.write("carried", [obj for obj in cluster.objects if obj not in gone]))]
    if found := re.match(r"add a node like (\S+)(?: in zone (\S+))?$", text):
        zone = f",zone={found[2]}" if found[2] else ""
        return [Carried(("--add-nodes", f"{found[1]}=1{zone}"))]
    if found := re.match(r"one replica more of (\S+)$", text):
        workload = next(one for one in cluster.workloads if one.target == found[1])
        return [Carried(("--scale", f"{workload.target}={workload.replicas + 1}"))]
    return [Carried(("--force",))] if text.startswith("--force") else []
