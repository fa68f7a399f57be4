"""Search with extenders: they filter the feasible nodes, and score those that remain.

kube-scheduler v1.36, schedule_one.go findNodesThatPassExtenders, prioritizeNodes, extendersBinding. Upstream
calls the scoring extenders concurrently; here they are called one after the other. Upstream draws a random
number for each node that an extender scored; among equal totals it decides before the order of Go's heap.
Here, with the tie-break "go-heap", these numbers are drawn from the seed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.quantity import wrap_int64
from moorage._core.decide.decider import count_verdicts
from moorage.engine.framework import MAX_NODE_SCORE, Code, CycleState, PreFilterRun, Status, StatusError
from moorage.engine.framework.extension_points import note_refused
from moorage.engine.framework.handle import Extender
from moorage.errors import ExtenderError
from moorage.kube import Node, Pod

from .diagnosis import Diagnosis, explain_verdicts
from .node_search import NodeSearch
from .results import NO_ROWS, Decision

MAX_EXTENDER_PRIORITY = 10
Rows = npt.NDArray[np.int32]

logger = logging.getLogger("moorage.scheduler")


def weighted_scores(extenders: Sequence[Extender], pod: Pod, nodes: list[Node]) -> dict[str, int]:
    """Return the weighted sums of extenders' scores. An extender that fails is skipped.

    Returns
    -------
    dict of str to int
        Node name to sum, an int64 with wrap-around. Only nodes that an extender scored.
    """
    sums: dict[str, int] = {}
    for extender in extenders:
        try:
            scores = extender.prioritize(pod, nodes)
        except ExtenderError as error:
            text = "Failed to run extender's priority function. No score given by this extender: %s: %s"
            logger.info(text, extender.name, error)
            continue
        for name, score in scores.items():
            weighted = score * extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
            sums[name] = sums.get(name, 0) + weighted
    return {name: wrap_int64(score) for name, score in sums.items()}


def bind_by_extender(extenders: Sequence[Extender], pod: Pod, node: str) -> bool:
    """Bind a pod by the first extender with a bind verb.

    Returns
    -------
    bool
        False if no extender binds.

    Raises
    ------
    ExtenderError
        The extender failed and is not ignorable.
    """
    for extender in extenders:
        if not extender.is_binder:
            continue
        try:
            extender.bind(pod, node)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            text = "Skipping extender in bind as it returned error and has ignorable flag set: %s: %s"
            logger.info(text, extender.name, error)
            continue
        return True
    return False


class ExtendedSearch:
    """One search in which extenders take part.

    Parameters
    ----------
    ran : PreFilterRun
        The result of PreFilter for the pod.

    Attributes
    ----------
    extender_statuses : dict of str to Status
        Rejections by extenders, which may name nodes that were not sent.
    empty : bool
        Whether the remaining nodes are scored as if they had no pods (`Extender.returns_bare_nodes`).
    statuses : callable
        Returns the status of each node by name, once the search has failed.
    """

    def __init__(self, engine: NodeSearch, state: CycleState, pod: Pod, ran: PreFilterRun) -> None:
        self.engine = engine
        self.state = state
        self.pod = pod
        self.ran = ran
        self.extenders = engine.interested(pod)
        self.extender_statuses: dict[str, Status] = {}
        self.empty = False
        start = engine.decider.start
        self.decision = Decision(None, start, start, 0, NO_ROWS, None)
        self.statuses: Callable[[], dict[str, Status]] = dict

    def run(self) -> Decision:
        """Search the nodes and choose one."""
        engine = self.engine
        try:
            engine.framework.searching(True)
            tried, fits = engine.evaluate_nominated_node(self.state, self.pod, "")
            if fits and self._accept_nominated_node(tried):
                decision = engine.on_tried_node(tried)
                return replace(decision, evaluated=1 + len(self.extender_statuses))
            self._find(-1 if fits else tried)
        except (StatusError, ExtenderError) as failed:
            if isinstance(failed, StatusError):
                note_refused(engine.handle.plugin_errors, f"pod {self.pod.key}", failed)
            text = failed.status.message() if isinstance(failed, StatusError) else str(failed)
            self.decision = replace(self.decision, next=engine.decider.start, evaluated=0, error=text)
        finally:
            engine.framework.searching(False)
        return self.decision

    def _accept_nominated_node(self, row: int) -> bool:
        """Whether extenders accept the nominated node. After an error the search includes the node again."""
        try:
            return bool(self._filter_by_extenders(self._nodes([row])))
        except ExtenderError as error:
            logger.error("Evaluation failed on nominated node: %s", error)
            return False

    def _filter_by_extenders(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes that all extenders accept; each extender receives those that the previous ones
        accepted. Raises ExtenderError if an extender that is not ignorable fails."""
        self.empty = False
        for extender in self.extenders:
            if not nodes:
                break
            try:
                names, failed, unresolvable = extender.filter(self.pod, nodes)
            except ExtenderError as error:
                if not extender.is_ignorable:
                    raise
                text = "Skipping extender %s as it returned error and has ignorable flag set: %s"
                logger.info(text, extender.name, error)
                continue
            for name, reason in sorted(unresolvable.items()):
                self.extender_statuses[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
            for name, reason in sorted(failed.items()):
                if name not in unresolvable:
                    self.extender_statuses[name] = Status(Code.UNSCHEDULABLE, (reason,))
            by_name = {node.name: node for node in nodes}
            nodes = [by_name[name] for name in names]
            self.empty |= extender.returns_bare_nodes
        return nodes

    def _nodes(self, rows: list[int]) -> list[Node]:
        """Return the node objects of rows."""
        objects = self.engine.cache.state.table.objects
        return [node for row in rows if (node := objects[row]) is not None]

    def _find(self, tried: int) -> None:
        """Search the nodes. `tried` is the row that was rejected before, or -1."""
        engine, decider, view = self.engine, self.engine.decider, self.engine.cache.state.view
        _, looked_at, positions = decider.find(*self.state.target)
        feasible = view.rows_at(positions)
        rejected = set(np.setdiff1d(looked_at, feasible).tolist())
        # Nodes with a status count as evaluated; those that were feasible before count twice.
        evaluated = sum(engine.row_in_view(name) not in rejected for name in self.extender_statuses)
        if tried >= 0 and tried not in rejected:
            rejected.add(tried)
            evaluated += 1
        decider.start = (decider.start + evaluated) % engine.nodes_in_view()
        self.decision = replace(self.decision, next=decider.start)
        nodes = self._nodes(feasible.tolist())
        place = {node.name: position for node, position in zip(nodes, positions.tolist(), strict=True)}
        remaining = self._filter_by_extenders(nodes)
        with_status = len(rejected) + sum(
            engine.row_in_view(name) not in rejected for name in self.extender_statuses
        )
        self.decision = replace(self.decision, evaluated=len(remaining) + with_status)
        if remaining:
            self._choose(remaining, np.array([place[node.name] for node in remaining], dtype=np.int32))
        else:
            self._diagnose(rejected, bool(nodes), tried)

    def _choose(self, nodes: list[Node], positions: Rows) -> None:
        """Choose among the remaining nodes. A single node is not scored."""
        state = self.engine.cache.state
        symbols, names = state.view.symbols_at(positions), state.symbols.names
        self.decision = replace(self.decision, feasible=positions, symbols=symbols, names=names)
        if len(nodes) == 1:
            self.decision = replace(self.decision, node=nodes[0].name)
            return
        engine = self.engine
        failed = engine.pre_score(positions)
        if failed:
            self.decision = replace(self.decision, error=failed)
            return
        totals = self.score(engine.cache.state.view.rows_at(positions))
        extra = weighted_scores(self.extenders, self.pod, nodes)
        totals += np.array([extra.get(node.name, 0) for node in nodes], dtype=np.int64)
        at = engine.decider.pick(totals, np.array([node.name in extra for node in nodes]))
        self.decision = replace(self.decision, node=nodes[at].name, totals=totals)

    def score(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the weighted sums of the plugins' scores.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of feasible nodes.

        Returns
        -------
        (n,) int64 array
        """
        return self.engine.decider.score(rows, *self.state.target, self.empty)

    def _diagnose(self, rejected: set[int], extender_rejected: bool, tried: int) -> None:
        """Diagnose a search without feasible nodes, from rows rejected by filters and statuses of extenders.
        `tried` is the row that was rejected before the search, or -1.
        Nodes without a status were not evaluated, or an extender dropped them without a reason."""
        engine, search, target = self.engine, self.engine.search, self.state.target
        table, names = engine.cache.state.table, search.node_names
        search.node_names = frozenset(map(table.row_name, rejected)) - self.extender_statuses.keys()
        try:
            rows, verdicts, statuses = engine.verdicts(target)
        finally:
            search.node_names = names
        profile, shape, view = engine.framework.profile_of(target), self.state.shape, engine.cache.state.view
        self.ran = engine.after_trial(self.ran, target, tried, (rows, verdicts, statuses))
        diagnosis = Diagnosis(
            engine.nodes_in_view(),
            profile,
            shape,
            verdicts=count_verdicts(verdicts),
            absent=self.ran.absent,
            narrowing=self.ran.plugins,
            statuses=statuses,
            extender_statuses=self.extender_statuses,
            extender_rejected=extender_rejected,
        )
        self.decision = replace(self.decision, diagnosis=diagnosis)

        def by_node() -> dict[str, Status]:
            unseen = self.ran.absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            by_name = dict.fromkeys(view.node_names(), unseen)
            by_name |= explain_verdicts(profile, shape, view.names_of(rows), verdicts, statuses)
            of_extenders = self.extender_statuses.items()
            return by_name | {name: status for name, status in of_extenders if name in by_name}

        self.statuses = by_node
