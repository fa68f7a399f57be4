"""Does this pod fit now, and if not, why? For a batch system that reads the nodes and pods of a cluster.

`Fits` takes what the batch system has: files, dicts, or objects of the official client, lightkube or pykube.

    python examples/embed/fits_now.py examples/demo.yaml pod.yaml
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import moorage as mo


@dataclass(frozen=True)
class Answer:
    """Where a pod fits now; or which plugin rejects it, why, on how many nodes, and what would place it."""

    nodes: list[str]
    rejections: dict[tuple[str, str], int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)


class Fits:
    """Answers for the nodes and pods that a cluster has now; claims and classes may be among the objects."""

    def __init__(self, *objects: Any) -> None:
        self.scheduler = mo.Scheduler(mo.load(*objects), controllers=False)

    def ask(self, pod: Any) -> Answer:
        """Answer for one pod, and place nothing."""
        seen = self.scheduler.examine(pod)
        if seen.feasible and not seen.error:
            return Answer(seen.feasible)
        rejections = Counter(
            (status.plugin, reason) for status in seen.rejected.values() for reason in status.reasons
        )
        if (first := seen.pre_filter) is not None:
            rejections.update({(first.plugin, reason): len(seen.order) for reason in first.reasons})
        return Answer([], rejections, [change.text for change in self.scheduler.ask.explain(pod).changes])


def main(cluster: str, pod: str) -> None:
    """Print the answer for the pod of a file."""
    answer = Fits(cluster).ask(Path(pod).read_bytes())
    print("fits:", *answer.nodes or ["nowhere"])
    for (plugin, reason), nodes in sorted(answer.rejections.items()):
        print(f"  {nodes} nodes: {reason} ({plugin})")
    for change in answer.changes:
        print(f"  it would fit: {change}")


if __name__ == "__main__":
    main(*sys.argv[1:])
