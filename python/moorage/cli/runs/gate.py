"""The decision of ``moorage check``: which pods that should run have no node, and which of them count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from moorage.errors import number_of

from .simulation import (
    PLACED,
    REPLACED,
    SKIPPED_KIND,
    Group,
    Outcome,
    Simulation,
    group_outcomes,
    refused_groups,
)

if TYPE_CHECKING:
    from moorage.answers.survival import Loss, LostPod, Survival
    from moorage.kube.model.cluster import EndedObject

    from .coming_nodes import Grown


HINT = f"; --allow {SKIPPED_KIND} lets check pass"


class Finding(NamedTuple):
    """Pods of one workload that have no node for one reason; or an object that the API server would refuse.

    Attributes
    ----------
    group : Group
    waited : bool
        Whether these pods were waiting before the change.
    allowed : bool
        Whether ``--allow`` names the problem.
    counts : bool
        Whether the pods are a failure.
    because : tuple of str
        What makes the difference from an earlier release that gives them nodes.
    """

    group: Group
    waited: bool
    allowed: bool
    counts: bool
    because: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        """Number of pods."""
        return len(self.group.outcomes)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows if these pods are missing: their kind is not simulated. It is known of the
        pods of a Job that its queue never admits."""
        return self.group.status == SKIPPED_KIND and bool(self.group.workload.group)

    @property
    def hint(self) -> str:
        """What lets the gate pass, as the end of a sentence; "" where the pods have to find a node."""
        return HINT if self.is_unknown and self.counts else ""


class LossFinding(NamedTuple):
    """Pods of one workload that a loss leaves without a place for one reason.

    Attributes
    ----------
    lost : list of LostPod
        At least one.
    allowed : bool
        Whether ``--allow`` names the problem.
    """

    loss: Loss
    lost: list[LostPod]
    allowed: bool

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return self.lost[0].pod.partition("/")[0]

    @property
    def as_before(self) -> bool:
        """Whether the change made it no worse."""
        return self.lost[0].as_before

    @property
    def counts(self) -> bool:
        """Whether the pods are a failure."""
        return not (self.as_before or self.allowed)


class Compared(NamedTuple):
    """What the gate has looked at.

    Attributes
    ----------
    changes : list of str
        The files and options that change the cluster.
    releases : (str, str) or None
        That of ``--upgrade-from``, and the one that decides.
    lost : int
        Number of pods that only have a node in the first one.
    grown : Grown or None
        The nodes that came; None where none may come.
    basis : list of str
        See `Simulation.basis`.
    ended : sequence of EndedObject
        With ``--upgrade-from``, objects of the input in versions that the later release does not serve.
    """

    changes: Sequence[str] = ()
    releases: tuple[str, str] | None = None
    lost: int = 0
    grown: Grown | None = None
    basis: Sequence[str] = ()
    ended: Sequence[EndedObject] = ()

    def lines(self) -> Iterator[str]:
        """Yield whom the change evicts and what the answer rests on, who makes nodes, what was changed, and
        what becomes of the pods by an upgrade."""
        yield from self.basis
        if self.grown is not None:
            yield from self.grown.lines()
        if self.changes:
            yield f"changes: {', '.join(self.changes)}"
        if self.releases is not None:
            what = number_of(self.lost, "pod loses its node", "pods lose their nodes")
            yield f"{' to '.join(self.releases)}: {what if self.lost else 'no pod loses its node'}"
            yield from (f"{self.releases[1]} does not serve {one.text}" for one in self.ended)


class Verdict(NamedTuple):
    """The answer of the gate.

    Attributes
    ----------
    findings : list of Finding
        Those that count first.
    placed : int
        Number of pods that had no node before the run and have one now.
    is_about_pods : bool
        Whether there is any pod that should run.
    survival : Survival or None
        The answer of ``--survive``.
    losses : list of LossFinding
        Those that count first.
    compared : Compared
    """

    findings: list[Finding]
    placed: int
    is_about_pods: bool = True
    survival: Survival | None = None
    losses: Sequence[LossFinding] = ()
    compared: Compared = Compared()

    @property
    def failed(self) -> int:
        """Number of pods that are a failure before any loss."""
        return sum(finding.pods for finding in self.findings if finding.counts)

    def not_known(self, counts: bool) -> str:
        """How many replicas of kinds that are not simulated are a failure, or are none; "" for no replica."""
        found = [one for one in self.findings if one.is_unknown and one.counts == counts]
        kinds = {(one.group.workload.group, one.group.workload.kind) for one in found}
        replicas = number_of(sum(one.pods for one in found), "replica", "replicas")
        return f"{replicas} of {number_of(len(kinds), 'kind', 'kinds')} not known" if found else ""

    @property
    def failed_losses(self) -> int:
        """Number of losses that are a failure."""
        return len({finding.loss.domains for finding in self.losses if finding.counts})

    @property
    def refused(self) -> int:
        """Number of objects of the change that the API server would refuse."""
        return sum(not finding.pods for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether neither a pod nor a loss is a failure, and no object is refused."""
        return not (self.failed or self.failed_losses or self.refused)

    def with_losses(self, survival: Survival, allowed: Collection[str]) -> Verdict:
        """Return the answer with that of ``--survive``."""
        found: dict[tuple[object, ...], LossFinding] = {}
        for loss in survival.losses:
            for pod in loss.lost:
                finding = LossFinding(loss, [], pod.problem in allowed)
                namespace, what = pod.pod.partition("/")[0], structs.astuple(pod)[1:]
                found.setdefault((loss.domains, namespace, *what), finding).lost.append(pod)
        losses = sorted(found.values(), key=lambda finding: not finding.counts)
        return self._replace(survival=survival, losses=losses)


def judge(
    simulation: Simulation,
    waiting: Collection[str],
    allowed: Collection[str],
    new_only: bool,
    causes: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
    """Find the pods that should run and have no node.

    Pods that are being deleted are ignored, unless others wait for their end. An evicted pod counts unless
    its controller has made another one; that one counts as any pod does. Of objects of kinds that are not
    simulated it is not known whether they lack pods: only those count that a change brings.

    Parameters
    ----------
    waiting : collection of str
        What was waiting before the change: see `waiting_pods`.
    allowed : collection of str
        Problems that are no failure, by status.
    new_only : bool
        Whether pods that were waiting before are no failure.
    causes : mapping of str to str, optional
        By ``namespace/name``, what makes the difference from an earlier release.
    """
    findings = [
        Finding(group, waited, group.status in allowed, False, because)
        for group, waited in _groups(simulation, waiting)
        for keys in [[one.pod.key for one in group.outcomes]]
        for because in [tuple(dict.fromkeys(causes[key] for key in keys if key in causes))]
    ]
    findings = [
        one._replace(counts=not (one.allowed or (one.waited and (new_only or one.is_unknown))))
        for one in findings
    ]
    refused = refused_groups(simulation.cluster)
    findings[:0] = [Finding(group, waited=False, allowed=False, counts=True) for group in refused]
    placed = sum(one.status == PLACED for one in simulation.outcomes)
    is_about_pods = bool(simulation.before or simulation.outcomes)
    return Verdict(sorted(findings, key=lambda finding: not finding.counts), placed, is_about_pods)


def _groups(simulation: Simulation, waiting: Collection[str]) -> Iterator[tuple[Group, bool]]:
    """Yield the pods without a node by workload and reason, and whether they were waiting before."""
    parts: dict[bool, list[Outcome]] = {False: [], True: []}
    for one in simulation.outcomes:
        if one.status not in (PLACED, REPLACED) and not one.is_leaving:
            parts[one.key in waiting].append(one)
    for waited, outcomes in parts.items():
        yield from ((group, waited) for group in group_outcomes(outcomes))
