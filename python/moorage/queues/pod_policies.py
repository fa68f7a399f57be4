"""What namespaces set and forbid in the pods of workloads (Kueue v0.17, pkg/workload/resources.go,
pkg/util/limitrange)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec
from msgspec.structs import replace

from moorage._core.base.quantity import parse
from moorage.kube.field_errors import aggregate
from moorage.kube.model.meta import Object, Resources
from moorage.kube.model.pod import Container, PodSpec
from moorage.kube.model.policy import LimitRange, RuntimeClass
from moorage.kube.read.object_defaults import with_container_defaults

from .settings import Settings
from .whole_amounts import Amounts, amounts, amounts_of, greater, plus

_ABOVE, _BELOW = (
    "requests must not be above the limitRange max",
    "requests must not be below the limitRange min",
)
_TYPES = ("Container", "Pod")


class PodPolicies:
    """The LimitRanges and RuntimeClasses of a cluster.

    Parameters
    ----------
    objects : iterable of Object
        As the API server stores them; other kinds are passed over.
    settings : Settings
        Say which resources count, and as what.
    """

    def __init__(self, objects: Iterable[Object], settings: Settings) -> None:
        self._excluded = settings.excluded
        self._transformed = {each.input: each for each in settings.transformations}
        self._ranges: defaultdict[str, list[LimitRange]] = defaultdict(list)
        self._classes: dict[str, RuntimeClass] = {}
        for obj in objects:
            if isinstance(obj, LimitRange):
                self._ranges[obj.namespace].append(obj)
            elif isinstance(obj, RuntimeClass):
                self._classes[obj.name] = obj

    def adjusted(self, spec: PodSpec, namespace: str) -> PodSpec:
        """Return the spec of pods with the overhead of their class, the defaults of their namespace, and
        limits for requests that they lack."""
        known = self._classes.get(spec.runtime_class_name or "")
        if known is not None and known.overhead is not None and not spec.overhead:
            spec = replace(spec, overhead=known.overhead.pod_fixed)
        if ranges := self._ranges.get(namespace):
            spec = _with_defaults(spec, ranges)
        if any(each.resources.limits for each in chain(spec.containers, spec.init_containers)):
            spec = with_container_defaults(spec)
        return spec

    def counted(self, spec: PodSpec) -> Amounts:
        """Return what a pod asks for of the resources that count."""
        amounts = amounts_of(spec)
        if self._excluded:
            amounts = {key: value for key, value in amounts.items() if not key.startswith(self._excluded)}
        counted = amounts
        for name in self._transformed.keys() & amounts.keys():
            rule, units = self._transformed[name], _units(name, amounts[name])
            if rule.multiply_by in amounts:
                units *= _units(rule.multiply_by, amounts[rule.multiply_by])
            if rule.strategy == "Replace":
                counted = plus(counted, {name: -amounts[name]})
            for output, each in rule.outputs.items():
                scale = 10**6 if output == "cpu" else 10**9
                counted = plus(counted, {output: -(-parse(each).nanos() * units // scale)})
        replaced = {name for name, rule in self._transformed.items() if rule.strategy == "Replace"}
        return {key: value for key, value in counted.items() if value or key not in replaced}

    def refusal(self, specs: Iterable[PodSpec], namespace: str) -> str:
        """Return why pods are not admitted whatever the quota; "" if nothing forbids them."""
        specs = list(specs)
        texts = [text for at, spec in enumerate(specs) for text in _above_limits(spec, at)]
        if texts:
            return f"resources validation failed: {aggregate(texts)}"
        if ranges := self._ranges.get(namespace):
            most: dict[str, Amounts] = {kind: {} for kind in _TYPES}
            least: dict[str, Amounts] = {kind: {} for kind in _TYPES}
            for item in chain.from_iterable(each.spec.limits for each in ranges):
                if item.type in _TYPES:
                    most[item.type] = _merged(most[item.type], amounts(item.max), min)
                    least[item.type] = _merged(least[item.type], amounts(item.min), max)
            texts = [text for at, spec in enumerate(specs) for text in _outside(spec, at, most, least)]
        return f"resources didn't satisfy LimitRange constraints: {aggregate(texts)}" if texts else ""


def _with_defaults(spec: PodSpec, ranges: Iterable[LimitRange]) -> PodSpec:
    """Return pods whose containers have the first default of some ranges for what they lack."""
    items = [item for each in ranges for item in each.spec.limits if item.type == "Container"]
    limits: Resources = {}
    requests: Resources = {}
    for item in reversed(items):
        limits |= item.default
        requests |= item.default_request

    def filled(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            [
                replace(
                    each,
                    resources=replace(
                        each.resources,
                        limits=limits | each.resources.limits,
                        requests=requests | each.resources.requests,
                    ),
                )
                for each in containers
            ]
        )

    return replace(spec, containers=filled(spec.containers), init_containers=filled(spec.init_containers))


def _units(resource: str, value: int) -> int:
    """Return an amount in whole units, rounded up."""
    return -(-value // 1000) if resource == "cpu" else value


def _containers(spec: PodSpec, at: int) -> Iterator[tuple[str, Container]]:
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            yield f"spec.podSets[{at}].template.spec.{field}[{index}]", container


def _invalid(path: str, resources: list[str], text: str) -> Iterator[str]:
    if resources:
        yield f"{path}: Invalid value: {msgspec.json.encode(resources).decode()}: {text}"


def _above_limits(spec: PodSpec, at: int) -> Iterator[str]:
    if not any(each.resources.limits for each in chain(spec.containers, spec.init_containers)):
        return
    for path, container in _containers(spec, at):
        above = greater(amounts(container.resources.requests), amounts(container.resources.limits))
        yield from _invalid(path, above, "requests must not exceed its limits")


def _merged(first: Amounts, other: Amounts, choose: Callable[[int, int], int]) -> Amounts:
    both = {key: choose(value, other[key]) for key, value in first.items() if key in other}
    return first | other | both


def _outside(spec: PodSpec, at: int, most: dict[str, Amounts], least: dict[str, Amounts]) -> Iterator[str]:
    """Yield what ranges forbid of the pods of a set."""
    for path, container in _containers(spec, at):
        requests, limits = amounts(container.resources.requests), amounts(container.resources.limits)
        yield from _invalid(path, greater(_merged(requests, limits, max), most["Container"]), _ABOVE)
        yield from _invalid(path, greater(least["Container"], _merged(requests, limits, min)), _BELOW)
    total, path = amounts_of(spec), f"spec.podSets[{at}].template.spec"
    yield from _invalid(path, greater(total, most["Pod"]), _ABOVE)
    yield from _invalid(path, greater(least["Pod"], total), _BELOW)
