"""What an answer offers: carried out, it does what the answer says; where nothing helps, no verb does."""

from __future__ import annotations

import copy
from typing import Any

from tests.agreement.asking import Answer, Asking
from tests.agreement.carried import Carried, carried, carried_for_a_drain
from tests.agreement.clusters import Cluster
from tests.agreement.objects import Object, key_of, name_of, pod_name
from tests.agreement.relation import failing, relation, rows, verdict

Changes = list[dict[str, Any]]
"""Of an answer, together."""


def _has_pods_that_wait(cluster: Cluster) -> bool:
    return not cluster.is_settled and not cluster.grows and bool(cluster.pods)


def _explained(asking: Asking) -> tuple[Answer, list[dict[str, Any]]]:
    """The answer about all pods that wait, and its items about pods that the dump has, too."""
    answer = asking.ask("explain --all-pending")
    there = set(map(pod_name, asking.cluster.pods))
    items = [one for one in answer.get("items", ()) if one["explanation"].get("kind") == "Explanation"]
    return answer, [one for one in items if set(one["pods"]) <= there and not one["explanation"]["fits"]]


@relation(lambda cluster: cluster.nodes or cluster.of("NodePool"))
def explained_pods(asking: Asking) -> None:
    """`explain --all-pending` is about the pods that have no node in `check`, also after a drain."""
    _explained_as_checked(asking)
    if asking.cluster.nodes:
        _explained_as_checked(asking, "--drain", name_of(asking.one("node", asking.cluster.nodes, key_of)))


def _explained_as_checked(asking: Asking, *change: str) -> None:
    checked, explained = asking.ask("check", *change), asking.ask("explain --all-pending", *change)
    if not checked.is_answer or explained.code == 2:
        return
    found = rows(checked, "unschedulable")
    wait = {f"{row['namespace']}/{name}" for row in found for name in row["names"]}
    items = {pod for item in explained.get("items", ()) for pod in item["pods"]}
    told = (checked, sorted(wait - items)), (explained, sorted(items - wait))
    asking.expect(wait <= items, "pods", *told)
    lacking = items or rows(checked, "refused", "evicted", "kept")
    asking.expect((explained.code == 0) == (not lacking), "exit code", *told)


@relation(_has_pods_that_wait)
def offered_by_explain(asking: Asking) -> None:
    """Each change that `explain` offers places as many pods as it says."""
    answer, items = _explained(asking)
    for item in asking.some("pod", items, 3, lambda one: one["explanation"]["pod"]):
        alike = (item["namespace"], item["workload"])
        pods = {name for one in items if (one["namespace"], one["workload"]) == alike for name in one["pods"]}
        explanation = item["explanation"]
        offers = [([change], change.get("placed")) for change in explanation["changes"][:6]]
        offers += [(pair["changes"], 1) for pair in explanation["changePairs"][:2]]
        for changes, placed in offers:
            made = carried(asking, changes, pods)
            if made is not None:
                _does_as_it_says(asking, answer, changes, placed or 1, made, pods)


def _does_as_it_says(
    asking: Asking, answer: Answer, changes: Changes, placed: int, made: Carried, pods: set[str]
) -> None:
    """After the changes so many of the pods have a node, or all that are left of their workload."""
    after = asking.ask("check", *made.options, of=made.of)
    about = " and ".join(one["kind"] for one in changes)
    text = ", and ".join(one["text"] for one in changes)
    told = (answer, f"{text}: {placed} of {sorted(pods)}"), (after, verdict(after))
    if about == "fewer-replicas":
        workload = f"{next(iter(pods)).split('/')[0]}/{changes[0]['workload']}"
        holds = not any(f"{row['namespace']}/{row['workload']}" == workload for row in rows(after))
        asking.expect(holds, about, *told)
    else:
        holds = len(pods - failing(after)) >= placed
        asking.expect(holds, about, *told, known="" if holds else _taken(asking, made, pods, placed))


def _taken(asking: Asking, made: Carried, pods: set[str], wanted: int) -> str:
    """The line of what differs because pods that come first take what is new: alone it does what it says."""
    before = asking.ask("check")
    others = failing(before) - pods
    objects = asking.objects_of(made.of or asking.base)
    for obj in objects:
        if obj["kind"] == "Pod" and pod_name(obj) in others:
            obj["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    alone = asking.ask("check", *made.options, of=asking.write("alone", objects))
    return "others-take-it" if before["evictions"] or len(pods - failing(alone)) >= wanted else ""


@relation(_has_pods_that_wait)
def nothing_helps(asking: Asking) -> None:
    """Where no change of a kind is offered, though this kind was tried, no verb of it places the pod. One
    that is preempted again is not placed: a new pod in its stead fails."""
    answer, items = _explained(asking)
    there = set(map(pod_name, asking.cluster.pods))
    waiting = {pod_name(pod) for pod in asking.cluster.pods if not pod["spec"].get("nodeName")}
    for item in asking.some("pod", items, 2, lambda one: one["explanation"]["pod"]):
        explanation, pod = item["explanation"], item["explanation"]["pod"]
        offered, tried = {one["kind"] for one in explanation["changes"]}, explanation["tried"]
        alike = (item["namespace"], item["workload"])
        for kind, made in [] if explanation["group"] or pod not in waiting else _verbs(asking, pod):
            if kind not in offered and (not offered or kind in tried):
                after = asking.ask("check", *made.options, of=made.of)
                evicted = after.get("evictions", [])
                said = f"{pod}: {sorted(offered)} of {tried}"
                about = f"{kind}, by preemption" if evicted else kind
                again = [
                    row
                    for row in rows(after)
                    if (row["namespace"], row["workload"]) == alike
                    and any(f"{row['namespace']}/{name}" not in there for name in row["names"])
                ]
                told = (answer, said), (after, f"places it, evicts {evicted}")
                asking.expect(pod in failing(after) or bool(again), about, *told)


def _verbs(asking: Asking, pod: str) -> list[tuple[str, Carried]]:
    """Changes of the kinds that `explain` tries, by the verbs that carry them out."""
    cluster, found = asking.cluster, list[tuple[str, Carried]]()
    kinds: dict[object, Object] = {}
    for node in cluster.nodes:
        labels = node["metadata"].get("labels", {})
        kinds.setdefault((labels.get("pool"), str(node.get("spec", {}).get("taints"))), node)
    for node in kinds.values():
        for zone in ("", *cluster.zones):
            option = f"{name_of(node)}=1" + (f",zone={zone}" if zone else "")
            found.append(("add-node", Carried(("--add-nodes", option))))
    found = asking.some("verb", found, 8)
    for node in cluster.nodes:
        name, spec = name_of(node), node.get("spec", {})
        if spec.get("unschedulable"):
            found.append(("uncordon-node", Carried(("--uncordon", name))))
        keys = {taint["key"] for taint in spec.get("taints", ())} - {"node.kubernetes.io/unschedulable"}
        found += [("remove-taint", Carried(("--taint", name, f"{key}-"))) for key in sorted(keys)]
    for field in ("topologySpreadConstraints", "affinity", "nodeSelector"):
        objects = copy.deepcopy(cluster.objects)
        obj = next(one for one in objects if one["kind"] == "Pod" and pod_name(one) == pod)
        is_pinned = any(one["kind"] == "DaemonSet" for one in obj["metadata"].get("ownerReferences", ()))
        if not is_pinned and obj["spec"].pop(field, None) is not None:
            found.append(("drop", Carried((), asking.write("dropped", objects))))
    return found


@relation(lambda cluster: cluster.nodes and not cluster.grows)
def offered_by_plan_drain(asking: Asking) -> None:
    """With each change that `plan drain` offers the drain is found, and a check leaves no pod on the node."""
    for node in asking.some("node", asking.cluster.nodes, 4, key_of):
        name = name_of(node)
        plan = asking.ask(f"plan drain {name}")
        for text in plan.get("changes", ())[:4]:
            for made in carried_for_a_drain(asking, text):
                again = asking.ask(f"plan drain {name}", *made.options, of=made.of)
                about = f"{text.split(' ')[0]} {'in the dump' if made.of else made.options[0]}"
                told = (plan, text), (again, (again.get("status"), again.get("proof")))
                asking.expect(again.get("status") == "found", about, *told)
                if made.options != ("--force",):
                    gate = asking.ask("check", *made.options, "--drain", name, "--new-only", of=made.of)
                    kept = [row for row in rows(gate, "kept") if row["counts"]]
                    asking.expect(not kept, f"{about}, check", (plan, text), (gate, verdict(gate)))
