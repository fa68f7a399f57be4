"""The admission plugin RuntimeClass (kubernetes v1.36, plugin/pkg/admission/runtimeclass)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..model.admission_policies import RuntimeClass
from ..model.pod import PodSpec, Toleration
from .pod_resources import quantities

_REJECTED = "pod rejected:"


class NotAdmittedError(Exception):
    """What admission says against a pod, without the pod's name."""


def with_runtime_class(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> PodSpec:
    """Add overhead, node selector and tolerations of its runtime class to a pod.

    Parameters
    ----------
    classes : mapping of str to RuntimeClass
        By name.

    Raises
    ------
    NotAdmittedError
        There is no such class, or the pod contradicts it.
    """
    name = spec.runtime_class_name
    if name is None:
        return _checked_overhead(spec, None)
    if name not in classes:
        raise NotAdmittedError(f'{_REJECTED} RuntimeClass "{name}" not found')
    spec = _checked_overhead(spec, classes[name])
    scheduling = classes[name].scheduling
    if scheduling is None:
        return spec
    selector = dict(spec.node_selector or {})
    for key, value in sorted(scheduling.node_selector.items()):
        own = selector.setdefault(key, value)
        if own != value:
            raise NotAdmittedError(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own}"
            )
    tolerations = merge_tolerations((*spec.tolerations, *scheduling.tolerations))
    return replace(spec, node_selector=selector or spec.node_selector, tolerations=tolerations)


def _checked_overhead(spec: PodSpec, runtime_class: RuntimeClass | None) -> PodSpec:
    if runtime_class is None or runtime_class.overhead is None:
        if spec.overhead:
            raise NotAdmittedError(
                f"{_REJECTED} Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return spec
    fixed = runtime_class.overhead.pod_fixed
    if spec.overhead and quantities(spec.overhead) != quantities(fixed):
        raise NotAdmittedError(f"{_REJECTED} Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return replace(spec, overhead=fixed)


def merge_tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Leave out tolerations that another one includes (kubernetes v1.36, pkg/util/tolerations)."""
    merged: list[Toleration] = []
    for at, one in enumerate(tolerations):
        later = [other for other in tolerations[at + 1 :] if other != one]
        if not any(includes(other, one) for other in (*merged, *later)):
            merged.append(one)
    return tuple(merged)


def includes(other: Toleration, one: Toleration) -> bool:
    """Whether a toleration tolerates all that another one does."""
    if one == other:
        return True
    if one.key != other.key and (other.key or other.operator != "Exists"):
        return False
    if other.effect not in ("", one.effect):
        return False
    if other.effect == "NoExecute" and other.toleration_seconds is not None:
        seconds = one.toleration_seconds
        if seconds is None or seconds > other.toleration_seconds:
            return False
    if other.operator in ("Equal", ""):
        return one.operator == "Equal" and one.value == other.value
    return other.operator == "Exists"
