"""Columns only refuse what would refuse a pod anyway: passes are the same without them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.conformance.karpenter import karpenter_mode
from tests.conformance.vectors import lines
from tests.doors.autoscalers import HostTable
from tests.make import written

SHARE = Path(__file__).parents[1] / "conformance/data/karpenter/share.jsonl.gz"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WAITING = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}


def term(chance: random.Random, weight: int = 0) -> dict[str, Any]:
    labels = {"app": chance.choice("abc")}
    found = {"topologyKey": chance.choice([ZONE, HOST]), "labelSelector": {"matchLabels": labels}}
    return {"weight": weight, "podAffinityTerm": found} if weight else found


def pod(chance: random.Random, number: int) -> dict[str, Any]:
    requests = {
        "cpu": f"{chance.choice([100, 300, 700, 1500])}m",
        "memory": f"{chance.choice([128, 512, 3000])}Mi",
    }
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
    if chance.random() < 0.5:
        key, skew = chance.choice([ZONE, HOST]), chance.randint(1, 3)
        spread = {"topologyKey": key, "maxSkew": skew, "labelSelector": {"matchLabels": {"app": "a"}}}
        spread["whenUnsatisfiable"] = chance.choice(["DoNotSchedule", "ScheduleAnyway"])
        spec["topologySpreadConstraints"] = [spread]
    affinity: dict[str, Any] = {}
    if chance.random() < 0.3:
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(chance)]}
    if chance.random() < 0.3:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(chance)]}
    elif chance.random() < 0.3:
        preferred = [term(chance, chance.randint(1, 9))]
        affinity["podAntiAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if chance.random() < 0.3:
        spec["nodeSelector"] = {ZONE: chance.choice(["za", "zb"])}
    meta = {"name": f"p{number:02}", "namespace": "default", "uid": f"{chance.getrandbits(40):x}-{number}"}
    meta["labels"] = {"app": chance.choice("abc")}  # type: ignore[assignment]
    return written("v1/Pod", meta, spec | {"affinity": affinity}, status=WAITING)


def scenario(seed: int) -> dict[str, Any]:
    """Some pods for the pools, types and nodes of a committed vector."""
    chance = random.Random(seed)
    vectors = [json.loads(line)["scenario"] for line in lines(SHARE)]
    found: dict[str, Any] = chance.choice([one for one in vectors if one["instanceTypes"]])
    found["objects"] += [pod(chance, number) for number in range(chance.randint(10, 60))]
    return found


class EveryHost(HostTable):  # type: ignore[type-arg]
    def possible(self, _candidate: Any, order: npt.NDArray[np.int32]) -> Iterator[int]:
        return iter(range(len(order)))


@pytest.mark.parametrize("seed", range(14))
def test_columns_change_no_decision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scenario(seed)
    with_columns = karpenter_mode.played(given, seed)
    for user in ("cluster_view", "solve"):
        monkeypatch.setattr(f"moorage.autoscalers.karpenter.{user}.HostTable", EveryHost)
    assert karpenter_mode.played(given, seed) == with_columns
