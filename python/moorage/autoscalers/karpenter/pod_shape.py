"""What Karpenter reads of a pod, and what the pod gives up, one preference at a time, when nothing takes
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import ip_address
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, structs

from moorage._core.base.go_sort import sort_order
from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import tolerates
from moorage._core.provision.host_table import RESOURCES
from moorage._core.provision.label_requirements import RequirementSet, Vocabulary
from moorage._core.state.pod_spec import resized
from moorage.kube import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from moorage.kube.go_texts import go_json
from moorage.kube.model.node import HOSTNAME
from moorage.kube.plain import plain
from moorage.lazy import NamedTuple

# ---- sorting as Go's sort.Slice does: equal items come in an order that follows from the order before ------

T = TypeVar("T")


def go_sorted(items: Sequence[T], key: Callable[[T], float]) -> list[T]:
    """Return items in the order of their keys, equal ones as sort.Slice leaves them."""
    order = np.arange(len(items), dtype=np.int32)
    sort_order(np.fromiter(map(key, items), np.float64, len(items)), order)
    return [items[at] for at in order.tolist()]


# ---- how Karpenter and the Go libraries under it write values into messages --------------------------------


def go_form(value: Any) -> Any:
    """A struct as a JSON value, with maps in order of their keys."""
    return _sorted_maps(plain(value))


def _sorted_maps(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted_maps(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain_map = all(isinstance(item, str) for item in value.values())
    return {key: _sorted_maps(value[key]) for key in (sorted(value) if plain_map else value)}


def resources(amounts: Mapping[str, Quantity]) -> str:
    return go_json({name: str(amounts[name]) for name in sorted(amounts)})


def with_values(text: str, **values: object) -> str:
    """A message with named values behind it, in order of their names."""
    return f"{text} ({', '.join(f'{name}={values[name]}' for name in sorted(values))})"


# ---- what Karpenter reads of a pod; pods with equal specs and labels share it ------------------------------
# Rules: Karpenter v1.15.0, pkg/scheduling/requirements.go (requirements of pods) and hostportusage.go.

ONE_POD = Quantity("1e0") + Quantity("0")
"""One pod, in the format in which Karpenter counts them."""


class HostPort(NamedTuple):
    """A port of the host that a pod takes."""

    ip: str
    port: int
    protocol: str

    def matches(self, other: HostPort) -> bool:
        """Whether both cannot be on one host."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or "" in (self.ip, other.ip))


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    return tuple(
        [
            HostPort(_address(port.host_ip), port.host_port, port.protocol)
            for container in pod.spec.containers
            for port in container.ports
            if port.host_port
        ]
    )


def _address(text: str) -> str:
    """An address as it is compared; "" for all of a host."""
    try:
        address = ip_address(text or "0.0.0.0")
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return "" if address.is_unspecified else str(mapped or address)


class Labelled(Struct, eq=False):
    """Namespace and labels of pods, by which topology groups select them."""

    namespace: str
    labels: dict[str, str]


@dataclass(eq=False)
class PodConstraints:
    """Constraints of pods; a relaxation makes others."""

    vocabulary: Vocabulary
    strictly: bool
    labelled: Labelled
    node_selector: RequirementSet
    tolerations: tuple[Toleration, ...]
    required: tuple[NodeSelectorTerm, ...]
    preferred: tuple[PreferredSchedulingTerm, ...]
    affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    spreads: tuple[TopologySpreadConstraint, ...]

    def derived(self, **changes: Any) -> PodConstraints:
        return replace(self, **changes)

    @cached_property
    def strict_requirements(self) -> RequirementSet:
        """What a node must have: the selector and the first of the required terms."""
        if not self.required:
            return self.node_selector
        return self.node_selector.meet(self.vocabulary.of_terms(self.required[0].match_expressions))

    @cached_property
    def requirements(self) -> RequirementSet:
        """The same with the heaviest preference."""
        if self.strictly or not self.preferred:
            return self.strict_requirements
        heaviest = self.vocabulary.of_terms(self.preferred[0].preference.match_expressions)
        return self.strict_requirements.meet(heaviest)

    @cached_property
    def names_host(self) -> bool:
        return HOSTNAME in self.requirements.by_key

    @cached_property
    def _refusals(self) -> dict[tuple[Taint, ...], str]:
        return {}

    def taint_refusal(self, taints: tuple[Taint, ...]) -> str:
        """Which of the taints keep the pods away; "" for none."""
        if not taints:
            return ""
        refusal = self._refusals.get(taints)
        if refusal is None:
            refusal = self._refusals[taints] = untolerated(taints, self.tolerations)
        return refusal

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What topologies and claims keep about these pods."""
        return {}


class PodShape(Struct, eq=False):
    """What Karpenter reads of pods: their constraints, and what they take of a host.

    Attributes
    ----------
    amounts : dict of str to int
        Requests in units of 10**-9.
    wanted : tuple of float
        What tables of hosts compare of them.
    has_claims : bool
        Whether a pod or a container of it asks for devices by resource claims.
    """

    constraints: PodConstraints
    requests: dict[str, Quantity]
    amounts: dict[str, int]
    wanted: tuple[float, ...]
    ports: tuple[HostPort, ...]
    has_claims: bool

    @classmethod
    def of(cls, pod: Pod, constraints: PodConstraints) -> PodShape:
        requests = requests_of(pod)
        amounts = {name: amount.nanos() for name, amount in requests.items()}
        wanted = tuple([float(amounts.get(name, 0)) for name in RESOURCES])
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        claims = bool(pod.spec.resource_claims) or any(each.resources.claims for each in containers)
        return cls(constraints, requests, amounts, wanted, host_ports(pod), claims)


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> str:
    """Karpenter's text about the taints that no toleration tolerates."""
    return "; ".join(
        with_values("did not tolerate taint", taint=taint.text)
        for taint in taints
        if not tolerates(tolerations, taint, compares=True)
    )


def effective_selector(
    spread: TopologySpreadConstraint, labels: dict[str, str], times: int = 1
) -> LabelSelector | None:
    """The selector of a constraint with the pod's values of its matchLabelKeys, each so many times."""
    selector, keys = spread.label_selector, spread.match_label_keys
    if selector is None or not keys:
        return selector
    more = [
        LabelSelectorRequirement(key=key, operator="In", values=(labels[key],))
        for key in keys
        if key in labels
    ]
    expressions = (*selector.match_expressions, *(more * times))
    return structs.replace(selector, match_expressions=expressions)


def uid_of(pod: Pod) -> str:
    """The UID of a pod; its key if it has none yet."""
    return pod.metadata.uid or pod.key


def requests_of(pod: Pod) -> dict[str, Quantity]:
    """The effective requests of a pod, itself counted."""
    return pod_requests(pod) | {"pods": ONE_POD}


class ShapeBook:
    """The shapes of all pods of passes, each once."""

    def __init__(self, vocabulary: Vocabulary, strictly: bool) -> None:
        self.vocabulary = vocabulary
        self._strictly = strictly
        self._labelled: dict[tuple[str, frozenset[tuple[str, str]]], Labelled] = {}
        self._of_pods: dict[int, tuple[Pod, PodShape]] = {}
        self._constraints: dict[tuple[str, frozenset[tuple[str, str]], bytes], PodConstraints] = {}
        self._shapes: dict[tuple[str, frozenset[tuple[str, str]], bytes], PodShape] = {}
        self._taking: dict[bytes, PodShape] = {}

    def forget_others(self, pods: Iterable[Pod]) -> None:
        """Keep what was read of these pods alone."""
        known, places = self._of_pods, map(id, pods)
        self._of_pods = {place: known[place] for place in places if place in known}

    def labelled(self, pod: Pod) -> Labelled:
        labels = frozenset(pod.metadata.labels.items())
        key = (pod.namespace, labels)
        if key not in self._labelled:
            self._labelled[key] = Labelled(pod.namespace, pod.metadata.labels)
        return self._labelled[key]

    def shape(self, pod: Pod) -> PodShape:
        """The shape of a pod; its volumes are no part of it."""
        known = self._of_pods.get(id(pod))
        if known is not None:
            return known[1]
        spec = pod.spec
        stated = spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints
        taken = spec.containers, spec.init_containers, spec.resource_claims, spec.overhead, spec.resources
        labelled = pod.namespace, frozenset(pod.metadata.labels.items())
        key = (*labelled, msgspec.json.encode((stated, taken, resized(pod))))
        shape = self._shapes.get(key)
        if shape is None:
            key = (*labelled, msgspec.json.encode(stated))
            constraints = self._constraints.get(key)
            if constraints is None:
                constraints = self._constraints[key] = self._read(pod)
            takes = msgspec.json.encode((taken, resized(pod)))
            same = self._taking.get(takes)
            if same is None:
                same = self._taking[takes] = PodShape.of(pod, constraints)
            shape = self._shapes[key] = structs.replace(same, constraints=constraints)
        self._of_pods[id(pod)] = pod, shape
        return shape

    def _read(self, pod: Pod) -> PodConstraints:
        spec, vocabulary = pod.spec, self.vocabulary
        affinity = spec.affinity or Affinity()
        nodes = affinity.node_affinity or NodeAffinity()
        pods, anti = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
        preferred = nodes.preferred or ()
        return PodConstraints(
            vocabulary,
            self._strictly,
            self.labelled(pod),
            vocabulary.of_labels(spec.node_selector or {}),
            spec.tolerations,
            nodes.required.node_selector_terms if nodes.required else (),
            preferred if self._strictly else tuple(go_sorted(preferred, lambda term: -term.weight)),
            pods.required,
            pods.preferred,
            anti.required,
            anti.preferred,
            spec.topology_spread_constraints,
        )


# ---- what a pod gives up, one preference at a time, when nothing takes it ----------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/preferences.go.

W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)

PREFER_NO_SCHEDULE = Toleration(operator="Exists", effect="PreferNoSchedule")


class Relaxed(NamedTuple):
    """Constraints without one of their preferences, and what was given up."""

    constraints: PodConstraints
    text: str


def relaxed(constraints: PodConstraints, tolerating: bool, updates: int) -> Relaxed | None:
    """Give up the next preference; None if there is none left.

    Parameters
    ----------
    tolerating : bool
        Whether some pool has a taint of effect PreferNoSchedule.
    updates : int
        How often the topologies of the pod were looked up: each time upstream adds the values of
        matchLabelKeys to the selector once more, which the text shows.
    """
    if len(constraints.required) > 1:
        text = _removing("nodeAffinity.required", constraints.required[0])
        return Relaxed(_next(constraints, required=constraints.required[1:]), text)
    if terms := _by_weight(constraints.preferred_affinity):
        text = _removing("podAffinity.preferred", terms[0])
        return Relaxed(_next(constraints, preferred_affinity=terms[1:]), text)
    if terms := _by_weight(constraints.preferred_anti_affinity):
        text = _removing("podAntiAffinity.preferred", terms[0])
        return Relaxed(_next(constraints, preferred_anti_affinity=terms[1:]), text)
    if preferred := _by_weight(constraints.preferred):
        text = _removing("nodeAffinity.preferred", preferred[0])
        return Relaxed(_next(constraints, preferred=preferred[1:]), text)
    for at, spread in enumerate(constraints.spreads):
        if spread.when_unsatisfiable == "ScheduleAnyway":
            left = [*constraints.spreads]
            left[at] = left[-1]
            return Relaxed(
                _next(constraints, spreads=tuple(left[:-1])), _spread_text(constraints, at, updates)
            )
    if tolerating and (more := tolerating_preferences(constraints)) is not constraints:
        return Relaxed(more, "adding: toleration for PreferNoSchedule taints")
    return None


def tolerating_preferences(constraints: PodConstraints) -> PodConstraints:
    """Constraints with a toleration of all taints of effect PreferNoSchedule."""
    same = (PREFER_NO_SCHEDULE.key, PREFER_NO_SCHEDULE.effect, PREFER_NO_SCHEDULE.operator, "")
    if any(
        (toleration.key, toleration.effect, toleration.operator, toleration.value) == same
        for toleration in constraints.tolerations
    ):
        return constraints
    return _next(constraints, tolerations=(*constraints.tolerations, PREFER_NO_SCHEDULE))


def _next(constraints: PodConstraints, **changes: Any) -> PodConstraints:
    """Constraints with changes; of equal pods the same object."""
    known: dict[str, PodConstraints] = constraints.memo.setdefault("relaxed", {})
    (name,) = changes
    if name not in known:
        known[name] = constraints.derived(**changes)
    return known[name]


def _by_weight(terms: Sequence[W]) -> tuple[W, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))


def _removing(what: str, term: object) -> str:
    field = f"spec.affinity.{what}DuringSchedulingIgnoredDuringExecution[0]"
    return f"removing: {field}={go_json(_term(term))}"


def _term(term: object) -> Any:
    form = go_form(term)
    if isinstance(term, WeightedPodAffinityTerm):
        return {"weight": term.weight, "podAffinityTerm": _pod_term(form.get("podAffinityTerm", {}))}
    if isinstance(term, PreferredSchedulingTerm):
        return {"weight": term.weight, "preference": form.get("preference", {})}
    return form


def _pod_term(form: dict[str, Any]) -> dict[str, Any]:
    names = ("labelSelector", "namespaces", "topologyKey", "namespaceSelector", "matchLabelKeys")
    form.setdefault("topologyKey", "")
    return {name: form[name] for name in (*names, "mismatchLabelKeys") if name in form}


def _spread_text(constraints: PodConstraints, at: int, updates: int) -> str:
    spread = constraints.spreads[at]
    form = {"maxSkew": spread.max_skew, "topologyKey": spread.topology_key}
    form["whenUnsatisfiable"] = spread.when_unsatisfiable
    times = 0 if constraints.strictly else updates
    selector = effective_selector(spread, constraints.labelled.labels, times)
    if selector is not None:
        form["labelSelector"] = go_form(selector)
    return f"removing: spec.topologySpreadConstraints = {go_json(form | go_form(spread) | form)}"
