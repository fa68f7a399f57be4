"""verify: compares the bindings that a trace has recorded with the decisions here."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from moorage.answers.scheduler import Scheduler
from moorage.cluster.examine import Examination
from moorage.errors import InputError
from moorage.kube import Pod
from moorage.table import Column, Table, Tabular

from ..event_columns import Event, Verb
from ..timeline import Timeline
from .history_document import Divergence, VerificationDocument
from .recorder import SPILL_ROWS
from .replay_timeline import start
from .replayer import Replayer


class Verification(Tabular):
    """The comparison of recorded bindings with decisions.

    Attributes
    ----------
    bindings : int
        Number of recorded bindings that were compared.
    divergences : list of Divergence
        In the order of time; the first one is explained.
    left_out : dict of str to int
        Recorded bindings that were not compared, by the reason.
    counts : dict of str to int
        Events that had no effect, by the reason, and pod groups that are ignored.
    """

    def __init__(self) -> None:
        self.bindings = 0
        self.divergences: list[Divergence] = []
        self.left_out: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    @property
    def agrees(self) -> bool:
        """Whether all decisions are as recorded."""
        return not self.divergences

    def headline(self) -> str:
        """Return how many bindings agree, in one line."""
        same = self.bindings - len(self.divergences)
        return f"{same} of {self.bindings} recorded bindings are decided alike"

    def explanation(self) -> list[str]:
        """Return the first divergence in lines; none where all agree."""
        if self.agrees:
            return []
        first = self.divergences[0]
        return [
            f"first divergence at {first.time:g} s: {first.pod}",
            f"  recorded: {first.recorded}: {first.why_not_recorded}",
            f"  here: {first.here or 'no node'}: {first.why_here}",
        ]

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each divergence.

        Returns
        -------
        Table
            Columns time, pod, recorded, here.
        """
        rows = self.divergences[:limit]
        texts: dict[str, Column] = {
            name: [getattr(row, name) or None for row in rows] for name in ("pod", "recorded", "here")
        }
        times: Column = np.array([row.time for row in rows], np.float64)
        return Table({"time": times} | texts)

    def document(self) -> VerificationDocument:
        """Return the answer of ``moorage replay --verify``."""
        return VerificationDocument.from_object(self)


def verify(timeline: Timeline, **options: Any) -> Verification:
    """Compare each recorded binding with the decision here: a check before a scheduler is upgraded.

    A pod is tried when its binding was recorded, in the order of the record, in the state that the record
    leads to: after a divergence it is put on the recorded node. Pods whose binding is not recorded are not
    tried; those without a node stay out of the cluster.

    Parameters
    ----------
    timeline : Timeline
        With recorded bindings.
    **options : object
        Of `Scheduler`, as for `replay`.

    Raises
    ------
    InputError
        An event cannot be applied, or an option is wrong.
    """
    if timeline.autoscaler is not None:
        raise InputError("has nodes that no event of the timeline records", path="autoscaler")
    return _Verifier(timeline, options).run()


class _Verifier:
    """Goes through a timeline event by event; every pod is tried by itself."""

    def __init__(self, timeline: Timeline, options: dict[str, Any]) -> None:
        self._replayer: Replayer = start(timeline, SPILL_ROWS, options)
        self._scheduler: Scheduler = self._replayer.scheduler
        self._timeline, self._out = timeline, Verification()
        self._held: dict[str, Pod] = {}  # created pods that were not tried yet, by namespace/name

    def run(self) -> Verification:
        for at, event in enumerate(self._timeline):
            self._replayer.clock.now = event.time
            if event.verb is Verb.CREATE and isinstance(event.argument, Pod):
                self._create(event.argument, event.subject.partition("/")[2], at)
            elif event.verb is Verb.BIND:
                self._compare(event)
            elif not (event.verb is Verb.DELETE and self._forget(event.subject)):
                self._replayer.apply(event)
        self._out.counts = self._replayer.recorder.noted()
        return self._out

    def _create(self, template: Pod, key: str, at: int) -> None:
        namespace, _, name = key.partition("/")
        meta = replace(template.metadata, name=name, namespace=namespace, uid=f"replay-{at}")
        pod = replace(template, metadata=meta)
        if pod.spec.node_name:
            self._put(pod, "")
        else:
            self._held[key] = pod

    def _forget(self, subject: str) -> bool:
        """Whether a deletion is that of a pod that was never tried."""
        return self._held.pop(subject.partition("/")[2], None) is not None

    def _put(self, pod: Pod, node: str) -> None:
        """Write a pod, on a node where one is given, and have the scheduler see it."""
        if node:
            pod = replace(pod, spec=replace(pod.spec, node_name=node))
        self._replayer.store.create(pod)
        self._scheduler.sync()

    def _leave_out(self, why: str) -> None:
        self._out.left_out[why] = self._out.left_out.get(why, 0) + 1

    def _compare(self, event: Event) -> None:
        key, recorded = event.subject.partition("/")[2], str(event.argument)
        pod = self._held.pop(key, None)
        if pod is None:
            self._leave_out("there is no pod of this name without a node")
            return
        if self._scheduler.table.find_row(recorded) is None:
            self._leave_out("the record does not have its node")
            return
        self._out.bindings += 1
        with self._scheduler.transaction() as transaction:
            self._put(pod, "")
            self._replayer.try_all()
            here = self._replayer.store.get(Pod, pod.name, pod.namespace).spec.node_name
            if here == recorded:
                transaction.commit()
                return
        reasons = ("", "")
        if self._out.agrees:
            seen = self._scheduler.examine(pod)
            reasons = _why(seen, here), _why(seen, recorded)
        self._out.divergences.append(Divergence(event.time, key, recorded, here, *reasons))
        self._put(pod, recorded)


def _why(seen: Examination, node: str) -> str:
    """Return what speaks for or against a node: its scores, or the filter that rejects it."""
    if seen.error or not node:
        return seen.error or seen.fit_error or "was not placed"
    if node in seen.rejected:
        status = seen.rejected[node]
        return f"rejected by {status.plugin}: {status.message()}"
    if node not in seen.feasible:
        return "not among the nodes that PreFilter leaves"
    at = seen.feasible.index(node)
    scores = [f"{plugin} {values[at]}" for plugin, values in seen.normalized.items()]
    total = f"total {seen.total[at]}" if len(seen.total) > at else "the only node"
    return f"{total} ({', '.join(scores)})" if scores else total
