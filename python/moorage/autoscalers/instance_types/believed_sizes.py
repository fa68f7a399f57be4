"""What Karpenter believes of instance types, beside what their nodes have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

from moorage._core.base.quantity import Quantity
from moorage.engine.framework.evidence import compared
from moorage.engine.requirements import whole
from moorage.errors import examples, number_of
from moorage.kube import Node

from ..node_prices import prices_by
from .instance_type import InstanceType, ShownSizes
from .labels import INSTANCE_TYPE, MADE_HERE, POOL

_NOTICED = 0.01
"""From which share on more room than believed is told. The same holds for storage that a node lacks: its file
system always keeps some of the disk for itself."""
_OPTIONAL = "vpc.amazonaws.com/"
"""Resources that nodes have only where the network of the cluster is set up for them."""
_NOTHING = Quantity("0")
_STORAGE = "ephemeral-storage"


def size_notes(by_pool: Mapping[str, Sequence[InstanceType]], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield where nodes are smaller than Karpenter believes, so that nodes come in vain, or larger, so that
    paid room stays empty; and the share of memory to set aside that would fit the nodes."""
    pools_of, nodes_of = dict[InstanceType, list[str]](), dict[tuple[str, str], list[Node]]()
    for pool, types in by_pool.items():
        for kind in types:
            if kind.shown is not None and kind.shown.sold:
                pools_of.setdefault(kind, []).append(pool)
    for node in nodes:
        if not node.spec.provider_id.startswith(MADE_HERE):
            labels = node.metadata.labels
            pool_and_type = labels.get(POOL, ""), labels.get(INSTANCE_TYPE, "")
            nodes_of.setdefault(pool_and_type, []).append(node)
    for kind, pools in pools_of.items():
        yield from _differences(kind, [one for pool in pools for one in nodes_of.get((pool, kind.name), ())])
    yield from _fitting_overhead({kind.name: kind.shown for kind in pools_of if kind.shown is not None})


def _differences(kind: InstanceType, nodes: Sequence[Node]) -> Iterator[str]:
    assert kind.shown is not None
    believed, own = kind.allocatable({}), kind.shown.allocatable
    larger, smaller, unused = list[str](), list[str](), 0.0
    unknown = {"cpu", "memory", "pods", _STORAGE} - own.keys()  # every kubelet has them
    for name in sorted({*believed, *own} - unknown):
        ours, theirs = (whole(name, one.get(name, _NOTHING)) for one in (own, believed))
        share = (ours - theirs) / max(ours, theirs, 1)
        if name.startswith(_OPTIONAL) or abs(share) < _NOTICED * (share > 0 or name == _STORAGE):
            continue
        texts = "{}, nodes have {}".format(*compared(name, theirs, ours))
        if share < 0:
            larger.append(f"{name} {texts}")
        elif share > 0 and name in believed:
            smaller.append(f"{name} {texts}")
            unused = max(unused, share) if name in ("cpu", "memory") else unused
    if larger:
        yield (
            f"Karpenter believes {kind.name} larger than its nodes are ({'; '.join(larger)}): pods that need "
            "the rest wait, and nodes come for them in vain"
        )
    if smaller:
        prices = list(filter(None, map(prices_by([kind]), nodes)))
        count = number_of(len(nodes), "node", "nodes")
        lost = f", {unused * sum(prices):.2g} $/h" if prices and unused else ""
        yield (
            f"Karpenter believes {kind.name} smaller than its nodes are ({'; '.join(smaller)}): room of "
            f"{count} is paid for and not used{lost}"
        )


def _fitting_overhead(shown: Mapping[str, ShownSizes]) -> Iterator[str]:
    """The share of the memory sold that nodes never see, where the one that is set does not fit."""
    memory = {name: one.capacity["memory"].value() for name, one in shown.items() if "memory" in one.capacity}
    off = {name: (shown[name].estimated - amount) / shown[name].sold for name, amount in memory.items()}
    wrong = [name for name, share in off.items() if share > 0 or -share > _NOTICED]
    if not wrong:
        return
    lacking = max(0.0, *(1 - amount / shown[name].sold for name, amount in memory.items()))
    worst = max(wrong, key=lambda name: (off[name] > 0, abs(off[name])))
    believes, have = compared("memory", shown[worst].estimated, memory[worst])
    yield (
        f"the nodes of {examples(sorted(memory), 3)} fit a vmMemoryOverheadPercent of "
        f"{ceil(lacking * 1000) / 1000:g}, not {shown[worst].overhead:g}: until a first {worst} is there, "
        f"Karpenter believes that it has {believes} of memory, and nodes have {have}"
    )
