"""Memory of the core with 130,000 nodes and 1,000,000 pods of one template: `python -m bench.memory`.

Buffers are what the core allocates itself, with the room to grow that they have. The growth of the process
beside it holds also what Python keeps of names and nodes, but not the nodes themselves.
"""

from __future__ import annotations

from pathlib import Path

from bench.batch import place_run
from bench.cluster import plain_pods
from tests.core.inside import inside

from moorage import synthetic
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.placer import Placer
from moorage._core.state.cluster_state import ClusterState
from moorage.engine.plugins.registry import default_profile

NODES, PODS, RUN = 130_000, 1_000_000, 10_000


def resident() -> int:
    """Bytes of the process that are in memory now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def buffers(state: ClusterState) -> int:
    """Bytes of all buffers of a cluster."""
    return sum(buffer.capacity * buffer.itemsize for buffer in inside(state.journal)["buffers"])


def main() -> None:
    nodes = synthetic(nodes=NODES, pods=0, seed=1).nodes
    template = plain_pods(1)[0]
    before = resident()
    state = ClusterState()
    for node in nodes:
        state.set_node(node)
    state.view.refresh()
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST)
    held, grown = buffers(state), resident() - before
    print(f"{NODES:,} nodes: {held / NODES:,.0f} B each in buffers, {grown / NODES:,.0f} B of the process")
    pod_class = state.classes.intern(template)
    for first in range(0, PODS, RUN):
        rows = place_run(placer, pod_class, RUN)
        state.assume_template(pod_class, template, first, rows)
    pods = len(state.ledger)
    each = (buffers(state) - held) / pods, (resident() - before - grown) / pods
    print(f"{pods:,} pods: {each[0]:,.0f} B each in buffers, {each[1]:,.0f} B of the process")


if __name__ == "__main__":
    main()
