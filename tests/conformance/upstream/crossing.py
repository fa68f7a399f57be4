"""New scenarios from those of the vectors: each takes configuration, objects, and parts of nodes, pods and
claims from others, so that features meet which never do in one family."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from moorage.kube.releases import dependents_off, gates_of, release_named
from tests.conformance.vectors import lines
from tests.doors.kube import Effect

Json = dict[str, Any]

FULL = (
    *("resources", "taints", "node_affinity", "ports", "spread_hard", "spread_soft", "spread_default"),
    *("interpod_required", "interpod_preferred", "images", "images_churn", "mixed", "churn", "nominated"),
    *("config", "storm", "storm_config", "storm_volumes", "storm_nominated", "storm_gates", "volumes"),
    *("storm_gates_volumes", "storm_status", "storm_off", "quantities"),
    *("preempt", "preempt_constraints", "storm_preempt"),
)
DRA = ("dra", "dra_cel", "dra_features")
SAMPLED = (
    *("sampled", "sampled_plain", "sampled_mixed", "batching", "extenders"),
    *("storm_sampled", "storm_ties", "storm_batching"),
)
GANG = ("gang_plain", "gang_tas", "gang_preempt", "gang_wap")
WRITES = ("create", "update", "update", "updateStatus", "updateStatus", "patch", "patchPod", "delete")
REASONS = ("internal", "forbidden", "conflict")
"""Writes that are refused, and why."""
SPEC = (
    *("affinity", "topologySpreadConstraints", "tolerations", "nodeSelector", "overhead", "initContainers"),
    *("containers", "priority", "preemptionPolicy", "resources", "hostNetwork", "volumes"),
)
"""Fields of pods that are taken from others."""
_SMALL = re.compile(r"\d{1,9}m?|\d{1,5}[KMG]i")
"""Quantities that Go keeps as 64-bit integers."""


def scenarios(folder: Path, families: Iterable[str]) -> list[Json]:
    """The scenarios of families that are not large.

    Parameters
    ----------
    folder : Path
        Of files of vectors.
    families : iterable of str

    Returns
    -------
    list of dict
    """
    found = []
    for path in (folder / f"{family}.jsonl.gz" for family in families):
        for line in lines(path):
            if len(line) < 600_000:
                scenario: Json = json.loads(line)["scenario"]
                if not scenario.pop("brief", False) or scenario["mode"] == "sampled":
                    scenario.pop("digest", None)
                    found.append(scenario)
    return found


def of_release(scenario: Json, release: str) -> Json:
    """A scenario with its release, without the gates that the release has not, or does not let anybody set.

    Gates that need one that is off are off as well.

    Parameters
    ----------
    scenario : dict
    release : str
        "1.37", for example.

    Returns
    -------
    dict
    """
    known = gates_of(release_named(release))
    configuration = dict(scenario.get("config", {}))
    gates = configuration.pop("featureGates", {})
    gates = {
        name: on for name, on in gates.items()
        if name in known and not known[name].is_locked and known[name].effect is not Effect.NOT_BUILT
    }  # fmt: skip
    gates = dependents_off(gates, release_named(release)) | gates  # or upstream would not start
    return scenario | {"release": release, "config": configuration | {"featureGates": gates}}


def crossed(parents: list[Json], seed: int, count: int, others: Sequence[Json] = ()) -> Iterator[Json]:
    """Yield new scenarios; equal arguments give equal ones.

    Parameters
    ----------
    parents : list of dict
        Scenarios of modes full and preempt, of mode sampled, of mode gang, or of mode dra.
    seed, count : int
    others : sequence of dict
        More scenarios, from which nodes, pods and objects are taken.

    Yields
    ------
    dict
    """
    random = Random(seed)
    for number in range(count):
        child = copy.deepcopy(random.choice(parents))
        donors = random.choices([*parents, *others], k=3)
        child["name"] = f"crossed-{seed}-{number}-{child['name']}"
        child["steps"] = list(_each_pod_once(child["steps"][: random.randint(5, 30)]))
        rate = random.choice([0.0, 0.1, 0.3, 0.6])
        if random.random() < 0.3 and _kind(donors[0]) == _kind(child):
            child["config"] = copy.deepcopy(donors[0].get("config", {}))
        if child["mode"] == "dra":
            _cross_devices(child, donors, rate, random)
        else:
            _cross_pods(child, donors, rate, random)
        yield child


def without_growing_requests(scenario: Json) -> Json:
    """Drop the overhead that v1.36 adds to a request of the pod again and again (docs/decisions.md).

    Parameters
    ----------
    scenario : dict
        Is changed.

    Returns
    -------
    dict
        The scenario.
    """
    for pod in _objects(scenario, "Pod"):
        spec = pod.get("spec") or {}
        requests = (spec.get("resources") or {}).get("requests") or {}
        grows = {name for name, amount in requests.items() if not _SMALL.fullmatch(str(amount))}
        if grows & (spec.get("overhead") or {}).keys():
            spec["overhead"] = {name: each for name, each in spec["overhead"].items() if name not in grows}
    return scenario


def _each_pod_once(steps: Iterable[Json]) -> Iterator[Json]:
    """A pod that fits another scenario's cluster would be there already when it is scheduled again."""
    seen = set()
    for step in steps:
        if step["op"] == "schedule":
            meta = step["pod"]["metadata"]
            key = meta.get("namespace"), meta["name"]
            if key in seen:
                continue
            seen.add(key)
        yield step


def _kind(scenario: Json) -> str:
    """What may share a configuration: mode preempt goes on where mode full ends."""
    mode: str = scenario["mode"]
    return "full" if mode == "preempt" else mode


def _objects(scenario: Json, kind: str) -> list[Json]:
    """The objects of a kind, those of steps included."""
    field = {"Pod": "pod", "Node": "node"}.get(kind, "object")
    stepped = [step[field] for step in scenario["steps"] if isinstance(step.get(field), dict)]
    if kind == "Pod":
        stepped += [pod for step in scenario["steps"] for pod in step.get("members", ())]
    return [one for one in (*scenario["objects"], *stepped) if one.get("kind", kind) == kind]


# ---- all modes but dra --------------------------------------------------------------------------------


def _cross_pods(child: Json, donors: list[Json], rate: float, random: Random) -> None:
    if child["mode"] == "full" and random.random() < 0.25:
        child["mode"] = "preempt"
    _add_objects(child, donors, random)
    _cross_groups(child, donors, rate, random)
    for node in _objects(child, "Node"):
        if (given := _objects(random.choice(donors), "Node")) and random.random() < rate:
            _cross_node(node, random.choice(given), random)
    for at, pod in enumerate(_objects(child, "Pod")):
        if (given := _objects(random.choice(donors), "Pod")) and random.random() < rate:
            _cross_pod(pod, random.choice(given), random, _kind(child) == "full")
        if child["mode"] in ("preempt", "gang"):  # equal times of two victims are left to chance
            time = f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
            pod.setdefault("status", {})["startTime"] = time


def _add_objects(child: Json, donors: list[Json], random: Random) -> None:
    def identity(one: Json) -> tuple[str, str | None, str]:
        return one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]

    known = {identity(one) for one in child["objects"]}
    for donor in donors:
        for one in donor["objects"] if random.random() < 0.6 else ():
            if one["kind"] not in ("Node", "Pod") and identity(one) not in known and random.random() < 0.7:
                known.add(identity(one))
                child["objects"].append(copy.deepcopy(one))


def _cross_node(node: Json, other: Json, random: Random) -> None:
    labels = node["metadata"].setdefault("labels", {})
    given = {
        "taints": ("spec", other.get("spec", {}).get("taints")),
        "unschedulable": ("spec", random.random() < 0.2),
        "allocatable": ("status", other.get("status", {}).get("allocatable")),
        "images": ("status", other.get("status", {}).get("images")),
        "declaredFeatures": ("status", other.get("status", {}).get("declaredFeatures")),
    }
    for name in random.sample(["labels", *given], random.randint(1, 3)):
        if name == "labels":
            labels |= {
                **other["metadata"].get("labels", {}),
                "kubernetes.io/hostname": node["metadata"]["name"],
            }
            if random.random() < 0.2:
                labels.pop(random.choice(sorted(labels)))
        elif given[name][1]:
            node.setdefault(given[name][0], {})[name] = copy.deepcopy(given[name][1])


def _cross_groups(child: Json, donors: list[Json], rate: float, random: Random) -> None:
    specs = [one["spec"] for donor in donors for one in _objects(donor, "PodGroup")]
    for group in _objects(child, "PodGroup"):
        if specs and random.random() < rate:
            group["spec"] = copy.deepcopy(random.choice(specs))


def _cross_pod(pod: Json, other: Json, random: Random, with_volumes: bool) -> None:
    spec, given = pod.setdefault("spec", {}), other.get("spec", {})
    for name in random.sample(SPEC, random.randint(1, 4)):
        if name == "volumes" and not with_volumes:
            continue
        if name in given:
            spec[name] = copy.deepcopy(given[name])
        elif name != "containers" and random.random() < 0.3:
            spec.pop(name, None)
    labels = other["metadata"].get("labels")
    if labels and random.random() < 0.5:
        kept = pod["metadata"].get("labels", {}) if random.random() < 0.5 else {}
        pod["metadata"]["labels"] = {**kept, **labels}


# ---- mode dra ----------------------------------------------------------------------------------------


def _cross_devices(child: Json, donors: list[Json], rate: float, random: Random) -> None:
    classes = [one["metadata"]["name"] for one in _objects(child, "DeviceClass")]
    selectors = [
        one for donor in donors for claim in _objects(donor, "ResourceClaim") for one in _selectors(claim)
    ]
    selectors += [
        one for donor in donors for made in _objects(donor, "DeviceClass") for one in _selectors(made)
    ]
    claims = [one for donor in donors for one in _objects(donor, "ResourceClaim")]
    for claim in _objects(child, "ResourceClaim"):
        if random.random() >= rate:
            continue
        if claim.get("status", {}).get("allocation"):
            _cross_reports(claim["status"], random)
            continue
        if claims and random.random() < 0.5:
            claim["spec"] = copy.deepcopy(random.choice(claims)["spec"])
        for request in _requests(claim):
            if classes and request.get("deviceClassName") not in classes:
                request["deviceClassName"] = random.choice(classes)
            _cross_request(request, classes, selectors, random)
    for made in _objects(child, "DeviceClass"):
        if selectors and random.random() < rate / 2:
            made["spec"]["selectors"] = random.choices(selectors, k=random.choice([0, 1, 1, 2]))
    devices = [
        one
        for donor in donors
        for published in _objects(donor, "ResourceSlice")
        for one in published["spec"].get("devices", ())
    ]
    for published in _objects(child, "ResourceSlice"):
        if devices and random.random() < rate:
            _cross_slice(published["spec"].get("devices", []), devices, random)
    reports = [step["conditions"] for donor in donors for step in donor["steps"] if "conditions" in step]
    for step in child["steps"]:
        if step["op"] == "schedule":
            if reports and random.random() < rate:
                step["conditions"] = random.choice(reports)
            if random.random() < rate / 4:
                step["failWrite"] = {
                    "write": random.choice(WRITES),
                    "nth": random.choice([1, 1, 2]),
                    "reason": random.choice(REASONS),
                }


def _cross_reports(status: Json, random: Random) -> None:
    """What drivers have told of allocated devices: of some of them only, in another order, other values."""
    devices = [
        {
            **{name: one[name] for name in ("driver", "pool", "device")},
            "conditions": copy.deepcopy(conditions),
        }
        for one in status["allocation"]["devices"]["results"]
        for conditions in ([told["conditions"] for told in status.get("devices", ())] or [None])
        if conditions and random.random() < 0.7
    ]
    random.shuffle(devices)
    for device in devices:
        for condition in device["conditions"]:
            if random.random() < 0.3:
                condition["status"] = random.choice(["True", "False", "Unknown"])
    if devices:
        status["devices"] = devices


def _requests(claim: Json) -> Iterator[Json]:
    for request in claim["spec"].get("devices", {}).get("requests", ()):
        yield from ([request["exactly"]] if "exactly" in request else request.get("firstAvailable", ()))


def _selectors(one: Json) -> list[Json]:
    owners = [one["spec"]] if one["kind"] == "DeviceClass" else _requests(one)
    return [selector for owner in owners for selector in owner.get("selectors", ())]


def _cross_request(request: Json, classes: list[str], selectors: list[Json], random: Random) -> None:
    match random.randrange(6):
        case 0:
            request |= {"allocationMode": "ExactCount", "count": random.choice([1, 1, 2, 3, 4])}
        case 1:
            request["allocationMode"] = "All"
            request.pop("count", None)
        case 2 if selectors:
            request["selectors"] = random.choices(selectors, k=random.choice([0, 1, 1, 2]))
        case 3 if classes:
            request["deviceClassName"] = random.choice(classes)
        case 4:
            request["tolerations"] = [{"operator": "Exists"}]


def _cross_slice(devices: list[Json], given: list[Json], random: Random) -> None:
    if random.random() < 0.3:
        random.shuffle(devices)
        return
    for device in devices:
        other = random.choice(given)
        if random.random() < 0.5:
            names = (
                *("attributes", "capacity", "allowMultipleAllocations", "taints"),
                *("bindingConditions", "bindingFailureConditions", "bindsToNode"),
            )
            device |= {name: copy.deepcopy(other[name]) for name in names if name in other}
