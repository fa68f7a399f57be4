"""`capacity` says n: n more fit, and n + 1 do not."""

from __future__ import annotations

from tests.agreement.asking import Asking
from tests.agreement.objects import is_ready
from tests.agreement.relation import relation, verdict

MOST = 40


@relation(lambda cluster: cluster.is_settled and cluster.scaled() and cluster.is_drawn)
def counted_replicas(asking: Asking) -> None:
    """As `--scale` places them, if nobody is evicted."""
    for workload in asking.some("workload", asking.cluster.scaled(), 2, lambda one: one.target):
        is_ordered = workload.obj["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        if workload.kind == "StatefulSet" and is_ordered and not all(map(is_ready, workload.pods)):
            continue  # its next pod waits for these, and not for room
        counted = asking.ask("capacity", "--pod", workload.target, "--max-limit", str(MOST))
        number = counted.get("count", MOST)
        for more, passes in ((number, True), (number + 1, False)) if number < MOST else ():
            scale = f"{workload.target}={workload.replicas + more}"
            scaled = asking.ask("check", "--scale", scale, "--no-autoscale")
            evicted = scaled.get("evictions", [])
            told = (counted, number), (scaled, f"{verdict(scaled)}, evicts {len(evicted)}")
            known = "capacity-evicts-nobody" if evicted else ""
            about = "n fit" if passes else "n + 1 do not"
            asking.expect(scaled.get("passed") == passes, about, *told, known=known)
