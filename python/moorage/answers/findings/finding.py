"""A finding, and what the functions share that look for findings in one cluster."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import TypeVar

from moorage.grouped import grouped
from moorage.kube import Cluster, Deployment, Object, Pod
from moorage.kube.model.workload import Job, ReplicaSet
from moorage.kube.workloads.missing_pods import MAKERS as _MAKERS
from moorage.kube.workloads.ownership import Workload, Workloads, is_active
from moorage.kube.workloads.readiness import unready
from moorage.lazy import NamedTuple
from moorage.notes import reworded

from .lint_rules import RULES

T = TypeVar("T", bound=Object)
_SHORT = {
    "HorizontalPodAutoscaler": "hpa",
    "VerticalPodAutoscaler": "vpa",
    "PodDisruptionBudget": "pdb",
    "PersistentVolumeClaim": "pvc",
    "PersistentVolume": "pv",
}
"""Names of kinds as kubectl has them in short."""


class LintFinding(NamedTuple):
    """Something that is wrong with one object.

    Attributes
    ----------
    obj : Workload
        The object, of any kind.
    about : Workload or None
        The workload whose answers tell it; None for what all answers tell.
    pods : int
        How many pods it is about; 0 where that is not counted.
    """

    rule: str
    obj: Workload
    text: str
    about: Workload | None = None
    pods: int = 0

    @property
    def name(self) -> str:
        """The object, as kubectl names it."""
        return (
            f"{_SHORT.get(self.obj.kind, '')}/{self.obj.name}" if self.obj.kind in _SHORT else self.obj.text
        )

    @property
    def note(self) -> str:
        """The finding as a sentence of its rank."""
        is_inside = bool(self.obj.namespace)
        head = (
            f"{self.name} in namespace {self.obj.namespace}" if is_inside else self.name.replace("/", " ", 1)
        )
        return reworded(self.text, f"{head}: {self.text}")

    @property
    def more(self) -> str:
        """The command that shows more, without the options about the cluster."""
        namespace, kind, name, _ = self.obj
        target = "/".join(filter(None, (kind.lower(), namespace, name)))
        of = f" -n {namespace}" if namespace else ""
        return RULES[self.rule].more.format(target=target, kind=kind.lower(), name=name, of=of)


def of_workload(rule: str, workload: Workload, text: str, pods: int = 0) -> LintFinding:
    """Return a finding about a workload, which answers about it tell."""
    return LintFinding(rule, workload, text, workload, pods)


class Ground:
    """A cluster in which things are to be found.

    Parameters
    ----------
    earlier : Ground, optional
        Of the cluster before a change: pods that have stayed are not looked at again.
    """

    def __init__(self, cluster: Cluster, earlier: Ground | None = None) -> None:
        self.cluster = cluster
        first = earlier and (earlier._same or earlier)  # so that no chain of clusters grows
        before = None if first is None else first.cluster
        is_same = before is not None and before.pods is cluster.pods and before.finished is cluster.finished
        self._same: Ground | None = first if is_same else None

    @cached_property
    def _by_kind(self) -> dict[type[Object], list[Object]]:
        return grouped((type(obj), obj) for obj in self.cluster.others)

    def listed(self, *kinds: type[T]) -> Iterator[T]:
        """Yield the objects of some kinds, kind by kind."""
        for kind, objects in self._by_kind.items():
            if issubclass(kind, kinds):
                yield from objects  # type: ignore[misc]

    @cached_property
    def workloads(self) -> Workloads:
        """The workloads of the pods."""
        return Workloads([*self.listed(ReplicaSet, Job)])

    @cached_property
    def makers(self) -> list[Object]:
        """The workloads that make pods, with those that make others of them."""
        return [obj for obj in self.cluster.others if isinstance(obj, MAKERS)]

    @cached_property
    def pods(self) -> dict[Workload, list[Pod]]:
        """The pods that run or should, by workload."""
        return grouped((self.workloads.of(pod), pod) for pod in self.cluster.pods if is_active(pod))

    @cached_property
    def unready(self) -> list[Pod]:
        """See `readiness.unready`."""
        return unready(self.cluster.pods) if self._same is None else self._same.unready

    @cached_property
    def labelled(self) -> list[Pod]:
        """One pod of each template: those of a template share their labels."""
        if self._same is not None:
            return self._same.labelled
        pods = chain(self.cluster.pods, self.cluster.finished)
        return [*{(pod.namespace, id(pod.metadata.labels)): pod for pod in pods}.values()]

    def top(self, obj: Object) -> Workload:
        """Return the workload of which an object is a part."""
        return self.workloads.top(identity(obj), "")


MAKERS: tuple[type[Object], ...] = (*_MAKERS, Deployment)


def identity(obj: Object) -> Workload:
    """Return what names an object."""
    return Workload(obj.namespace, obj.kind, obj.name)


# ---- how many are told -------------------------------------------------------------------------------------

MOST_FACTS = 12


def told_facts(findings: Iterable[LintFinding], about: Container[Workload] | None = None) -> list[str]:
    """Return what the objects of an input say of themselves, at most `MOST_FACTS` sentences.

    Parameters
    ----------
    about : container of Workload, optional
        The workloads that an answer is about; nodes are always told.
    """
    texts = [each.note for each in findings if about is None or each.about is None or each.about in about]
    more = len(texts) - MOST_FACTS
    return texts if more <= 1 else [*texts[:MOST_FACTS], f"{more} more facts of this kind"]
