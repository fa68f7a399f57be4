"""What a watch tells of pods and of where they are bound."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.live.kit.cluster_workload import SIZE
from tests.live.kit.control_plane import LIMIT

from moorage import Quantity
from moorage.kube import Pod
from moorage.live.client import ApiClient
from moorage.store import ApiError, Informer


class FollowedPods:
    """Follows pods by a watch, and notes each change of a node."""

    def __init__(self, client: ApiClient) -> None:
        self.informer = Informer(client, Pod)
        self.informer.add_event_handler(self)
        self.bound: dict[str, list[str]] = {}
        self.informer.run_once()

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        self._note(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._note(new)

    def on_delete(self, obj: Any) -> None:
        """Nothing to note."""

    def _note(self, one: Pod) -> None:
        nodes = self.bound.setdefault(one.metadata.uid, [])
        if one.spec.node_name and nodes[-1:] != [one.spec.node_name]:
            nodes.append(one.spec.node_name)

    def pods(self) -> list[Pod]:
        """Those that there are now; as last seen while the server is away."""
        with suppress(ApiError):
            self.informer.run_once()
        return self.informer.indexer.values()

    def on_nodes(self) -> int:
        """How many of them are bound."""
        return sum(bool(one.spec.node_name) for one in self.pods())

    def await_bound(self, count: int, limit: float = LIMIT) -> None:
        """Wait until so many are bound."""
        self.await_that(lambda: self.on_nodes() >= count, limit)

    def await_all_bound(self, limit: float = LIMIT) -> None:
        """Wait until all are."""
        self.await_that(lambda: all(one.spec.node_name for one in self.pods()), limit)

    def await_that(self, holds: Callable[[], bool], limit: float = LIMIT) -> None:
        """Wait for a condition."""
        until = time.monotonic() + limit
        while not holds():
            assert time.monotonic() < until, f"{self.on_nodes()} of {len(self.pods())} pods are bound"
            time.sleep(0.1)

    def check(self) -> None:
        """Each pod was bound once at most, and no node has more pods than it has room for."""
        assert not self.twice()
        assert not self.overfull()

    def twice(self) -> dict[str, list[str]]:
        """Pods by UID that were on several nodes."""
        self.pods()
        return {uid: nodes for uid, nodes in self.bound.items() if len(nodes) > 1}

    def overfull(self) -> dict[str, int]:
        """Nodes of `SIZE` whose pods ask for more than its CPU, with thousandths of it. Pods that have ended
        ask for none."""
        asked = Counter[str]()
        for one in self.pods():
            if one.spec.node_name and one.status.phase not in ("Succeeded", "Failed"):
                requests = (container.resources.requests.get("cpu", "0") for container in one.spec.containers)
                asked[one.spec.node_name] += sum(Quantity(str(value)).milli_value() for value in requests)
        return {name: cpu for name, cpu in asked.items() if cpu > Quantity(SIZE["cpu"]).milli_value()}
