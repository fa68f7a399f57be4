"""Mode schedule: a pass of Karpenter, in the form of its vectors (conformance/KARPENTER.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.autoscaling import InstanceType, Offering
from moorage.autoscaling.karpenter import (
    ClusterObjects,
    KarpenterOptions,
    Launch,
    NewClaim,
    Provisioning,
    Situation,
    provision,
)
from moorage.autoscaling.karpenter.claims.catalogue import Catalogue
from moorage.autoscaling.karpenter.claims.type_columns import KnownType, known_type
from moorage.autoscaling.karpenter.go_order import go_sorted
from moorage.autoscaling.karpenter.karpenter_options import WELL_KNOWN
from moorage.autoscaling.karpenter.requirements.requirement_set import RequirementSet, Vocabulary
from moorage.objects import NodeSelectorRequirement, TopologySpreadConstraint, decode_object
from moorage.objects.read.decode import decode
from moorage.objects.workloads.ages import seconds

from .compare import differences
from .vectors import MalformedError

Json = dict[str, Any]

FIELDS = {"scenario", "result", "undetermined", "plays", "variants", "seeded"}
RESERVATION = "karpenter.test.sh/reservation-id"
SCENARIO = {
    *("name", "family", "seed", "mode", "now", "options", "wellKnownLabels", "instanceTypes", "objects"),
    *("instanceTypesForNodePool", "markedForDeletion", "nominated", "conditions"),
}
OPTIONS = {"preferencePolicy", "minValuesPolicy", "featureGates", "schedulerConfig", "maxInstanceTypes"}
_PANIC = "runtime error: index out of range [0] with length 0"


def is_karpenter(vector: Json) -> bool:
    """Whether a line is a vector of Karpenter."""
    return "plays" in vector and "variants" in vector


def check(vector: Json, shown: int) -> Iterator[str]:
    """What is wrong with a vector: of the canonical play, then of those with other ties."""
    if unknown := vector.keys() - FIELDS:
        raise MalformedError(f"malformed line: fields {', '.join(sorted(unknown))}")
    scenario = vector["scenario"]
    expected = {0: vector["result"]} | {int(seed): one for seed, one in vector.get("seeded", {}).items()}
    if bool(vector["undetermined"]) != ("seeded" in vector):
        raise MalformedError("malformed line: seeded goes with undetermined")
    catalogue = Catalogue(karpenter_options(scenario, 0))
    for seed, result in expected.items():
        produced = played(scenario, seed, catalogue)
        if found := list(islice(differences(result, produced), shown)):
            yield from (f"ties {seed}: {one}" if seed else one for one in found)
            return


def played(scenario: Json, seed: int, catalogue: Catalogue | None = None) -> Json:
    """The result of a scenario; plays may share what they know of the types."""
    if scenario.get("mode") != "schedule":
        raise MalformedError(f"unknown mode {scenario.get('mode')!r}")
    options = scenario.get("options", {})
    for given, known in ((scenario, SCENARIO), (options, OPTIONS)):
        if unknown := given.keys() - known:
            raise MalformedError(f"unknown fields in the scenario: {', '.join(sorted(unknown))}")
    objects = ClusterObjects([decode_object(one) for one in scenario["objects"]])
    types = {one["name"]: instance_type(one) for one in scenario["instanceTypes"]}
    of_pools = scenario.get("instanceTypesForNodePool", {})
    pools = [one["metadata"]["name"] for one in scenario["objects"] if one["kind"] == "NodePool"]
    by_pool = {pool: [types[name] for name in of_pools.get(pool, types)] for pool in pools}
    now, marked = seconds(scenario["now"]), frozenset(scenario.get("markedForDeletion", ()))
    settings = karpenter_options(scenario, seed)
    result = provision(objects, Situation(by_pool, now, marked), settings, catalogue)
    return shown(scenario["name"], result, FakeProvider(by_pool, settings))


def karpenter_options(scenario: Json, seed: int) -> KarpenterOptions:
    given = scenario.get("options", {})
    spread = given.get("schedulerConfig", {}).get("podTopologySpread", {}).get("defaultConstraints", ())
    gates = given.get("featureGates", {})
    options = KarpenterOptions(
        ignores_preferences=given.get("preferencePolicy") == "Ignore",
        best_effort=given.get("minValuesPolicy") == "BestEffort",
        reserved_capacity=gates.get("ReservedCapacity", True),
        default_spreads=tuple(decode(one, TopologySpreadConstraint) for one in spread),
        well_known=frozenset(scenario.get("wellKnownLabels", ())),
        reservation_label=RESERVATION,
        seed=seed,
    )
    most = given.get("maxInstanceTypes")
    return options if most is None else replace(options, most_types=most)


def quantities(amounts: Json) -> dict[str, Quantity]:
    return {name: Quantity(amount) for name, amount in amounts.items()}


def requirements(given: Sequence[Json]) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(decode(one, NodeSelectorRequirement) for one in given)


def instance_type(given: Json) -> InstanceType:
    overhead = given.get("overhead", {})
    return InstanceType(
        given["name"],
        quantities(given["capacity"]),
        tuple(offering(one) for one in given["offerings"]),
        requirements(given.get("requirements", ())),
        [
            quantities(overhead.get(name, {}))
            for name in ("kubeReserved", "systemReserved", "evictionThreshold")
        ],
        given.get("volumeAttachmentLimits", {}),
    )


def offering(given: Json) -> Offering:
    return Offering(
        given["zone"],
        given["capacityType"],
        float(given["price"]),
        given.get("available", True),
        given.get("reservationID", ""),
        given.get("reservationCapacity", 0),
        requirements(given.get("requirements", ())),
        quantities(given.get("capacityOverride", {})),
    )


def shown(name: str, result: Provisioning, provider: FakeProvider) -> Json:
    """A result in the form of vectors."""
    claims = [claim(at, one) for at, one in enumerate(result.claims, 1)]
    cost = 0.0
    for one, made in zip(claims, result.claims, strict=True):
        one["launch"] = provider.launch(made)
        cost += one["launch"]["price"]
    found: Json = {
        "name": name,
        "claims": claims,
        "order": [f"c{at + 1}" for at in result.order],
        "existing": {node: list(pods) for node, pods in result.existing.items()},
        "errors": {
            pod: {"text": error.text} | ({"reserved": True} if error.waits else {})
            for pod, error in result.errors.items()
        },
        "ignored": result.ignored,
        "pools": result.pools,
        "relaxed": {pod: list(texts) for pod, texts in result.relaxed.items()},
        "cost": rounded(cost),
    }
    return {key: value for key, value in found.items() if value or key not in OMITTED}


OMITTED = ("order", "ignored", "pools", "relaxed")


def rounded(price: float | None) -> float:
    """A price to nine digits; -1 for none; a whole number as JSON has it."""
    if price is None:
        return -1
    found = math.floor(price * 1e9 + 0.5) / 1e9
    return int(found) if found == int(found) else found


def claim(number: int, made: NewClaim) -> Json:
    written = {
        label: {
            operator: sorted(values) if isinstance(values, list) else values
            for operator, values in one.items()
        }
        for label, one in made.requirements.items()
    }
    named = written["node.kubernetes.io/instance-type"]
    for operator in named.keys() - {"minValues"}:
        named[operator] = ["(instanceTypes)"]
    found: Json = {
        "id": f"c{number}",
        "nodePool": made.pool,
        "pods": list(made.pods),
        "requests": made.requests,
        "requirements": written,
        "labels": made.labels,
        "instanceTypes": [one.name for one in made.types],
        "prices": [rounded(one.price) for one in made.types],
    }
    if made.min_values_relaxed:
        found["minValuesRelaxed"] = True
    if made.cheapest is not None:
        found["cheapest"] = launch(made.cheapest)
    return found


def launch(made: Launch) -> Json:
    found = {
        "instanceType": made.instance_type,
        "zone": made.zone,
        "capacityType": made.capacity_type,
        "reservationID": made.reservation_id,
    }
    return {key: value for key, value in found.items() if value} | {"price": rounded(made.price)}


class FakeProvider:
    """Which instance upstream's fake provider launches: not always the cheapest."""

    def __init__(self, types: dict[str, list[InstanceType]], options: KarpenterOptions) -> None:
        self._vocabulary = Vocabulary(WELL_KNOWN | options.well_known | {RESERVATION})
        each = {
            one: known_type(one, self._vocabulary, RESERVATION, {})
            for of_pool in types.values()
            for one in of_pool
        }
        self._types = {pool: [each[one] for one in of_pool] for pool, of_pool in types.items()}
        self._taken: dict[int, int] = {}

    def launch(self, made: NewClaim) -> Json:
        make = self._vocabulary.requirement
        wanted = self._vocabulary.set_of(
            [
                make(label, operator, values)
                for label, one in made.requirements.items()
                for operator, values in one.items()
                if operator != "minValues"
            ]
        )
        requests = {name: Quantity(amount).nanos() for name, amount in made.requests.items()}
        types = [one for one in self._types[made.pool] if self._would_do(one, wanted, requests)]
        if not types:
            return {"price": 0, "error": _PANIC}
        types = go_sorted(types, lambda one: min(known.offering.price for known in _offerings(one, wanted)))
        offerings = [known.offering for known in _offerings(types[0], wanted)]
        chosen = offerings[0]
        for one in offerings:
            left = one.reservation_capacity - self._taken.get(id(one), 0)
            if one.capacity_type == "reserved" and left > 0:
                self._taken[id(one)] = self._taken.get(id(one), 0) + 1
                chosen = one
                break
        reservation = chosen.reservation_id if chosen.capacity_type == "reserved" else ""
        same = (
            one.price
            for one in types[0].type.offerings
            if (one.zone, one.capacity_type) == (chosen.zone, chosen.capacity_type)
            and (chosen.capacity_type != "reserved" or one.reservation_id == reservation)
        )
        return launch(Launch(types[0].name, chosen.zone, chosen.capacity_type, reservation, next(same)))

    def _would_do(self, one: KnownType, wanted: RequirementSet, requests: dict[str, int]) -> bool:
        if wanted.refusal(one.requirements, undefined=True) or not _offerings(one, wanted):
            return False
        have = one.groups[0][0]
        return min(have.values()) >= 0 and all(
            amount <= have.get(name, 0) for name, amount in requests.items()
        )


def _offerings(one: KnownType, wanted: RequirementSet) -> list[Any]:
    return [
        known
        for known in one.offerings
        if known.offering.available and not wanted.refusal(known.requirements, undefined=True)
    ]
