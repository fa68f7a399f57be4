"""Mode schedule: a pass of Karpenter, in the form of its vectors (conformance/KARPENTER.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from moorage import Quantity
from moorage.autoscalers import (
    InstanceType,
    KarpenterOptions,
    KnownLabels,
    Launch,
    NewClaim,
    Offering,
    Provisioning,
)
from moorage.kube import NodeSelectorRequirement, TopologySpreadConstraint, decode_object
from tests.conformance.vectors import MalformedError
from tests.doors.autoscalers import (
    AWS,
    Catalogue,
    ClusterObjects,
    ClusterView,
    PassInput,
    fleet,
    go_sorted,
    launched,
)
from tests.doors.kube import decode, seconds

from . import node_class_mode

Json = dict[str, Any]

RESERVATION = "karpenter.test.sh/reservation-id"
SCENARIO = {
    *("name", "family", "seed", "mode", "now", "options", "wellKnownLabels", "instanceTypes", "objects"),
    *("instanceTypesForNodePool", "markedForDeletion", "nominated", "conditions", "maxRounds"),
    *("region", "zones", "spotPrices", "unavailable", "usageClasses", "reservationCounts", "providerOptions"),
}
OPTIONS = {"preferencePolicy", "minValuesPolicy", "featureGates", "schedulerConfig", "maxInstanceTypes"}
_PANIC = "runtime error: index out of range [0] with length 0"


@dataclass
class KarpenterWorld:
    """What a scenario is about."""

    objects: ClusterObjects
    situation: PassInput
    options: KarpenterOptions
    catalogue: Catalogue
    provider: FakeProvider

    @classmethod
    def of(cls, scenario: Json, seed: int, catalogue: Catalogue | None = None) -> KarpenterWorld:
        """Read a scenario; plays may share what they know of the types."""
        for given, known in ((scenario, SCENARIO), (scenario.get("options", {}), OPTIONS)):
            if unknown := given.keys() - known:
                raise MalformedError(f"unknown fields in the scenario: {', '.join(sorted(unknown))}")
        if scenario.get("conditions"):
            raise MalformedError("conditions: only those that Karpenter's controller sets are played")
        objects = ClusterObjects([decode_object(one) for one in scenario["objects"]])
        by_pool = types_of_aws(scenario) if "region" in scenario else types_of_pools(scenario)
        marked, nominated = (frozenset(scenario.get(name, ())) for name in ("markedForDeletion", "nominated"))
        options = karpenter_options(scenario, seed)
        provider = FakeProvider(by_pool, options)
        now, launcher = seconds(scenario["now"]), provider.launched
        situation = PassInput(by_pool, now, marked, nominated=nominated, launcher=launcher)
        return cls(objects, situation, options, catalogue or Catalogue(options), provider)

    def view(self) -> ClusterView:
        return ClusterView(self.objects, self.situation, self.options, self.catalogue)


def played(scenario: Json, seed: int, catalogue: Catalogue | None = None) -> Json:
    """The result of a scenario; plays may share what they know of the types."""
    world = KarpenterWorld.of(scenario, seed, catalogue)
    result = world.view().provisioning
    return shown(scenario["name"], result, world.provider)


def types_of_pools(scenario: Json) -> dict[str, list[InstanceType]]:
    types = {one["name"]: instance_type(one) for one in scenario["instanceTypes"]}
    of_pools = scenario.get("instanceTypesForNodePool", {})
    pools = [one["metadata"]["name"] for one in scenario["objects"] if one["kind"] == "NodePool"]
    return {pool: [types[name] for name in of_pools.get(pool, types)] for pool in pools}


def types_of_aws(scenario: Json) -> dict[str, list[InstanceType]]:
    """Each pool gets the types of its EC2NodeClass."""
    objects, options = scenario["objects"], scenario.get("providerOptions", {})
    classes = {
        one["metadata"]["name"]: node_class_mode.types_of(scenario, one, options)
        for one in objects
        if one["kind"] == "EC2NodeClass"
    }
    return {
        one["metadata"]["name"]: classes[one["spec"]["template"]["spec"]["nodeClassRef"]["name"]]
        for one in objects
        if one["kind"] == "NodePool"
    }


def karpenter_options(scenario: Json, seed: int) -> KarpenterOptions:
    given = scenario.get("options", {})
    spread = given.get("schedulerConfig", {}).get("podTopologySpread", {}).get("defaultConstraints", ())
    gates = given.get("featureGates", {})
    own = KnownLabels(frozenset(scenario.get("wellKnownLabels", ())), reservation_labels=(RESERVATION,))
    options = KarpenterOptions(
        ignores_preferences=given.get("preferencePolicy") == "Ignore",
        best_effort=given.get("minValuesPolicy") == "BestEffort",
        reserved_capacity=gates.get("ReservedCapacity", True),
        spot_to_spot=gates.get("SpotToSpotConsolidation", False),
        terminate_first=gates.get("TerminateFirstDrift", False),
        default_spreads=tuple(decode(one, TopologySpreadConstraint) for one in spread),
        provider=AWS if "region" in scenario else own,
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
        if provider.is_aws:
            one |= provider.asked(provider.fleet_of(made))
            continue
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
    }
    if not provider.is_aws:
        found["cost"] = rounded(cost)
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
        catalogue = Catalogue(options)
        self._vocabulary = catalogue.vocabulary
        self.fleets: dict[int, tuple[Any, Any]] = {}
        self.is_aws, self._seed = options.provider is AWS, options.seed
        self._types = {pool: catalogue.known(of_pool) for pool, of_pool in types.items()}
        self._taken: dict[int, int] = {}
        self._launched: dict[int, tuple[Any, Offering]] = {}

    @staticmethod
    def pods_of(finished: Any) -> tuple[str, ...]:
        return tuple([one.pod.key for one in finished.claim.pods])

    def launched(self, finished: Any) -> tuple[InstanceType, Offering] | None:
        """What is launched, once for equal claims; keeps what EC2 is asked for."""
        found = launched(finished)
        if self.is_aws and found is not None:
            self.fleets[id(found)] = found, fleet(finished)
        return found

    def fleet_of(self, made: NewClaim) -> Any | None:
        """What EC2 is asked for, for a claim."""
        return None if made.launched is None else self.fleets[id(made.launched)][1]

    def asked(self, request: Any | None) -> Json:
        """What Karpenter's provider for AWS asks EC2 for; other ties are played without it."""
        if not self.is_aws or self._seed:
            return {}
        if request is None:
            return {"fleet": {"error": "no type is left"}}
        prices: dict[str, float] = {}
        for of_type, one in request.overrides:
            prices[of_type.name] = min(one.price, prices.get(of_type.name, one.price))
        found = {
            "capacityType": request.capacity_type,
            "tenancy": request.tenancy,
            "strategy": "lowest-price" if request.takes_cheapest else "price-capacity-optimized",
            "instanceTypes": list(prices),
            "prices": [rounded(price) for price in prices.values()],
            "zones": sorted({one.zone for _, one in request.overrides}),
            "overrides": len(request.overrides),
        }
        return {"fleet": found}

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
        self._launched[id(made)] = types[0], chosen
        return launch(Launch(types[0].name, chosen.zone, chosen.capacity_type, reservation, next(same)))

    def labels(self, made: NewClaim) -> dict[str, str]:
        """The labels of the node that was launched for a claim."""
        of_type, offering = self._launched[id(made)]
        own = of_type.requirements.by_key
        found = {name: one.any_value() for name, one in own.items() if one.operator == "In"}
        known = next(one for one in of_type.offerings if one.offering is offering)
        return (
            found | {name: one.any_value() for name, one in known.requirements.by_key.items()} | made.labels
        )

    def _would_do(self, one: Any, wanted: Any, requests: dict[str, int]) -> bool:
        if wanted.refusal(one.requirements, undefined=True) or not _offerings(one, wanted):
            return False
        have = one.groups[0][0]
        return min(have.values()) >= 0 and all(
            amount <= have.get(name, 0) for name, amount in requests.items()
        )


def _offerings(one: Any, wanted: Any) -> list[Any]:
    return [
        known
        for known in one.offerings
        if known.offering.available and not wanted.refusal(known.requirements, undefined=True)
    ]
