"""A later file = the same object in the dump = `ClusterChanges.apply` of the file."""

from __future__ import annotations

import copy
import re
from typing import Any

from tests.agreement.asking import Answer, Asking
from tests.agreement.clusters import Workload
from tests.agreement.objects import Object, amount, controller_of, key_of, manifest, name_of, replaced
from tests.agreement.relation import WITHOUT, lost, places_of, present_verdict, relation, rows, verdict

Question = tuple[str, ...]


def in_dump(asking: Asking, new: Object) -> str:
    """Write the dump that has an object, as controllers have seen it."""
    objects = replaced(asking.cluster.objects, new)
    return asking.write("changed", asking.cluster.with_objects(objects).objects)


def by_file_and_in_dump(asking: Asking, new: Object, file: str, *questions: Question) -> None:
    """Ask about an object that a later file brings, and about the dump that has it."""
    dump = in_dump(asking, new)
    for question in questions:
        later = asking.ask("check", "-f", file, *question)
        if not rows(later, "refused"):  # nobody admits what is in a dump
            inside = asking.ask("check", *question, of=dump)
            asking.same(f"in the dump {' '.join(question[:1])}", later, inside, present_verdict)


def by_file_and_apply(asking: Asking, file: str) -> None:
    """Ask where pods are after a later file, and after `ClusterChanges.apply` of it."""
    applied = asking.python(
        f"scheduler = mo.Scheduler(mo.load({asking.base!r}))\n"
        f"scheduler.change.apply({file!r})\n"
        "scheduler.run()\n"
        "found = places(scheduler)"
    )
    checked = asking.ask("check", "-f", file)
    if applied.code == 2:
        is_refused = bool(rows(checked, "refused"))
        asking.expect(is_refused, "apply refuses", (applied, applied.err), (checked, verdict(checked)))
    else:
        same_places(asking, "apply", asking.ask("simulate", "-f", file, *BOUND, form="csv"), applied)
        _compared(asking, file, checked)


BOUND = ("--no-autoscale", "--bound")


def _compared(asking: Asking, file: str, checked: Answer) -> None:
    """The column of `compare` for the file has as many pods without a node as `check`."""
    if (
        checked.is_answer
        and not asking.cluster.grows
        and not any(is_node(obj) for obj in asking.objects_of(file))
    ):
        compared = asking.run("moorage", "compare", "as-is", file, "-f", asking.base, "-o", "json")
        measured = (
            compared["alternatives"][1]["measures"]["without a node"] if compared.is_answer else compared.err
        )
        told = (checked, verdict(checked)), (compared, f"{measured} without a node")
        asking.expect(measured == lost(checked, *WITHOUT), "compare", *told)


def is_node(obj: Object) -> bool:
    return obj["kind"] == "Node"


def same_places(asking: Asking, about: str, simulated: Answer, applied: Answer) -> None:
    here, there = places_of(simulated), applied.value
    only_here = [tuple(place) for place in here if place not in there]
    only_there = [tuple(place) for place in there if place not in here]
    asking.expect(here == there, about, (simulated, only_here), (applied, only_there))


# ---- budgets -----------------------------------------------------------------------------------------------


@relation(lambda cluster: cluster.of("PodDisruptionBudget"))
def later_budget(asking: Asking) -> None:
    """A budget that changes, and drains."""
    for budget in asking.some("budget", asking.cluster.of("PodDisruptionBudget"), 2, key_of):
        workload = next((one for one in asking.cluster.scaled() if _is_under(one, budget)), None)
        if workload is None or not workload.nodes:
            continue
        node = asking.one("node", workload.nodes)
        new = _other_budget(asking, budget, workload.replicas)
        file = asking.write("change", [manifest(new)])
        by_file_and_apply(asking, file)
        drained(asking, node, file)
        if asking.cluster.is_drawn:  # else its status in the dump would be old
            questions = ("--drain", node), ("--survive", "node", "--within-budgets")
            by_file_and_in_dump(asking, new, file, *questions)
            planned = asking.ask(f"plan drain {node}", "-f", file, "--after-run")
            inside = asking.ask(f"plan drain {node}", "--after-run", of=in_dump(asking, new))
            asking.same("plan drain", planned, inside, lambda answer: answer.get("status"))


def _is_under(workload: Workload, budget: Object) -> bool:
    wanted = budget["spec"].get("selector", {}).get("matchLabels", {})
    labels = workload.obj["spec"]["template"]["metadata"].get("labels", {})
    is_near = workload.namespace == budget["metadata"]["namespace"]
    return is_near and bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _other_budget(asking: Asking, budget: Object, replicas: int) -> Object:
    """The budget with another number, in its field or in the other one."""
    values: list[tuple[str, Any]] = [
        *(("minAvailable", 0), ("minAvailable", replicas), ("minAvailable", "50%")),
        *(("maxUnavailable", 0), ("maxUnavailable", 1), ("maxUnavailable", "100%")),
    ]
    now, meta = budget["spec"], budget["metadata"]
    is_applied = bool(meta.get("annotations"))  # else a later file leaves the field that it lacks
    others = [
        (name, value) for name, value in values if now.get(name) != value and (is_applied or name in now)
    ]
    field, value = asking.one("value", others)
    new = copy.deepcopy(budget)
    new["spec"] = {"selector": now["selector"], field: value}
    new["metadata"]["generation"] = meta.get("generation", 1) + 1
    return new


def drained(asking: Asking, node: str, file: str = "") -> None:
    """Drain by the option, and by the library, which evicts until nothing more can go; after a later file."""
    evicted = asking.python(
        f"scheduler = mo.Scheduler(mo.load({asking.base!r}))\n"
        + (f"scheduler.change.apply({file!r})\n" if file else "")
        + f"left = scheduler.change.drain({node!r}).unfinished\n"
        "while True:\n"
        "    scheduler.run()\n"
        f"    there = scheduler.client.list('Pod', field_selector='spec.nodeName={node}')[0]\n"
        "    pods = [pod for pod in there if f'Pod {pod.key}' in left and pod.metadata.controller()]\n"
        "    again = scheduler.change.evict(pods)\n"
        "    if not again.deleted:\n"
        "        break\n"
        "found = places(scheduler)"
    )
    words = (*(("-f", file) if file else ()), "--drain", node, *BOUND)
    simulated = asking.ask("simulate", *words, form="csv")
    same_places(asking, "apply and drain" if file else "drain", simulated, evicted)


# ---- what namespaces allow ---------------------------------------------------------------------------------


def _changed_in(asking: Asking, namespace: str) -> list[Question]:
    """Questions about a workload of a namespace: it grows, restarts, and leaves a node."""
    candidates = [one for one in asking.cluster.scaled() if one.namespace == namespace and one.nodes]
    if not candidates:
        return []
    workload = asking.one("workload", candidates, _target)
    more = f"{workload.target}={workload.replicas + 2}"
    return [
        ("--scale", more),
        ("--restart", workload.target),
        ("--drain", asking.one("node", workload.nodes)),
    ]


def _target(workload: Workload) -> str:
    return workload.target


@relation(lambda cluster: cluster.is_drawn and cluster.of("ResourceQuota"))
def later_quota(asking: Asking) -> None:
    """A quota that is raised or lowered."""
    for quota in asking.cluster.of("ResourceQuota"):
        questions = _changed_in(asking, quota["metadata"]["namespace"])
        if questions:
            new = copy.deepcopy(quota)
            hard = new["spec"]["hard"]
            name = asking.one("resource", hard)
            hard[name] = str(max(int(amount(hard[name])) + asking.one("step", [-2, -1, 1, 2, 6]), 0))
            file = asking.write("change", [manifest(new)])
            by_file_and_in_dump(asking, new, file, *questions)
            by_file_and_apply(asking, file)


@relation(lambda cluster: cluster.scaled())
def later_limit_range(asking: Asking) -> None:
    """A LimitRange that is new, or has other limits."""
    for namespace in sorted({workload.namespace for workload in asking.cluster.scaled()}):
        questions = _changed_in(asking, namespace)
        if questions:
            meta = {"name": "limits", "namespace": namespace}
            new: Object = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta}
            for before in asking.cluster.of("LimitRange"):
                if before["metadata"]["namespace"] == namespace:
                    new = copy.deepcopy(before)
            most, least = asking.one("most", ["512Mi", "1Gi", "4Gi"]), asking.one("least", ["100m", "400m"])
            new["spec"] = {"limits": [{"type": "Container", "max": {"memory": most}, "min": {"cpu": least}}]}
            by_file_and_in_dump(asking, new, asking.write("change", [manifest(new)]), *questions)


# ---- nodes -------------------------------------------------------------------------------------------------


@relation(lambda cluster: cluster.nodes)
def later_node(asking: Asking) -> None:
    """A node with other labels, taints or another size."""
    for node in asking.some("node", asking.cluster.nodes, 2, key_of):
        how = asking.one(f"how {name_of(node)}", ["label", "NoSchedule", "NoExecute", "size", "cordon"])
        new = copy.deepcopy(node)
        new["metadata"]["resourceVersion"] = "99999"  # newer than the one in the dump
        option = _changed_node(new, how)
        other = asking.one("drained", asking.cluster.nodes, key_of)
        questions: list[Question] = [(), ("--drain", name_of(other))]
        by_file_and_in_dump(asking, new, asking.write("change", [new]), *questions)
        if option:
            file = asking.write("change", [manifest(new)])
            by_file_and_apply(asking, file)
            for question in questions:
                by_option, later = (asking.ask("check", *one, *question) for one in (option, ("-f", file)))
                if not is_refused(later, new):
                    asking.same(f"option {how}", by_option, later, verdict)


def _changed_node(node: Object, how: str) -> Question:
    """Change a node; the option that does the same, () for none."""
    name, spec = name_of(node), node.setdefault("spec", {})
    match how:
        case "label":
            labels = node["metadata"]["labels"]
            labels["pool"] = "big" if labels.get("pool") == "general" else "general"
            return "--label", name, f"pool={labels['pool']}"
        case "size":
            for room in filter(None, map(node["status"].get, ("capacity", "allocatable"))):
                room["cpu"] = f"{2000 * amount(room['cpu']):.0f}m"
            return ()
        case "cordon":
            spec["unschedulable"] = True
            return "--cordon", name
    spec["taints"] = [*spec.get("taints", ()), {"key": "x", "value": "y", "effect": how}]
    return "--taint", name, f"x=y:{how}"


def is_refused(answer: Answer, obj: Object) -> bool:
    """Whether the server would refuse an object of a file; what an option does, it does not write."""
    name = f"{obj['kind'].lower()}/{name_of(obj)}"
    return any(row["workload"] == name and not row["pods"] for row in rows(answer, "refused"))


@relation(lambda cluster: cluster.nodes)
def later_dead_node(asking: Asking) -> None:
    """A node that does not report, and then the taint out-of-service, which ends its pods."""
    dead = copy.deepcopy(asking.one("node", asking.cluster.nodes, key_of))
    spec, began = dead.setdefault("spec", {}), "2026-05-28T20:26:40Z"
    gone = {"key": "node.kubernetes.io/unreachable", "timeAdded": began}
    spec["taints"] = [
        *spec.get("taints", ()),
        *({**gone, "effect": one} for one in ("NoSchedule", "NoExecute")),
    ]
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    dead.setdefault("status", {})["conditions"] = [{**condition, "lastTransitionTime": began}]
    base = asking.write("dead", replaced(asking.cluster.objects, dead))
    served, out = copy.deepcopy(dead), "node.kubernetes.io/out-of-service"
    served["spec"]["taints"].append({"key": out, "value": "nodeshutdown", "effect": "NoExecute"})
    by_option = asking.ask("check", "--taint", name_of(dead), f"{out}=nodeshutdown:NoExecute", of=base)
    later = asking.ask("check", "-f", asking.write("out-of-service", [manifest(served)]), of=base)
    if not is_refused(later, dead):
        asking.same("option", by_option, later, verdict)


# ---- workloads ---------------------------------------------------------------------------------------------

CHANGES = {
    "Deployment": ["requests", "requests", "image", "label"],
    "StatefulSet": ["requests", "requests", "image"],
    "DaemonSet": ["selector", "tolerations", "requests"],
    "Job": ["suspend", "parallelism"],
}


@relation(lambda cluster: cluster.workloads)
def later_workload(asking: Asking) -> None:
    """A workload with another template or number; a check that passes knows of no rollout that is stuck."""
    for workload in asking.some("workload", asking.cluster.workloads, 3, _target):
        new = manifest(workload.obj)
        _change(asking, new, asking.one(f"what {workload.target}", CHANGES[workload.kind]))
        file = asking.write("change", [new])
        by_file_and_apply(asking, file)
        checked, table = (asking.ask("check", "-f", file, form=form) for form in ("json", "table"))
        is_stuck = re.search("[1-9] of these without a node", table.out) is not None
        asking.expect(not (checked.get("passed") and is_stuck), "a stuck rollout passes", (table, table.out))
        _new_only(asking, checked, asking.ask("check", "-f", file, "--new-only"))


def _new_only(asking: Asking, checked: Answer, new_only: Answer) -> None:
    """Where the cluster passes as it is, all that fails after a change is new."""
    if asking.ask("check").get("passed"):
        asking.same("new-only", checked, new_only, verdict)


def _change(asking: Asking, new: Object, what: str) -> None:
    spec = new["spec"]
    template = spec["template"]
    container = template["spec"]["containers"][0]
    match what:
        case "requests":
            requests = container.setdefault("resources", {}).setdefault("requests", {})
            requests["cpu"] = asking.one("cpu", ["100m", "700m", "3", "3500m"])
        case "image":
            container["image"] = "app:2"
        case "label":
            template["metadata"]["labels"]["version"] = "2"
        case "selector":
            template["spec"]["nodeSelector"] = {"pool": "big"}
        case "tolerations":
            template["spec"]["tolerations"] = [{"key": "x", "operator": "Exists"}]
        case "suspend":
            spec["suspend"] = True
        case "parallelism":
            spec["parallelism"] = 1
    if new["kind"] == "Job":
        spec.pop("selector", None)  # the server's


@relation(lambda cluster: cluster.nodes)
def later_new_workload(asking: Asking) -> None:
    """A workload that is new."""
    kind, labels = (
        asking.one("kind", ["Deployment", "DaemonSet", "Pod", "Job", "StatefulSet"]),
        {"app": "fresh"},
    )
    requests = {"cpu": asking.one("cpu", ["500m", "2"]), "memory": "512Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    template: Object = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    selector = {"selector": {"matchLabels": labels}, "template": template}
    specs: dict[str, tuple[str, Object]] = {
        "Deployment": ("apps/v1", {"replicas": 4, **selector}),
        "StatefulSet": ("apps/v1", {"replicas": 3, "serviceName": "x", **selector}),
        "DaemonSet": ("apps/v1", selector),
        "Job": ("batch/v1", {"parallelism": 3, "completions": 3, "template": template}),
        "Pod": ("v1", template["spec"]),
    }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    version, spec = specs[kind]
    meta = {"name": "fresh", "namespace": "default", "labels": labels}
    new = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    by_file_and_apply(asking, asking.write("change", [new]))


@relation(lambda cluster: cluster.of("ReplicaSet"))
def later_label_of_a_pod(asking: Asking) -> None:
    """A pod that loses the labels by which its ReplicaSet knows it."""
    sets = {name_of(one) for one in asking.cluster.of("ReplicaSet")}
    owned = [pod for pod in asking.cluster.pods if (controller_of(pod) or {"name": ""})["name"] in sets]
    pods = [pod for pod in owned if pod["spec"].get("nodeName")]
    if pods:
        pod = copy.deepcopy(asking.one("pod", pods, key_of))
        pod["metadata"]["labels"] = dict.fromkeys(pod["metadata"]["labels"], "taken-out")
        pod["metadata"]["resourceVersion"] = "99999"
        by_file_and_apply(asking, asking.write("change", [pod]))
