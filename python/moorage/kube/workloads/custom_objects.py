"""Reads objects of kinds that scheduling does not know: what they ask for, and who owns them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeGuard

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError

from ..apiserver.decode import decode
from ..model.meta import Int64, Object, ObjectMeta, whole_number
from ..model.node import Node
from ..model.pod import Pod, PodSpec
from ..model.workload import MAX_PODS, CustomObject, full_kind
from .daemon_pods import daemon_tolerations, should_run
from .kind_rules import Count, Find, Group, KindRule, TemplatePart, Values, map_of, number_of, picked
from .kind_table import rule_of

# ---- groups ------------------------------------------------------------------------------------------------
#
# The pods that an object of a known kind asks for, by the table of kinds.

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
    path : str
        "" is the value itself; a dot of a key is written as in paths of kubectl: ``cnpg\\.io/cluster``.

    Yields
    ------
    path, key : str
        Path of the value, and its last key or index.
    """
    selected: list[tuple[str, str, Any]] = [("", "", value)]
    for escaped in filter(None, _DOT.split(path.replace("[*]", ".[]"))):
        step = escaped.replace("\\.", ".")
        further: list[tuple[str, str, Any]] = []
        for where, _, item in selected:
            if step == "[]":
                items = item if isinstance(item, list) else []
                further += [(f"{where}[{at}]", str(at), part) for at, part in enumerate(items)]
            elif isinstance(item, dict):
                keys = list(item) if step == "*" else [step] * (step in item)
                further += [(f"{where}.{key}" if where else key, key, item[key]) for key in keys]
        selected = further
    yield from selected


def first(value: Any, path: str) -> Any:
    """Return the value at a path, None if there is none."""
    return next((item for _, _, item in select(value, path)), None)


def groups_of(obj: Values, rule: KindRule, find: Find) -> list[Group] | str:
    """Return the groups of pods that an object asks for.

    Parameters
    ----------
    obj : dict
        The object as a JSON value.

    Returns
    -------
    list of Group or str
        Why they do not follow from the object, where they do not: see `KindRule.why_left_out`.

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
    limits = [limit for limit in (spec.get("parallelism", 1), spec.get("completions")) if type(limit) is int]
    return max(min(limits, default=1), 0)


def _of_part(obj: Values, part: TemplatePart, rule: KindRule) -> Iterator[Group]:
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
        condition.get("type")
        for condition in (conditions if isinstance(conditions, list) else ())
        if isinstance(condition, dict) and condition.get("status") == "True"
    ]
    return any(isinstance(word, str) and word.lower() in _OVER for word in phases)


# ---- custom objects ----------------------------------------------------------------------------------------

_COUNTS = ("replicas", "instances", "size", "servers")
_ASKS = re.compile(rb'"(replicas|instances|size|servers)"\s*:\s*[1-9]')
_HAS_CONTAINERS = re.compile(rb'"containers"\s*:\s*\[')
_HAS_RESOURCES = re.compile(rb'"(resources?|requests)"\s*:\s*{')
_CONTAINER = frozenset({"image", "resources", "command", "args", "env"})
_RESOURCES = ("resources", "resource", "requests")
_READY = ("readyReplicas", "availableReplicas")
_ALL_READY = ("Ready", "Available")
"""Conditions of an object that none of its pods is missing if one is true."""


class _Spec(msgspec.Struct, frozen=True):
    replicas: Int64 | None = None


class _Outline(msgspec.Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: _Spec = _Spec()


def makes_pods(obj: Object) -> bool:
    """Whether an object is a pod, or a workload that makes pods."""
    return isinstance(obj, Pod | CustomObject) or hasattr(getattr(obj, "spec", None), "template")


def read_custom(
    document: bytes | msgspec.Raw | dict[str, Any], kind: str, api_version: str
) -> CustomObject | None:
    """Read an object of a kind that scheduling does not know.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.

    Returns
    -------
    CustomObject or None
        None for an object without a name, from which no pods follow.
    """
    rule = rule_of(full_kind(kind, api_version))
    try:
        outline = decode(document, _Outline)
    except InputError:  # of another shape than objects have, or its replicas are no number
        outline = _Outline(metadata_of(document))
    meta = outline.metadata
    if meta is None or not (meta.name or meta.generate_name):
        return None
    custom = CustomObject(
        kind=kind,
        api_version=api_version,
        metadata=meta,
        is_namespaced=bool(meta.namespace) or not (meta.uid or meta.resource_version),
    )
    if rule is not None and rule.why_none == "" and not rule.is_read:
        return custom
    text = msgspec.json.encode(document) if isinstance(document, dict) else bytes(document)
    if rule is not None:  # one document for all forms that an object may be written in
        text = msgspec.json.encode(msgspec.json.decode(text), order="deterministic")
        return replace(custom, document=text, is_exact=rule.is_exact)
    has_parts = _ASKS.search(text) and _HAS_RESOURCES.search(text)
    if not (outline.spec.replicas or has_parts or _HAS_CONTAINERS.search(text)):
        return custom
    value = msgspec.json.decode(text)
    wanted, is_exact = _wanted(value.get("spec"))
    custom = replace(custom, wanted=wanted, is_exact=is_exact, digest=digest_of(value))
    return replace(custom, ready=ready_replicas(value)) if wanted else custom


def digest_of(value: Values) -> str:
    """Return a hash of the spec of an object.

    Parameters
    ----------
    value : dict
        The object as a JSON value.
    """
    return hashlib.sha256(msgspec.json.encode(value.get("spec"), order="deterministic")).hexdigest()


def metadata_of(document: Any) -> ObjectMeta | None:
    """Return the metadata of an object of any kind; None if they are of another shape."""

    class Named(msgspec.Struct):
        metadata: ObjectMeta | None = None

    try:
        return decode(document, Named).metadata
    except InputError:
        return None


def counted(rule: KindRule, value: Values, nodes: Iterable[Node]) -> int:
    """Return how many pods an object of a known kind asks for, if they are not made.

    Parameters
    ----------
    value : dict
        The object as a JSON value.
    """
    numbers = [
        _number(count, part, nodes)
        for count in rule.counts
        for _, _, part in select(value, count.at)
        if isinstance(part, dict)
    ]
    return min(sum(numbers), MAX_PODS) if numbers else 1


def _number(count: Count, part: Values, nodes: Iterable[Node]) -> int:
    field, values = count.only
    if part.get("enabled") is False or (field and first(part, field) not in values):
        return 0
    number = 1 if count.per_node is None else sum(map(_takes(count, first(part, count.per_node)), nodes))
    for field in count.fields:
        given = first(part, field)
        number *= given if _is_count(given) else count.default
    return number


def _takes(count: Count, placing: Any) -> Callable[[Node], bool]:
    """Return whether a node takes one of the pods that run on each node."""
    if count.device:
        return lambda node: any(
            name.startswith(count.device)
            for name in chain(node.metadata.labels, node.status.capacity, node.status.allocatable)
        )
    try:
        spec = decode(picked(map_of(placing), "nodeSelector", "affinity", "tolerations"), PodSpec)
    except InputError:  # of another form than pods have it
        spec = PodSpec()
    spec = replace(spec, tolerations=daemon_tolerations(spec))
    return partial(should_run, spec)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wanted(spec: Any) -> tuple[int, bool]:
    """Return how many pods an object of an unknown kind asks for, and whether it gives the number.

    That is one for each pod in it, times the numbers around it; without any pod the numbers of the parts that
    have resources, or of all parts if resources are elsewhere.
    """
    if not isinstance(spec, dict):
        return 0, True
    given = spec.get("replicas")
    has_resources, pods, with_resources, others = _pods_and_parts(spec, 1, False)
    parts = (with_resources or others) if has_resources else 0
    replicas = given if _is_count(given) else 0
    wanted = pods or parts or replicas
    return min(wanted, MAX_PODS), bool(pods or wanted == replicas) and given is not None


def _pods_and_parts(value: Any, times: int, is_listed: bool) -> tuple[bool, int, int, int]:
    """Return whether a value has resources, its number of pods, and the numbers of its parts with resources
    and of those without.

    Whole objects in a list make no pods: others make them of a template, or in another cluster.
    """
    if isinstance(value, list):
        requests = [_pods_and_parts(part, times, True) for part in value]
    elif isinstance(value, dict) and not (is_listed and "apiVersion" in value and "kind" in value):
        counts = [value[name] for name in _COUNTS if _is_count(value.get(name))]
        parallelism = value.get("parallelism")
        for number in (*counts, parallelism if _is_count(parallelism) else 1):
            times *= number
        containers = value.get("containers")
        if isinstance(containers, list) and any(
            isinstance(container, dict) and not _CONTAINER.isdisjoint(container) for container in containers
        ):
            return True, times, sum(counts), 0
        requests = [_pods_and_parts(part, times, is_listed) for part in value.values()]
        has = any(isinstance(value.get(name), dict) for name in _RESOURCES)
        has = has or any(part_has for part_has, *_ in requests)
        requests.append((has, 0, sum(counts) * has, sum(counts) * (not has)))
    else:
        return False, 0, 0, 0
    has_resources, pods, with_resources, others = (
        zip(*requests, strict=True) if requests else ((), (), (), ())
    )
    return any(has_resources), sum(pods), sum(with_resources), sum(others)


def ready_replicas(value: Values) -> int:
    """Return the number of replicas that the status of an object calls ready: any number where a condition
    or phase says that the whole object is ready.

    Parameters
    ----------
    value : dict
        The object as a JSON value.
    """
    status = value.get("status")
    status = status if isinstance(status, dict) else {}
    if any(str(status.get(field)).lower() == "ready" for field in ("phase", "state")):
        return MAX_PODS
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if (
            isinstance(condition, dict)
            and condition.get("type") in _ALL_READY
            and condition.get("status") in ("True", True)
        ):
            return MAX_PODS
    numbers = [status.get(field) for field in _READY]
    scale = status.get("scale")
    if isinstance(scale, dict):  # ready/all, as OpenTelemetryCollectors have it
        ready = str(scale.get("statusReplicas", "")).partition("/")[0]
        numbers.append(whole_number(ready) or 0)
    return max([number for number in numbers if isinstance(number, int)], default=0)
