"""Nodes that are emptied: `plan drain` = `check --drain` = `explain node`."""

from __future__ import annotations

from tests.agreement.asking import Answer, Asking
from tests.agreement.objects import key_of, manifest, name_of
from tests.agreement.relation import THERE, failing, lost, places_of, relation, verdict
from tests.agreement.relations.later_files import drained


@relation(lambda cluster: cluster.nodes)
def planned_drain(asking: Asking) -> None:
    """A plan is found where the drain passes, and what it moves is on nodes after the drain."""
    for node in asking.some("node", asking.cluster.nodes, 4, key_of):
        _planned_as_checked(asking, name_of(node))


@relation(lambda cluster: cluster.nodes and cluster.scaled())
def planned_drain_of_a_release(asking: Asking) -> None:
    """So it is while a workload is rolled out that a later file changes."""
    for workload in asking.some("workload", asking.cluster.scaled(), 2, lambda each: each.target):
        new = manifest(workload.obj)
        container = new["spec"]["template"]["spec"]["containers"][0]
        container["image"] = "app:2"
        requests = container.setdefault("resources", {}).setdefault("requests", {})
        requests["cpu"] = asking.one(f"cpu {workload.target}", ["100m", "700m", "2", "3500m"])
        file = asking.write("change", [new])
        for node in asking.some("node", asking.cluster.nodes, 2, key_of):
            _planned_as_checked(asking, name_of(node), "-f", file)


def _planned_as_checked(asking: Asking, name: str, *change: str) -> None:
    is_settled = asking.ask("check", *change, "--no-autoscale").get("passed")
    if change and not is_settled:
        return  # what is new since the file is not what is new since the drain
    plan = asking.ask(f"plan drain {name}", *change)
    new_only = () if is_settled else ("--new-only",)
    gate = asking.ask("check", *change, "--drain", name, "--no-autoscale", *new_only)
    told = (plan, plan.value or plan.err), (gate, verdict(gate))
    if not plan.is_answer or not gate.is_answer:
        asking.expect(plan.code == gate.code, "one of them refuses", *told)
        return
    told = (plan, {name: plan.get(name) for name in ("status", "proof", "moves")}), (gate, verdict(gate))
    status, passed = plan["status"], gate["passed"]
    if status == "found":
        asking.expect(passed, "found, and the check fails", *told)
        _moves(asking, plan, gate)
    elif status == "impossible":
        asking.expect(not passed, "impossible, and the check passes", *told)
    explained = asking.ask(f"explain node/{name}", *change)
    if explained.get("kind") == "NodeReport":
        asking.same("explain node", plan, explained, _plan)


def _plan(answer: Answer) -> object:
    return {name: answer.get(name) for name in ("status", "moves")}


def _moves(asking: Asking, plan: Answer, gate: Answer) -> None:
    """After the drain no pod that was moved is lost."""
    moved = {move["pod"] for move in plan["moves"]}
    ended = [warning.split()[1] for warning in gate["warnings"] if " fails: " in warning]
    gone = sorted(pod for pod in moved if any(pod.startswith(f"{job}-") for job in ended))
    asking.expect(not gone, "moves a pod of a Job that fails", (plan, gone), (gate, gate["warnings"]))
    waiting = sorted(moved & failing(gate))
    asking.expect(not waiting, "moves a pod that waits", (plan, waiting), (gate, verdict(gate)))


@relation(lambda cluster: 0 < len(cluster.nodes) <= 12)
def drains_of_all(asking: Asking) -> None:
    """`plan drain --all` = `plan drain` of each node."""
    every = asking.ask("plan drain --all")
    if every.is_answer:
        for node in asking.some("node", asking.cluster.nodes, 3, key_of):
            name = name_of(node)
            alone = asking.ask(f"plan drain {name}")
            told = (every, every["nodes"]), (alone, alone.get("status"))
            asking.expect((name in every["nodes"]) == (alone.get("status") == "found"), "all", *told)


@relation(lambda cluster: cluster.nodes)
def simulated_drain(asking: Asking) -> None:
    """A drain leaves as many pods without a node in `simulate` as in `check`, and all as the library does."""
    name = name_of(asking.one("node", asking.cluster.nodes, key_of))
    gate = asking.ask("check", "--drain", name, "--no-autoscale")
    simulated = asking.ask("simulate", "--drain", name, "--bound", "--no-autoscale", form="csv")
    if gate.is_answer:
        without = sum(place.pods for place in places_of(simulated) if not place.node)
        told = (gate, verdict(gate)), (simulated, f"{without} without a node")
        asking.expect(without == lost(gate, *THERE), "pods without a node", *told)
        drained(asking, name)
