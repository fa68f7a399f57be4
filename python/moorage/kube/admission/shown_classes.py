"""Priority classes that are not in the input, as the listed pods show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moorage.errors import examples, shorten

from ..model.meta import Object, ObjectMeta
from ..model.pod import PREEMPTS, Pod
from ..model.workload import PriorityClass

_EXAMPLES = 10


def shown_classes(objects: Iterable[Object], known: Collection[str]) -> tuple[list[PriorityClass], list[str]]:
    """Find the priority classes that pods of an API server name and that are not listed.

    The admission plugin Priority has written value and preemption policy of the class into these pods, so a
    new pod of the class gets the same. If pods differ, because the class was made again with another value,
    the newest pod is right.

    Parameters
    ----------
    objects : iterable of Object
        Objects of any kinds.
    known : collection of str
        Names of the classes that need not be found.

    Returns
    -------
    list of PriorityClass
        In the order of their first pods.
    list of str
        Warnings.
    """
    newest: dict[str, dict[tuple[int, str], Pod]] = {}
    for obj in objects:
        if isinstance(obj, Pod) and obj.spec.priority_class_name and obj.spec.priority is not None:
            spec, meta = obj.spec, obj.metadata
            is_served = spec.node_name or meta.uid or meta.resource_version
            if is_served and spec.priority_class_name not in known:
                shown = newest.setdefault(spec.priority_class_name, {})
                values = obj.spec.priority, spec.preemption_policy or PREEMPTS
                if values not in shown or _created(shown[values]) < _created(obj):
                    shown[values] = obj
    found, warnings = list[PriorityClass](), list[str]()
    for name, pods in newest.items():
        value, policy = chosen = max(pods, key=lambda values: _created(pods[values]))
        found.append(PriorityClass(metadata=ObjectMeta(name=name), value=value, preemption_policy=policy))
        if len(pods) > 1:
            texts = examples([f"{_text(*one)} by {pod.key}" for one, pod in pods.items()], _EXAMPLES)
            text = f"Pods show different values of the PriorityClass {shorten(name)}: {texts}"
            warnings.append(f"{text}; that of the newest pod counts, {_text(*chosen)}.")
    if found:
        names = [f"{shorten(one.name)} ({_text(one.value, one.preemption_policy)})" for one in found]
        head = "PriorityClasses that are not in the input are taken from pods that have them"
        hint = "kubectl get priorityclass -o json lists them"
        warnings.append(f"{head}: {examples(names, _EXAMPLES)}; {hint}.")
    return found, warnings


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _text(value: int, policy: str | None) -> str:
    return str(value) if policy in (None, PREEMPTS) else f"{value}, {policy}"
