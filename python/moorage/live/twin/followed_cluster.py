"""FollowedCluster: the objects of a cluster as `moorage dump` would list them now, kept by watches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from operator import attrgetter
from threading import Event, RLock, Thread
from typing import Any, NamedTuple

from moorage.kube import Object, Pod
from moorage.store import ApiError
from moorage.store.informer import Informer, InformerFactory

from ..client import ApiClient
from ..client.cluster_objects import REQUIRED, kinds_of_clusters, without_contents
from ..client.reflector import Reflector
from ..serve.health import UNREADABLE_LIMIT, follower_checks
from ..serve.live_metrics import LiveMetrics
from ..serve.web_server import Check
from .predicted_bindings import PredictedBindings

logger = logging.getLogger("moorage.serve")

PAUSE = 0.05
"""Seconds in which events are collected: what is done for each round is shared by them."""
LOOK = 1.0
"""Seconds between two looks at a cluster that tells nothing."""
_key = attrgetter("key")


class Moment(NamedTuple):
    """How far a cluster was followed when a question was asked.

    Attributes
    ----------
    versions : dict of str to str
        By kind, the resource version of its last event or list; "" for a kind without objects in the server.
    staleness : float
        Seconds since the server has sent anything; where a kind cannot be read now, since it last could.
    unreadable : dict of str to str
        By kind, why it cannot be read now.
    left_out : list of str
        The kinds that the user may not list, which are as if they had no objects.
    """

    versions: Mapping[str, str]
    staleness: float
    unreadable: Mapping[str, str]
    left_out: list[str]


class FollowedCluster:
    """Follows all kinds that scheduling reads.

    Parameters
    ----------
    bindings : PredictedBindings, optional
        Compares bindings with the state before; its scheduler shares the informers.

    Attributes
    ----------
    client : ApiClient
    lock : lock
        Held while events are applied, and by whoever forks: a child sees no event half applied.
    changes : int
        How many events were applied.
    metrics : LiveMetrics
        A step is a round of `follow`.
    """

    def __init__(self, client: ApiClient, bindings: PredictedBindings | None = None) -> None:
        self.client, self.lock, self.metrics = client, RLock(), LiveMetrics(client)
        self.bindings, self.changes = bindings, 0
        self._follower: Thread | None = None
        factory = InformerFactory(client) if bindings is None else bindings.scheduler.informers
        self.informers: dict[type[Object], Informer[Any]] = {
            kind: factory.informer(kind) for kind in kinds_of_clusters()
        }
        self._reflectors: dict[type[Object], Reflector[Any]] = {}
        for kind, one in self.informers.items():
            reflector = one.begin()
            assert isinstance(reflector, Reflector)
            self._reflectors[kind] = reflector
        if bindings is not None:
            self._reflectors[Pod].ends_before = bindings.matters

    def apply_news(self) -> None:
        """Apply the events that have arrived."""
        with self.lock:
            for kind, informer in self.informers.items():
                if self._reflectors[kind].is_listed:
                    if kind is Pod and self.bindings is not None:
                        while (event := self._reflectors[kind].peek()) is not None:
                            self.bindings.precede(event)
                            self.changes += informer.run_once()
                    self.changes += informer.run_once()
            if self.bindings is not None:
                self.bindings.settle()
        self.metrics.has_stepped()

    def start(self, stop: Event) -> Thread:
        """Return a thread that has begun to `follow`."""
        self._follower = Thread(target=self.follow, args=(stop,), name="twin", daemon=True)
        self._follower.start()
        return self._follower

    def follow(self, stop: Event) -> None:
        """Apply events as they arrive, until an event is set."""
        seen = -1
        while not stop.wait(PAUSE):
            seen = self.client.arrivals.wait(seen, LOOK)
            try:
                self.apply_news()
            except Exception as error:
                self.metrics.failed_steps += 1
                told = None if isinstance(error, ApiError) else error  # another one is a defect
                logger.warning("the cluster is not followed now: error=%s", error, exc_info=told)

    def is_listed(self) -> bool:
        """Whether all kinds were listed, but for optional ones that cannot be."""
        return all(
            one.is_listed or (kind not in REQUIRED and one.error) for kind, one in self._reflectors.items()
        )

    def await_lists(self, stop: Event) -> bool:
        """Wait until the cluster is listed; False if an event is set before."""
        while not stop.is_set():
            seen = self.client.arrivals.count
            if self.is_listed():
                self.apply_news()
                return True
            self.client.arrivals.wait(seen, LOOK)
        return False

    def objects(self) -> Iterator[Object]:
        """Yield the objects in the order of `list_cluster`."""
        for informer in self.informers.values():
            yield from map(without_contents, sorted(informer.indexer.values(), key=_key))

    def moment(self) -> Moment:
        """Return how far the cluster is followed. To be called with the lock."""
        now = self.client.connection.clock()
        listed = {kind: one for kind, one in self._reflectors.items() if one.is_listed}
        failing = {kind: since for kind, one in listed.items() if (since := one.unreadable_since) is not None}
        heard = max(one.heard for one in self._reflectors.values())
        ends = (min(since, listed[kind].heard) for kind, since in failing.items())  # a refusal is heard, too
        heard = min(ends, default=heard)
        return Moment(
            {kind.__name__: self.informers[kind].resource_version for kind in listed},
            max(0.0, now - heard),
            {kind.__name__: listed[kind].error for kind in failing},
            [kind.__name__ for kind in self._reflectors if kind not in listed],
        )

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the checks of liveness and of readiness.

        Ready is a twin that has listed the cluster, and can read each kind that it has listed. One that
        cannot is alive all the same: it answers, which a new process could not.
        """

        def are_readable() -> bool:
            now = self.client.connection.clock()
            since = [one.unreadable_since for one in self._reflectors.values() if one.is_listed]
            return self.is_listed() and all(one is None or now - one <= UNREADABLE_LIMIT for one in since)

        checks = follower_checks(self.client, self.metrics)
        alive = {"steps": checks["steps"], "follower": self._follows}
        return alive, {**alive, **checks, "kinds": are_readable}

    def _follows(self) -> bool:
        """Whether the thread lives, where there is to be one."""
        return self._follower is None or self._follower.is_alive()
