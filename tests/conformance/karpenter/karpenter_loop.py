"""Mode loop: Karpenter makes nodes and removes them, in turns, until nothing changes.

The cluster is a list of JSON objects. Nodes are there at once, initialized, with their daemons; pods go where
Karpenter wants them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.autoscalers import NewClaim
from moorage.kube import DaemonSet, Pod, decode_object
from tests.doors.autoscalers import CORE, Catalogue, DisruptionPass, Vocabulary, is_reschedulable
from tests.doors.engine import tolerates

from .karpenter_disruption import NAMES
from .karpenter_mode import KarpenterWorld, rounded

Json = dict[str, Any]

_HOST = "kubernetes.io/hostname"
_MOST_ROUNDS = 60
_LABELS = {"zone": "topology.kubernetes.io/zone", "capacityType": "karpenter.sh/capacity-type"}
_LABELS |= {"nodePool": "karpenter.sh/nodepool", "instanceType": "node.kubernetes.io/instance-type"}


def played(scenario: Json, seed: int, catalogue: Catalogue | None = None) -> Json:
    """The result of a scenario."""
    loop = _Loop(scenario, seed)
    stable = loop.run()
    nodes, cost = loop.nodes()
    return {
        "name": scenario["name"],
        "steps": loop.steps,
        "nodes": nodes or None,
        "cost": cost,
        "stable": stable,
    } | ({"error": loop.error} if loop.error else {})


def key_of(one: Json) -> str:
    meta = one["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _without_empty(step: Json) -> Json:
    return {name: value for name, value in step.items() if value or name in ("cost", "price")}


class _Loop:
    def __init__(self, scenario: Json, seed: int) -> None:
        self.scenario, self.seed = scenario, seed
        self.objects: list[Json] = deepcopy(scenario["objects"])
        self.now = datetime.fromisoformat(scenario["now"])
        self.steps: list[Json] = []
        self.made = 0
        self.daemons = 0
        self.error = ""
        self.types = {one["name"]: one for one in scenario["instanceTypes"]}

    @property
    def stamp(self) -> str:
        return self.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def world(self) -> KarpenterWorld:
        """The cluster as it is now, as Karpenter sees it; reservations are as they were in the beginning."""
        return KarpenterWorld.of(self.scenario | {"objects": self.objects, "now": self.stamp}, self.seed)

    def run(self) -> bool:
        """Play rounds; whether nothing was left to do."""
        for _ in range(self.scenario.get("maxRounds") or _MOST_ROUNDS):
            self.now += timedelta(minutes=1)
            if not self.schedule():
                self.now += timedelta(minutes=10)
                if not self.disrupt():
                    return True
        return False

    def schedule(self) -> bool:
        world = self.world()
        result = world.view().provisioning
        step: Json = {"kind": "schedule", "now": self.stamp, "created": [], "bound": {}}
        self.create_all(world, result.claims, step)
        self.bind_all(result.existing, step)
        if not step["created"] and not step["bound"]:
            return False
        _, step["cost"] = self.nodes()
        step["errors"] = {
            pod: {"text": error.text} | ({"reserved": True} if error.waits else {})
            for pod, error in result.errors.items()
        }
        self.steps.append(_without_empty(step))
        return True

    def disrupt(self) -> bool:
        for method, name in NAMES.items():
            world = self.world()
            view = world.view()
            command = DisruptionPass(view, tells=False).play(method).command
            if command is not None:
                if name != "drift":
                    self.now += timedelta(seconds=15)
                self.apply(world, name, command)
                return True
        return False

    def apply(self, world: KarpenterWorld, kind: str, command: Any) -> None:
        gone = sorted(one.name for one in command.candidates)
        step: Json = {"kind": kind, "now": self.stamp, "removed": gone, "created": [], "bound": {}}
        self.objects = [one for one in self.objects if self.stays(one, gone)]
        self.create_all(world, command.new_claims(), step)
        self.bind_all(command.moves, step)
        _, step["cost"] = self.nodes()
        self.steps.append(_without_empty(step))

    def stays(self, one: Json, gone: Iterable[str]) -> bool:
        """Whether an object is there when nodes are gone; their pods wait if they need another node."""
        match one["kind"]:
            case "Node":
                return key_of(one) not in gone
            case "NodeClaim":
                return one.get("status", {}).get("nodeName") not in gone
            case "Pod" if one["spec"].get("nodeName") in gone:
                pod = decode_object(one)
                assert isinstance(pod, Pod)
                del one["spec"]["nodeName"]
                one["metadata"].pop("deletionTimestamp", None)
                waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                one["status"] = {"phase": "Pending", "conditions": [waits]}
                return is_reschedulable(pod)
        return True

    # ---- nodes and pods ------------------------------------------------------------------------------------

    def find(self, kind: str, key: str) -> Json | None:
        return next((one for one in self.objects if one["kind"] == kind and key_of(one) == key), None)

    def bind_all(self, moves: dict[str, tuple[str, ...]], step: Json) -> None:
        for node, pods in moves.items():
            if self.find("Node", node) is None:
                continue  # it is on its way: the pods wait
            for key in pods:
                pod = self.find("Pod", key)
                if pod is not None and not pod["spec"].get("nodeName"):
                    self.bind(key, node)
                    step["bound"].setdefault(node, []).append(key)

    def bind(self, key: str, node: str) -> None:
        pod = self.find("Pod", key)
        assert pod is not None
        for name in {pod["spec"].get("nodeName"), node} - {None, ""}:
            for one in self.objects:
                if one["kind"] == "NodeClaim" and one["status"].get("nodeName") == name:
                    one["status"]["lastPodEventTime"] = self.stamp
        pod["spec"]["nodeName"] = node
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
        pod["status"] = {"phase": "Running", "startTime": self.stamp, "conditions": ready}

    def create_all(self, world: KarpenterWorld, claims: Sequence[NewClaim], step: Json) -> None:
        """Make the nodes of claims; a claim that the provider cannot launch gets none."""
        launched = [world.provider.launch(claim) for claim in claims]
        for number, (claim, launch) in enumerate(zip(claims, launched, strict=True), 1):
            if "error" in launch:
                self.error = f"claim c{number} was not launched: {launch['error']}"
            else:
                step["created"].append(self.create(world, claim, launch))

    def create(self, world: KarpenterWorld, claim: NewClaim, launch: Json) -> Json:
        self.made += 1
        name, at = f"made-{self.made}", self.stamp
        labels = world.provider.labels(claim)
        of_type = next(one for one in world.situation.types[claim.pool] if one.name == launch["instanceType"])
        status: Json = {
            field: {resource: str(amount) for resource, amount in amounts.items() if amount.sign()}
            for field, amounts in (("capacity", of_type.capacity), ("allocatable", of_type.allocatable({})))
        }
        pool = self.find("NodePool", claim.pool)
        assert pool is not None
        spec = {**pool["spec"]["template"]["spec"], "requirements": []}
        taints = spec.get("taints", [])
        provider = f"loop:///{name}"
        meta = {"name": name, "uid": f"node-{name}", "creationTimestamp": at}
        meta["labels"] = ready = labels | {_HOST: name}
        ready |= {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        node |= {"spec": {"providerID": provider, "taints": taints}}
        node |= {"status": status | {"conditions": [{"type": "Ready", "status": "True"}]}}
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": at}
            for kind in ("Launched", "Registered", "Initialized", "Ready")
        ]
        told = {"providerID": provider, "nodeName": name, "conditions": conditions, "lastPodEventTime": at}
        about = {"name": f"claim-{name}", "uid": f"claim-{name}", "labels": labels, "creationTimestamp": at}
        about["annotations"] = {"karpenter.sh/nodepool-hash": "of the pool"}
        about["annotations"]["karpenter.sh/nodepool-hash-version"] = "v3"
        made = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": about, "spec": spec}
        self.objects += [node, made | {"status": status | told}]
        self.add_daemons(name, ready, node["spec"]["taints"], at)
        for key in claim.pods:
            self.bind(key, name)
        return _without_empty(
            {"name": name, **_kind(labels), "price": launch["price"], "pods": [*claim.pods]}
        )

    def add_daemons(self, node: str, labels: dict[str, str], taints: list[Json], at: str) -> None:
        vocabulary = Vocabulary(CORE)
        there = vocabulary.of_labels(labels)
        on_node = decode_object(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": taints}}
        )
        for one in [one for one in self.objects if one["kind"] == "DaemonSet"]:
            daemon = decode_object(one)
            assert isinstance(daemon, DaemonSet)
            spec = daemon.spec.template.spec
            affinity = spec.affinity.node_affinity if spec.affinity else None
            terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
            asked = [vocabulary.of_terms(term.match_expressions) for term in terms] or [vocabulary.empty]
            if not all(tolerates(spec.tolerations, taint, compares=True) for taint in on_node.spec.taints):
                continue
            if there.refusal(vocabulary.of_labels(spec.node_selector or {}), undefined=False):
                continue
            if all(there.refusal(term, undefined=False) for term in asked):
                continue
            self.daemons += 1
            pod = deepcopy(one["spec"]["template"])
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
            owner |= {name: one["metadata"][name] for name in ("name", "uid")}
            pod["metadata"] = {
                **pod.get("metadata", {}),
                "name": f"{one['metadata']['name']}-{node}",
                "namespace": one["metadata"]["namespace"],
                "uid": f"daemon-{self.daemons}",
                "creationTimestamp": at,
                "ownerReferences": [owner],
            }
            pod["spec"]["nodeName"] = node
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self.objects.append({"apiVersion": "v1", "kind": "Pod", **pod, "status": status})

    def nodes(self) -> tuple[list[Json], float]:
        """The nodes that claims have, with their pods, and what they cost."""
        found, cost = [], 0.0
        for one in self.objects:
            name = one.get("status", {}).get("nodeName") if one["kind"] == "NodeClaim" else None
            if not name:
                continue
            kind = _kind(one["metadata"]["labels"])
            offerings = self.types.get(kind["instanceType"], {"offerings": []})["offerings"]
            same = (
                each["price"]
                for each in offerings
                if (each["zone"], each["capacityType"]) == (kind["zone"], kind["capacityType"])
            )
            price = next(same, 0)
            cost += price
            pods = sorted(
                key_of(pod)
                for pod in self.objects
                if pod["kind"] == "Pod" and pod["spec"].get("nodeName") == name
            )
            shown = {"name": name, **kind, "price": price}
            found.append(shown | ({"pods": pods} if pods else {}))
        return sorted(found, key=lambda node: str(node["name"])), rounded(cost)


def _kind(labels: dict[str, str]) -> dict[str, str]:
    return {name: labels.get(label, "") for name, label in _LABELS.items()}
