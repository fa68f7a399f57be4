"""PredictedBindings: what the engine would have decided before each binding of the cluster's scheduler."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage.facade import Scheduler
from moorage.objects import Node, Pod
from moorage.objects.workloads.ownership import FINISHED
from moorage.scheduler.cycle.results import Examination
from moorage.store.protocol import WatchEvent

logger = logging.getLogger("moorage.serve")

SAME, TIE, SAMPLED, RACED, OTHER = "same", "tie", "sampled", "raced", "other"
MATCHES = (SAME, TIE, SAMPLED, RACED, OTHER)
"""The node is the only best one; one of several; feasible, where a scheduler does not look at all feasible
nodes; perhaps the best before the last change; none of these."""
RACE = 10.0
"""Seconds between a decision and the event of its binding at most."""
KEPT = 100
"""Differences that are kept, the last ones."""
SHARE, START = 0.1, 1.0
"""What predictions may take of a processor, and seconds of it that they may take beforehand."""
_SHOWN = 5


class PredictedBindings:
    """Compares each binding with the state before it. Not thread-safe.

    Parameters
    ----------
    scheduler : Scheduler
        Over the client that is followed. It schedules nothing; its cache is the state.
    clock, work : callable, optional
        Return seconds, of real time and of processor time of this thread.

    Attributes
    ----------
    counts : Counter
        Bindings by match.
    skipped : int
        Bindings that were not predicted, because predictions took their share of the processor.
    differences : deque of dict
        The last bindings that match `OTHER`, each with both reasons.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.thread_time,
    ) -> None:
        self.scheduler, self._clock, self._work = scheduler, clock, work
        self.counts, self.skipped = Counter(dict.fromkeys(MATCHES, 0)), 0
        self.differences: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._began, self._spent, self._changed = clock(), 0.0, -RACE
        self._pods = scheduler.informers.informer(Pod)
        scheduler.informers.informer(Node).add_event_handler(self)

    @staticmethod
    def matters(event: WatchEvent[Pod]) -> bool:
        """Whether the event of a pod may take or free room of a node, so that the state before it counts."""
        pod = event.object
        is_settled = event.type == "MODIFIED" and pod.status.phase == "Running"
        return bool(pod.spec.node_name) and not is_settled

    def precede(self, event: WatchEvent[Pod]) -> None:
        """Compare an event that will be applied next, if it is a binding."""
        if not self.matters(event):
            return
        after, changes = event.object, event.type == "MODIFIED"
        before: Pod | None = self._pods.indexer.get(after.key)
        if before is None or before.metadata.uid != after.metadata.uid or not changes:
            self._changed = self._clock()
        elif not before.spec.node_name:
            self._predict(before, after.spec.node_name)
            self._changed = self._clock()
        elif after.status.phase in FINISHED and before.status.phase not in FINISHED:
            self._changed = self._clock()

    def _predict(self, pod: Pod, node: str) -> None:
        """Compare a binding, if the pod is one of the profiles'."""
        if pod.spec.scheduler_name not in self.scheduler.engines:
            return
        try:
            self._compare(pod, node)
        except Exception:  # what follows the cluster goes on
            logger.exception("a binding was not predicted: pod=%s", pod.key)
            self.skipped += 1

    def _compare(self, pod: Pod, node: str) -> None:
        now = self._clock()
        if self._spent > START + SHARE * (now - self._began):
            self.skipped += 1
            return
        began = self._work()
        seen = self.scheduler.examine(pod)
        engine = self.scheduler.context.engine_for(pod)
        enough = num_feasible_nodes_to_find(engine.decider.percentage, len(seen.order))
        if node in seen.best:
            match = SAME if len(seen.best) == 1 else TIE
        elif node in seen.feasible and len(seen.feasible) > enough:
            match = SAMPLED
        elif now - self._changed < RACE:
            match = RACED
        else:
            match = OTHER
            self.differences.append(_difference(pod, node, seen))
            logger.warning(
                "a binding is not as predicted: pod=%s node=%s best=%s", pod.key, node, seen.best[:1]
            )
        self.counts[match] += 1
        self._spent += self._work() - began

    # ---- nodes (the handler of an informer) ----

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        """Note that a node has come."""
        if not is_in_initial_list:
            self._changed = self._clock()

    def on_update(self, old: Node, new: Node) -> None:
        """Note that a node has changed, but for its heartbeat."""
        parts = [
            (one.spec, one.metadata.labels, one.status.allocatable, one.status.images) for one in (old, new)
        ]
        if parts[0] != parts[1]:
            self._changed = self._clock()

    def on_delete(self, obj: object) -> None:
        """Note that a node has gone."""
        self._changed = self._clock()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        text = "Bindings of the cluster's scheduler, by how they match the prediction from the state before."
        family = CounterMetricFamily("moorage_predicted_bindings", text, labels=["match"])
        for match in MATCHES:
            family.add_metric([match], self.counts[match])
        yield family
        text = "Bindings that were not predicted, to spare the processor."
        yield CounterMetricFamily("moorage_skipped_predictions", text, value=self.skipped)


def _difference(pod: Pod, node: str, seen: Examination) -> dict[str, Any]:
    """Return why the prediction is another one, as JSON: what rejects the node, or the scores of both."""
    found: dict[str, Any] = {"pod": pod.key, "node": node, "predicted": seen.best[:_SHOWN]}
    if node in seen.rejected:
        return found | {"rejected": seen.rejected[node].message()}
    if node not in seen.feasible:
        return found | {"rejected": seen.error or seen.fit_error or "the node is not known"}
    at, best = seen.feasible.index(node), seen.feasible.index(seen.best[0])
    scores = {plugin: [int(values[at]), int(values[best])] for plugin, values in seen.normalized.items()}
    return found | {"total": [int(seen.total[at]), int(seen.total[best])], "scores": scores}
