"""Nodes that are lost: by options, in the dump, and each in turn."""

from __future__ import annotations

from tests.agreement.asking import Asking
from tests.agreement.objects import controller_of, key_of, name_of
from tests.agreement.relation import lost, relation, verdict


@relation(lambda cluster: cluster.is_settled and not cluster.grows)
def removed_node(asking: Asking) -> None:
    """`--remove-nodes` = a dump without the node and its pods, which controllers make again."""
    cluster = asking.cluster
    if not asking.ask("check").get("passed"):
        return
    for node in asking.some("node", cluster.nodes, 3, key_of):
        name = name_of(node)
        pods = [pod for pod in cluster.pods if pod["spec"].get("nodeName") == name]
        kinds = {(controller_of(pod) or {"kind": ""})["kind"] for pod in pods}
        if not kinds & {"", "Job"}:  # nothing comes in their place, or it comes after a failure
            rest = [obj for obj in cluster.objects if obj is not node and obj not in pods]
            removed = asking.ask("check", "--remove-nodes", name)
            without = asking.ask("check", of=asking.write("without", cluster.with_objects(rest).objects))
            told = (removed, verdict(removed)), (without, verdict(without))
            asking.expect(removed.get("passed") == without.get("passed"), "in the dump", *told)


LABELS = (
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"),
    *("karpenter.sh/nodepool", "karpenter.sh/capacity-type", "pool"),
)
"""By which nodes fail together."""


@relation(lambda cluster: cluster.is_settled or cluster.grows)
def survived_loss(asking: Asking) -> None:
    """`--survive node` = `--remove-nodes` of each; `--survive LABEL` = `--fail-zone` of each of its values,
    after which nodes may come. Where some come before, they are lost, too, and no option says that."""
    nodes, grows = asking.cluster.nodes, ["--autoscale"] * asking.cluster.grows
    first = asking.ask("check")
    if not first.get("passed") or first.get("newNodes", {}).get("nodes"):
        return
    domains = {"node": [name_of(node) for node in nodes]}
    for label in LABELS:
        values = {node["metadata"].get("labels", {}).get(label) for node in nodes} - {None}
        domains[label] = sorted(values) if len(values) > 1 else []
    for by, names in domains.items():
        every = asking.ask("check", "--survive", by, *grows) if names else None
        if every is None or not every.is_answer:
            continue
        losses = {loss["domains"][0]: loss["lost"] for loss in every["survival"]["losses"]}
        for name in asking.some(by, names, 2):
            option = ("--remove-nodes", name) if by == "node" else ("--fail-zone", f"{by}={name}")
            alone, mine = asking.ask("check", *option), losses.get(name, [])
            told = (every, f"{name} loses {mine}"), (alone, verdict(alone))
            asking.expect(len(mine) == lost(alone), f"survive {by}", *told)
