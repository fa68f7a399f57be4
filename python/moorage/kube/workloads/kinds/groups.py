"""The pods that an object of a known kind asks for, by the table of kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from moorage.errors import InputError
from moorage.kube.model.workload import MAX_PODS

from .kind_rules import Part, Rule
from .kind_values import Find, Group, Values, map_of, number_of

_OVER = frozenset(
    {"succeeded", "failed", "complete", "completed", "finished", "stopped", "aborted", "terminated"}
)
"""Words of conditions and phases by which a batch workload has ended, in lower case."""
_DOT = re.compile(r"(?<!\\)\.")
_PHASES = ("phase", "jobStatus", "jobDeploymentStatus", "state")


def select(value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the values at a path; ``tasks[*]`` are the items of a list, ``specs.*`` those of a map.

    Parameters
    ----------
    value : object
        A JSON value.
    path : str
        "" is the value itself; a dot of a key is written as in paths of kubectl: ``cnpg\\.io/cluster``.

    Yields
    ------
    path, key : str
        Path of the value, and its last key or index.
    """
    found: list[tuple[str, str, Any]] = [("", "", value)]
    for escaped in filter(None, _DOT.split(path.replace("[*]", ".[]"))):
        step = escaped.replace("\\.", ".")
        further: list[tuple[str, str, Any]] = []
        for where, _, item in found:
            if step == "[]":
                items = item if isinstance(item, list) else []
                further += [(f"{where}[{at}]", str(at), part) for at, part in enumerate(items)]
            elif isinstance(item, dict):
                keys = list(item) if step == "*" else [step] * (step in item)
                further += [(f"{where}.{key}" if where else key, key, item[key]) for key in keys]
        found = further
    yield from found


def first(value: Any, path: str) -> Any:
    """Return the value at a path, None if there is none."""
    return next((item for _, _, item in select(value, path)), None)


def groups_of(obj: Values, rule: Rule, find: Find) -> list[Group] | str:
    """Return the groups of pods that an object asks for.

    Parameters
    ----------
    obj : dict
        The object as a JSON value.
    rule : Rule
        That of its kind.
    find : callable
        Finds other listed objects.

    Returns
    -------
    list of Group or str
        Why they do not follow from the object, where they do not: see `Rule.why_left_out`.

    Raises
    ------
    InputError
        A field has a wrong type, or there would be too many pods.
    """
    if rule.complete is not None:
        completed = rule.complete(obj, find)
        if isinstance(completed, str):
            return completed
        obj = completed
    if rule.groups is not None:
        groups = list(rule.groups(obj))
    elif rule.parts:
        groups = [group for part in rule.parts for group in _of_part(obj, part, rule)]
    else:
        return rule.why_left_out
    pods = 0
    for group in groups:
        pods += group.number * (_parallelism(group.template) if group.is_job else 1)
        if pods > MAX_PODS:
            raise InputError(f"{pods} pods are more than {MAX_PODS}", path=group.path)
    return groups


def _parallelism(job: Values) -> int:
    """How many pods a Job runs at once, as far as its template says that rightly."""
    spec = map_of(job, "spec")
    limits = [one for one in (spec.get("parallelism", 1), spec.get("completions")) if type(one) is int]
    return max(min(limits, default=1), 0)


def _of_part(obj: Values, part: Part, rule: Rule) -> Iterator[Group]:
    name = str(first(obj, "metadata.name"))
    for path, key, entry in select(obj, part.at):
        template = first(entry, part.template)
        if not isinstance(template, dict):
            continue
        count = 1
        for field in part.counts:
            count *= number_of(first(entry, field), 1, f"{path}.{field}")
        if rule.scheduler:
            chosen = first(obj, "spec.schedulerName") or rule.scheduler
            template = template | {"spec": {"schedulerName": chosen} | (template.get("spec") or {})}
        label = first(entry, part.label) or key.lower()
        inner = f"{path}.{part.template}" if part.template else path
        named = part.name.replace("{name}", name).replace("{part}", str(label))
        yield Group(named, count, template, inner, is_job=part.is_job)


def is_over(obj: Values) -> bool:
    """Whether the status of a batch workload says that it has ended."""
    status = obj.get("status")
    if not isinstance(status, dict):
        return False
    inner = [part for key in ("state", "applicationState") if isinstance(part := status.get(key), dict)]
    phases = [part.get(field) for part in (status, *inner) for field in _PHASES]
    conditions = status.get("conditions")
    phases += [
        one.get("type")
        for one in (conditions if isinstance(conditions, list) else ())
        if isinstance(one, dict) and one.get("status") == "True"
    ]
    return any(isinstance(word, str) and word.lower() in _OVER for word in phases)
