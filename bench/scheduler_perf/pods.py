"""The pods of a workload, as runs of equal pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count as count_from

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.engine.scheduler.schedule_pods import replica
from moorage.errors import InputError
from moorage.kube.model.meta import Object
from moorage.kube.model.pod import PersistentVolumeClaimVolumeSource, Pod, Volume
from moorage.kube.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim

from .object_templates import ObjectTemplate

NEW, FAILED, GATED, GONE = -1, -2, -3, -4
"""States of a pod without a node: not attempted, unschedulable, gated, deleted or being deleted."""


class PodRun:
    """Consecutive pods that differ only in their names.

    Parameters
    ----------
    template : Pod
        A pod with a ``generateName``; the pod with index i of the run is named ``<generateName><first + i>``.
    given_name : str
        The name in the file, if it does not end in a number; the run has one pod then.

    Attributes
    ----------
    state : (n,) int32 array
        By pod, the row of its node, or one of `NEW`, `FAILED`, `GATED`, `GONE`.
    """

    def __init__(self, template: Pod, first: int, count: int, given_name: str = "") -> None:
        self.template, self.first, self.given_name = template, first, given_name
        self.state: npt.NDArray[np.int32] = np.full(count, NEW, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.state)

    def name(self, number: int) -> str:
        """Return the name of a pod.

        Parameters
        ----------
        number : int
            Index of the pod in the run.
        """
        return self.given_name or f"{self.template.metadata.generate_name}{self.first + number}"

    def key(self, number: int) -> str:
        """Return ``namespace/name`` of a pod.

        Parameters
        ----------
        number : int
            Index of the pod in the run.
        """
        return f"{self.template.metadata.namespace}/{self.name(number)}"

    def pods(self) -> Iterator[Pod]:
        """Return the pods as created."""
        for number in range(len(self)):
            pod = replica(self.template, self.first + number)
            if self.given_name:
                pod = replace(pod, metadata=replace(pod.metadata, name=self.given_name, generate_name=""))
            yield pod

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether the pods have all given labels.

        Parameters
        ----------
        labels : dict of str to str
            Value by label key.
        """
        return labels.items() <= self.template.metadata.labels.items()

    def again(self, names: PodNames) -> PodRun:
        """Return as many equal pods, which have names of their own unless the name is given.

        Parameters
        ----------
        names : PodNames
            Reserves the numbers of the pods.
        """
        meta = self.template.metadata
        first = names.reserve(meta.namespace, meta.generate_name, len(self))
        return PodRun(self.template, first, len(self), self.given_name)

    def count(self, state: int) -> int:
        return int(np.count_nonzero(self.state == state))

    def has(self, *states: int) -> bool:
        """Whether pods of the run are in one of some states.

        Parameters
        ----------
        *states : int
            `NEW`, `FAILED`, `GATED`, `GONE`, or the row of a node.
        """
        return any((self.state == state).any() for state in states)


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement window: the pods that are measured.

    Attributes
    ----------
    namespaces : frozenset of str
        Namespaces of the pods; empty for all.
    labels : dict of str to str
        Labels that the pods have.
    """

    namespaces: frozenset[str]
    labels: dict[str, str]

    def measures(self, run: PodRun) -> bool:
        """Whether the pods of a run are measured."""
        return run.template.metadata.namespace in self.namespaces and run.matches(self.labels)


class PodNames:
    """The next free number after each name prefix, by namespace."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], int] = {}

    def reserve(self, namespace: str, prefix: str, count: int, first: int | None = None) -> int:
        """Reserve consecutive numbers after a name prefix.

        Parameters
        ----------
        namespace : str
            Namespace of the pods.
        prefix : str
            Prefix of the names.
        count : int
            How many numbers to reserve.
        first : int, optional
            The first number, for given names; by default the next free one.

        Returns
        -------
        int
            The first number.
        """
        free = self._next.get((namespace, prefix), 0)
        start = free if first is None else first
        self._next[namespace, prefix] = max(free, start + count)
        return start


def runs_of(
    template: ObjectTemplate, count: int, namespace: str, names: PodNames, signature: int = 0
) -> Iterator[PodRun]:
    """Iterate over the pods of an operation as runs, in order.

    A template that does not read ``.Index`` is rendered once. With other templates, consecutive pods that
    differ only in a number at the end of their names form a run.

    Parameters
    ----------
    template : ObjectTemplate
        Template of the pods.
    count : int
        Number of pods.
    namespace : str
        Namespace of the pods.
    names : PodNames
        Reserves the numbers of the pods.
    signature : int, optional
        Number of consecutive pods with one value of the label ``signature``; 0 omits the label.

    Yields
    ------
    PodRun
        Consecutive equal pods.

    Raises
    ------
    InputError
        A pod is invalid, or a name without index is for several pods.
    """
    if not template.by_index:
        pod = template.pod(0, namespace)
        if pod.name and count > 1:
            source, named = template.text.source, f"Pod {pod.key}"
            raise InputError("one name for several pods", source=source, obj=named, path="metadata.name")
        size = signature or max(count, 1)
        for start in range(0, count, size):
            yield run_of(_signed(pod, start, signature), min(size, count - start), names)
        return
    runs: list[PodRun] = []
    for index in range(count):
        pod = _signed(template.pod(index, namespace), index, signature)
        following = run_of(pod, 1, names)
        if runs and _continues(runs[-1], following):
            runs[-1] = PodRun(runs[-1].template, runs[-1].first, len(runs[-1]) + 1)
        else:
            runs.append(following)
    yield from runs


def _continues(run: PodRun, following: PodRun) -> bool:
    same_name = not run.given_name and not following.given_name
    return same_name and run.template == following.template and following.first == run.first + len(run)


def _signed(pod: Pod, index: int, signature: int) -> Pod:
    if not signature:
        return pod
    labels = pod.metadata.labels | {"signature": str(index // signature)}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def run_of(pod: Pod, count: int, names: PodNames) -> PodRun:
    """Return a run of equal pods.

    Parameters
    ----------
    pod : Pod
        The first pod. A name that ends in a number is split into prefix and number, so that the pod keeps it.
    count : int
        Number of pods.
    names : PodNames
        Reserves the numbers of the pods.
    """
    meta = pod.metadata
    match = re.fullmatch(r"(.*[^0-9])(0|[1-9][0-9]{0,8})", meta.name)
    if match is not None:
        template = replace(pod, metadata=replace(meta, name="", generate_name=match[1]))
        return PodRun(template, names.reserve(meta.namespace, match[1], count, int(match[2])), count)
    prefix = f"{meta.name}-" if meta.name else meta.generate_name
    template = replace(pod, metadata=replace(meta, name="", generate_name=prefix))
    return PodRun(template, names.reserve(meta.namespace, prefix, count), count, meta.name)


# ---- volumes -----------------------------------------------------------------------------------------------

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


def bound_volumes(
    claim: ObjectTemplate, volume: ObjectTemplate, number: int, namespace: str
) -> Iterator[Object]:
    """Make claims and volumes that are bound to each other (scheduler_perf, runners.go).

    Parameters
    ----------
    claim, volume : ObjectTemplate
        Templates of the PersistentVolumeClaims and PersistentVolumes.
    number : int
        Number of pairs.
    namespace : str
        Namespace of the claims.

    Yields
    ------
    Object
        A claim and its volume in turn. Names and volume handles are numbered from 0 in each namespace, as
        upstream; only disks repeat between namespaces.
    """
    first_claim, disk = claim.make(0, CLAIM, namespace, claim_name(0)), volume.make(0, VOLUME, name="vol-0")
    assert isinstance(first_claim, PersistentVolumeClaim)
    assert isinstance(disk, PersistentVolume)
    claim_status = replace(first_claim.status, phase="Bound")
    volume_status = replace(disk.status, phase="Bound")
    for index in range(number):
        name = f"{namespace}-vol-{index}"
        meta = replace(first_claim.metadata, name=claim_name(index))
        claim_spec = replace(first_claim.spec, volume_name=name)
        yield replace(first_claim, metadata=meta, spec=claim_spec, status=claim_status)
        reference = ObjectReference(kind=CLAIM, namespace=namespace, name=meta.name, api_version="v1")
        spec = replace(disk.spec, claim_ref=reference)
        if spec.csi is not None:
            spec = replace(spec, csi=replace(spec.csi, volume_handle=name))
        elif spec.aws_elastic_block_store is not None:
            source = replace(spec.aws_elastic_block_store, volume_id=f"vol-{index}")
            spec = replace(spec, aws_elastic_block_store=source)
        yield replace(disk, metadata=replace(disk.metadata, name=name), spec=spec, status=volume_status)


def claim_name(index: int) -> str:
    """Return the name of the claim of a pod.

    Parameters
    ----------
    index : int
        Index of the pod in its operation.
    """
    return f"pvc-{index}"


def with_claims(runs: Iterable[PodRun]) -> Iterator[PodRun]:
    """Replace the volumes of each pod by one claim of its own.

    Yields
    ------
    PodRun
        A pod with its claim.
    """
    numbers = count_from(0)
    for run in runs:
        for at in range(len(run)):
            source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(next(numbers)))
            spec = replace(run.template.spec, volumes=(Volume(name="vol", persistent_volume_claim=source),))
            yield PodRun(replace(run.template, spec=spec), run.first + at, 1, run.given_name)
