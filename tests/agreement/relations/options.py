"""An option of a change = a later file that says the same."""

from __future__ import annotations

import copy
import csv
from io import StringIO

from tests.agreement.asking import Asking
from tests.agreement.clusters import ZONE, Cluster, Workload
from tests.agreement.objects import Object, amount, key_of, manifest, name_of, pod_name, time_of
from tests.agreement.relation import relation, verdict, whole
from tests.agreement.relations.later_files import is_refused

RESTARTED = "kubectl.kubernetes.io/restartedAt"
CORDON = "node.kubernetes.io/unschedulable"


def by_option_and_file(
    asking: Asking, about: str, option: tuple[str, ...], new: list[Object], is_whole: bool = False
) -> None:
    """Ask about a change that an option makes, and about a file that says the same.

    Parameters
    ----------
    is_whole : bool, optional
        Whether the documents are the same, in all but the words of the change.
    """
    by_option = asking.ask("check", *option)
    later = asking.ask("check", "-f", asking.write("change", new))
    if not any(is_refused(later, obj) for obj in new):
        asking.same(about, by_option, later, whole if is_whole else verdict)


def _target(workload: Workload) -> str:
    return workload.target


@relation(lambda cluster: cluster.scaled())
def option_scale(asking: Asking) -> None:
    """`--scale` = a manifest with that number of replicas."""
    for workload in asking.some("workload", asking.cluster.scaled(), 2, _target):
        numbers = {0, 1, workload.replicas + 1, workload.replicas + 5} - {workload.replicas}
        number = asking.one(f"number {workload.target}", numbers)
        new = manifest(workload.obj)
        new["spec"]["replicas"] = number
        by_option_and_file(asking, "scale", ("--scale", f"{workload.target}={number}"), [new], is_whole=True)


@relation(lambda cluster: cluster.scaled())
def option_restart(asking: Asking) -> None:
    """`--restart` = a manifest with another annotation."""
    for workload in asking.some("workload", asking.cluster.scaled(), 2, _target):
        new = manifest(workload.obj)
        meta = new["spec"]["template"].setdefault("metadata", {})
        meta["annotations"] = {**meta.get("annotations", {}), RESTARTED: time_of(10**6)}
        by_option_and_file(asking, "restart", ("--restart", workload.target), [new])


@relation(lambda cluster: len(cluster.of("HorizontalPodAutoscaler")) == 1)
def option_hpa(asking: Asking) -> None:
    """`--hpa max` = a manifest with the largest number of replicas."""
    (scaler,) = asking.cluster.of("HorizontalPodAutoscaler")
    target = f"deployment/{pod_name(scaler)}"  # drawn ones have the name of their target
    for workload in asking.cluster.scaled():
        if workload.target == target:
            new = manifest(workload.obj)
            new["spec"]["replicas"] = scaler["spec"]["maxReplicas"]
            by_option_and_file(asking, "hpa", ("--hpa", "max"), [new], is_whole=True)


@relation(lambda cluster: cluster.scaled())
def option_set_requests(asking: Asking) -> None:
    """`--set-requests` = a manifest with these requests."""
    workload = asking.one("workload", asking.cluster.scaled(), _target)
    new = manifest(workload.obj)
    container = new["spec"]["template"]["spec"]["containers"][0]
    wanted = {
        "cpu": asking.one("cpu", ["150m", "900m", "2"]),
        "memory": asking.one("memory", ["300Mi", "3Gi"]),
    }
    resources = container.setdefault("resources", {})
    limits = resources.get("limits", {})
    if all(amount(wanted[name]) <= amount(limits.get(name, wanted[name])) for name in wanted):
        resources["requests"] = {**resources.get("requests", {}), **wanted}
        table = StringIO()
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(["namespace", "workload", "container", *wanted])
        rows.writerow(
            [
                workload.namespace,
                f"{workload.kind.lower()}/{workload.name}",
                container["name"],
                *wanted.values(),
            ]
        )
        file = asking.write_text("requests.csv", table.getvalue())
        by_option_and_file(asking, "set-requests", ("--set-requests", file), [new])


def _suspended(cluster: Cluster) -> list[Object]:
    return [job for job in cluster.of("Job") if job["spec"].get("suspend")]


@relation(_suspended)
def option_unsuspend(asking: Asking) -> None:
    """`--unsuspend` = manifests of the Jobs that are not suspended."""
    changed = [manifest(job) for job in _suspended(asking.cluster)]
    for new in changed:
        new["spec"]["suspend"] = False
        new["spec"].pop("selector", None)  # the server's
    by_option_and_file(asking, "unsuspend", ("--unsuspend",), changed)


def _cordoned(cluster: Cluster) -> list[Object]:
    return [node for node in cluster.nodes if node.get("spec", {}).get("unschedulable")]


@relation(_cordoned)
def option_uncordon(asking: Asking) -> None:
    """`--uncordon` = a manifest of the node without its cordon, with or without its taint."""
    new = manifest(asking.one("node", _cordoned(asking.cluster), key_of))
    option, spec = ("--uncordon", name_of(new)), new["spec"] | {"unschedulable": False}
    by_option_and_file(asking, "uncordon, with the taint", option, [new | {"spec": spec}])
    taints = [taint for taint in spec.get("taints", ()) if taint["key"] != CORDON]
    by_option_and_file(asking, "uncordon", option, [new | {"spec": spec | {"taints": taints}}])


@relation(lambda cluster: cluster.nodes)
def option_add_nodes(asking: Asking) -> None:
    """`--add-nodes` = a manifest of a node like one that is there, in its zone or in another."""
    like = asking.one("like", asking.cluster.nodes, key_of)
    zone = asking.one("zone", ["", *asking.cluster.zones])
    option = ("--add-nodes", f"{name_of(like)}=1" + (f",zone={zone}" if zone else ""))
    before, after = set(map(name_of, asking.cluster.nodes)), asking.ask("nodes", *option)
    added = [one["name"] for one in after.get("items", ()) if one["name"] not in before]
    if added:
        new = copy.deepcopy(like)
        labels = {**like["metadata"].get("labels", {})} | ({ZONE: zone} if zone else {})
        labels = {
            key: added[0] if key == "kubernetes.io/hostname" else value for key, value in labels.items()
        }
        new["metadata"] = {"name": added[0], "labels": labels}
        taints = [taint for taint in like.get("spec", {}).get("taints", ()) if taint["key"] != CORDON]
        new["spec"] = {"taints": taints} if taints else {}
        by_option_and_file(asking, "add-nodes", option, [new])


def _pools(cluster: Cluster) -> set[str]:
    return {node["metadata"].get("labels", {}).get("pool", "") for node in cluster.nodes}


@relation(lambda cluster: len(_pools(cluster)) > 1)
def option_remove_pool(asking: Asking) -> None:
    """`--remove-nodes`, `--drain` and `--taint` of a pool = of its nodes by their names."""
    nodes, pool = asking.cluster.nodes, asking.one("pool", _pools(asking.cluster) - {""})
    names = [name_of(node) for node in nodes if node["metadata"].get("labels", {}).get("pool") == pool]
    for option, *more in ("--remove-nodes",), ("--drain",), ("--taint", "gone=1:NoExecute"):
        by_pool = asking.ask("check", option, f"pool={pool}", *more)
        by_name = asking.ask("check", *(word for name in names for word in (option, name, *more)))
        asking.same(option, by_pool, by_name, verdict)


@relation(lambda cluster: len(cluster.zones) > 1 and not cluster.grows)
def option_fail_zone(asking: Asking) -> None:
    """`--fail-zone` = `--remove-nodes` of the zone."""
    zone = asking.one("zone", asking.cluster.zones)
    failed, removed = (
        asking.ask("check", "--fail-zone", zone),
        asking.ask("check", "--remove-nodes", f"zone={zone}"),
    )
    asking.same("fail-zone", failed, removed, verdict)
