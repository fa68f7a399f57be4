"""What a replay with an autoscaler costs: `python -m bench.scaling.replays`.

Scenarios are drawn: pods of Jobs and ReplicaSets that arrive within three hours, and a day of sixty
Deployments that are scaled every two hours. Each is replayed once with cluster-autoscaler and two groups, and
once with Karpenter and the instance types of examples/ca-or-karpenter. Each replay has a process of its own;
seconds are processor time.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from moorage import Timeline, replay
from moorage.kube.read.python_values import dump_yaml

Json = dict[str, Any]
TYPES = Path(__file__).parents[2] / "examples" / "ca-or-karpenter" / "instance_types.yaml"
HOURS, SERVICES, DAY = 3, 60, 24
SCENARIOS = {"1,000 pods in 3 hours": 1000, "8,000 pods in 3 hours": 8000, "60 services for a day": 0}
KARPENTER: Json = {
    "karpenter": {
        "instanceTypes": str(TYPES),
        "launchTime": "40s",
        "registrationTime": "20s",
        "initializationTime": "20s",
    }
}
GROUPS: Json = {
    "expander": ["least-waste"],
    "nodeGroups": [
        {"name": "small", "template": "small", "minSize": 1, "maxSize": 400, "provisionTime": "1m"},
        {"name": "large", "template": "large", "maxSize": 200, "provisionTime": "2m"},
    ],
    "scaleDown": {"utilizationThreshold": 0.5, "unneededTime": "10m", "delayAfterAdd": "10m"},
}
POOL: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ],
                "expireAfter": "Never",
            }
        },
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "1m",
            "budgets": [{"nodes": "20%"}],
        },
    },
}


def node(name: str, cpu: str, memory: str) -> Json:
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod_spec(cpu: str) -> Json:
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {"containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}]}


def pod(name: str, owner: str, cpu: str) -> Json:
    group = "batch/v1" if owner == "Job" else "apps/v1"
    owners = [{"apiVersion": group, "kind": owner, "name": "o", "uid": "o", "controller": True}]
    metadata = {"name": name, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu)}


def deployment(name: str, cpu: str) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cpu)}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def scenario(pods: int, autoscaler: Json) -> Json:
    """The pods in three hours, or for none the day of services."""
    templates = {"small": node("small", "4", "16Gi"), "large": node("large", "16", "64Gi"), "pool": POOL}
    events: list[Json] = [{"time": 0, "create": "pool"}] if autoscaler is KARPENTER else []
    arrivals: list[Json] = []
    if pods:
        templates |= {"job": pod("job", "Job", "1"), "web": pod("web", "ReplicaSet", "500m")}
        shared = {"process": "poisson", "rate": pods / 2 / (3600 * HOURS), "until": f"{HOURS}h"}
        lifetimes = {"job": "20m", "web": "40m"}
        arrivals = [
            {"template": name, "seed": seed, "lifetime": {"exponential": mean}, **shared}
            for seed, (name, mean) in enumerate(lifetimes.items())
        ]
    draw = random.Random(3)
    for name in () if pods else [f"web-{at}" for at in range(SERVICES)]:
        templates[name] = deployment(name, draw.choice(["250m", "500m", "1"]))
        events.append({"time": 0, "create": name})
        for hour in range(1, DAY, 2):
            at = f"{60 * hour + draw.randrange(60)}m"
            events.append({"time": at, "scale": f"deploy/{name}", "replicas": draw.randrange(1, 12)})
    events.append({"time": f"{HOURS + 1 if pods else DAY}h", "measure": "end"})
    spec = {"templates": templates, "arrivals": arrivals, "events": events, "autoscaler": autoscaler}
    return {"apiVersion": "replay.moorage.dev/v1", "kind": "Scenario", "spec": spec}


def seconds(document: Json) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(dump_yaml(document))
        timeline = Timeline.read(path)
    began = time.process_time()
    replay(timeline)
    return time.process_time() - began


def main() -> None:
    print("| replay | cluster-autoscaler | Karpenter |\n|---|---:|---:|")
    for heading, pods in SCENARIOS.items():
        cells = []
        for autoscaler in (GROUPS, KARPENTER):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cells.append(f"{pool.apply(seconds, (scenario(pods, autoscaler),)):.1f} s")
        print(f"| {heading} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
