"""What keeps a pod with claims for devices off nodes, and changes of claims that place it. Each is confirmed
by a search of the engine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.helpful_changes import HelpfulChange, Kind, put
from moorage.engine.devices.device_properties import tolerates_taints
from moorage.engine.framework.evidence import Fact, FindEvidence, RejectedPod, Rows
from moorage.engine.framework.status import Status
from moorage.engine.plugins.dynamic_resources import CANNOT_ALLOCATE, NOT_AVAILABLE
from moorage.errors import first_of, number_of
from moorage.kube import Node, Object
from moorage.kube.model.resource_claims import (
    EXACT_COUNT,
    CELDeviceSelector,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from moorage.store import ObjectClient

from ..pod_claims import STEP_TEXTS, ClaimExplanation, PodClaims, surveys
from ..pods_in_the_way import own_controllers, pods_of
from ..probe import Probe, claim_values, largest
from ..request_survey import CAPACITY, CONSTRAINT, RequestSurvey

# ---- changes: fewer devices, another class, a toleration, a looser request, a claim that is freed ----------

MOST_CLASSES = 16
"""Maximum number of other classes that are tried for a request."""
MOST_TAINTS = 8
"""Maximum number of device taints that are tried for a request, the most frequent ones."""
MOST_VALUES = 4
"""Maximum number of values of an attribute that are tried, those of the most devices."""
MOST_CLAIMS = 16
"""Maximum number of claims of which one is freed, those with the fewest devices."""


class _AskedRequest(Struct, frozen=True):
    """A request, or an alternative, of a claim without devices."""

    use: str
    claim: ResourceClaim
    survey: RequestSurvey

    @property
    def name(self) -> str:
        return self.survey.request.full_name

    @property
    def where(self) -> str:
        return f"request {self.name} of claim {self.use}"

    def values(self, before: str, after: str) -> dict[str, str]:
        """Return what changes in the request."""
        return claim_values(self.use, before, after, self.name)

    def edited(self, **fields: object) -> ResourceClaim:
        """Return the claim with fields of the request changed."""
        requests = tuple([self._edited(request, fields) for request in self.claim.spec.devices.requests])
        return _with_devices(self.claim, requests=requests)

    def _edited(self, request: DeviceRequest, fields: Mapping[str, object]) -> DeviceRequest:
        if request.exactly is not None and request.name == self.name:
            return replace(request, exactly=replace(request.exactly, **fields))
        alternatives = [
            replace(subrequest, **fields) if f"{request.name}/{subrequest.name}" == self.name else subrequest
            for subrequest in request.first_available
        ]
        return replace(request, first_available=tuple(alternatives))


def changes(probe: Probe) -> Iterator[HelpfulChange]:
    """Yield the changes of claims that place the pod."""
    devices = probe.devices
    if devices is None:
        return
    explained = probe.claims
    claims = dict(devices.named())
    for explanation in explained:
        for survey in explanation.requests if explanation.use else ():
            request = _AskedRequest(explanation.use, claims[explanation.use], survey)
            yield from _fewer(probe, request)
            yield from _other_classes(probe, devices, request)
            yield from _tolerations(probe, devices, request)
            yield from _without_selectors(probe, request)
            yield from _one_value(probe, devices, request)
        if explanation.requests and explanation.use:
            yield from _without_constraints(probe, explanation.use, claims[explanation.use])
    yield from _freed(probe, devices, explained)


def _tried(
    probe: Probe, kind: Kind, text: str, changed: ResourceClaim, values: dict[str, str], amount: float = 0.0
) -> Iterator[HelpfulChange]:
    yield from probe.tried(HelpfulChange(kind, text, put(changed), amount, values))


def _fewer(probe: Probe, claim: _AskedRequest) -> Iterator[HelpfulChange]:
    request, left = claim.survey.request, claim.survey.left.values()
    most = max((counts[-1] for counts in left), default=0)
    if not request.wants_all:
        most = min(most, request.count - 1)

    def with_count(count: int) -> ResourceClaim:
        return claim.edited(allocation_mode=EXACT_COUNT, count=count)

    count = largest(most, lambda count: probe.count_feasible_with(*put(with_count(count))) > 0)
    if count:
        before = "all" if request.wants_all else str(request.count)
        devices = number_of(count, "device", "devices")
        text = f"ask for {devices} instead of {before} in {claim.where}"
        amount = 0.0 if request.wants_all else 1 - count / request.count
        values = claim.values(before, str(count))
        yield from _tried(probe, Kind.FEWER_DEVICES, text, with_count(count), values, amount)


def _other_classes(probe: Probe, devices: PodClaims, request: _AskedRequest) -> Iterator[HelpfulChange]:
    """Yield other classes of the cluster with enough devices for the request and its selectors."""
    survey, nodes = devices.survey(), probe.nodes(probe.rows())
    classes = devices.state.classes()
    own = request.survey.request.class_name
    tried = 0
    for name in sorted(classes):
        if name == own or tried == MOST_CLASSES:
            continue
        claim = request.edited(device_class_name=name)
        by_name = {each.request.full_name: each for each in surveys(survey, nodes, claim, classes.get)}
        if not by_name[request.name].steps[-1].nodes:
            continue
        tried += 1
        text = f"ask for class {name} instead of {own} in {request.where}"
        yield from _tried(probe, Kind.DEVICE_CLASS, text, claim, request.values(own, name))


def _tolerations(probe: Probe, devices: PodClaims, request: _AskedRequest) -> Iterator[HelpfulChange]:
    tolerated = request.survey.request.tolerations
    counts = Counter(
        (taint.key, taint.value, taint.effect)
        for device in devices.state.slices().devices()
        for taint in device.device.taints
        if not tolerates_taints(tolerated, [taint])
    )
    for (key, value, effect), _ in counts.most_common(MOST_TAINTS):
        new = DeviceToleration(key=key, operator="Equal", value=value, effect=effect)
        claim = request.edited(tolerations=(*tolerated, new))
        taint = f"{key}{f'={value}' if value else ''}:{effect}"
        text = f"tolerate the device taint {taint} in {request.where}"
        yield from _tried(probe, Kind.TOLERATE_DEVICE, text, claim, request.values("", taint))


def _without_selectors(probe: Probe, request: _AskedRequest) -> Iterator[HelpfulChange]:
    selectors = request.survey.request.selectors
    for dropped in dict.fromkeys(selectors):
        claim = request.edited(selectors=tuple([selector for selector in selectors if selector != dropped]))
        expression = "" if dropped.cel is None else dropped.cel.expression
        text = f"drop the selector {expression} of {request.where}"
        yield from _tried(probe, Kind.DROP_DEVICE_RULE, text, claim, request.values(expression, ""))


def _one_value(probe: Probe, devices: PodClaims, request: _AskedRequest) -> Iterator[HelpfulChange]:
    """Yield selectors of one value of an attribute that all devices are to share.

    They help where the search does not find in time what there is.
    """
    if not request.survey.steps[-1].nodes:
        return
    names = {request.name, request.name.partition("/")[0]}
    for constraint in request.claim.spec.devices.constraints:
        attribute = constraint.match_attribute or ""
        if not attribute or (constraint.requests and names.isdisjoint(constraint.requests)):
            continue
        typed = [device.attribute_value(attribute) for device in devices.state.slices().devices()]
        values = Counter([value for value in typed if value and value[0] != "version"])
        domain, _, identifier = attribute.partition("/")
        for (_, value), _ in values.most_common(MOST_VALUES):
            literal = json.dumps(value)
            expression = f'device.attributes["{domain}"].{identifier} == {literal}'
            selector = DeviceSelector(cel=CELDeviceSelector(expression=expression))
            claim = request.edited(selectors=(*request.survey.request.selectors, selector))
            text = f"add the selector {expression} to {request.where}"
            yield from _tried(probe, Kind.ADD_SELECTOR, text, claim, request.values("", expression))


def _without_constraints(probe: Probe, use: str, claim: ResourceClaim) -> Iterator[HelpfulChange]:
    constraints = claim.spec.devices.constraints
    for at, constraint in enumerate(constraints):
        rest = (*constraints[:at], *constraints[at + 1 :])
        rule = (
            f"matchAttribute {constraint.match_attribute}"
            if constraint.match_attribute is not None
            else f"distinctAttribute {constraint.distinct_attribute}"
        )
        text = f"drop the constraint {rule} of claim {use}"
        changed = _with_devices(claim, constraints=rest)
        yield from _tried(probe, Kind.DROP_DEVICE_RULE, text, changed, claim_values(use, rule))


def _with_devices(claim: ResourceClaim, **changes: object) -> ResourceClaim:
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, **changes)))


def _freed(probe: Probe, devices: PodClaims, explained: list[ClaimExplanation]) -> Iterator[HelpfulChange]:
    """Yield claims with devices that the pod could use, but for those of pods of its own workload, or claims
    of the pod with devices of other nodes."""
    keys = {
        holder.claim
        for explanation in explained
        for survey in explanation.requests
        for step in survey.steps
        for holder in step.holders
    }
    client = cast(ObjectClient, probe.engine.handle.client)
    own_pods = pods_of(client, probe.pod.namespace, own_controllers(client, probe.pod))
    siblings = {pod.metadata.uid for pod in own_pods}
    its = {explanation.claim for explanation in explained if explanation.devices}
    held = [
        claim
        for key in sorted(keys | its)
        if (claim := devices.state.claim_cache.find(key)) is not None
        and (key in its or siblings.isdisjoint([user.uid for user in claim.status.reserved_for]))
    ]
    for claim in sorted(held, key=_devices_of)[:MOST_CLAIMS]:
        users = ", ".join(consumer.name for consumer in claim.status.reserved_for)
        count = number_of(_devices_of(claim), "device", "devices")
        text = f"free claim {claim.key} ({count}, {f'used by {users}' if users else 'unused'})"
        freed = replace(claim, status=ResourceClaimStatus())
        yield from _tried(probe, Kind.FREE_CLAIM, text, freed, claim_values(claim.key))


def _devices_of(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    return 0 if allocation is None else len(allocation.devices.results)


# ---- evidence: too few devices, pools that cannot be used, devices of other nodes --------------------------

MOST_NAMED = 3
"""Maximum number of devices of a claim that are named."""


def evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds what the claims of the pod lack on nodes."""
    devices, claims = probe.devices, probe.claims
    assert devices is not None  # else the plugin is skipped

    absent = [*_absent(probe, devices)]

    def find(rows: Rows, status: Status) -> Iterator[Fact]:
        yield from absent
        for node in probe.nodes(rows):
            for kind, name, problem in sorted(set(_of_node(devices, claims, node, status))):
                yield Fact(kind, name, problem, values={"problem": problem})

    return find


def _absent(probe: Probe, devices: PodClaims) -> Iterator[Fact]:
    """Yield what the pod needs for its devices, and the input lacks."""
    namespace, there = probe.pod.namespace, dict(devices.named())
    needed: list[tuple[type[Object], str]] = [
        (ResourceClaim, f"{namespace}/{use.resource_claim_name}")
        if use.resource_claim_name
        else (ResourceClaimTemplate, f"{namespace}/{use.resource_claim_template_name}")
        for use in probe.pod.spec.resource_claims
        if use.name not in there
    ]
    surveys_of = (survey for claim in probe.claims for survey in claim.requests)
    needed += [(DeviceClass, survey.request.class_name) for survey in surveys_of]
    for kind, key in dict.fromkeys(needed):
        if all(each.key != key for each in probe.lister(kind).list()):
            problem = probe.absent(kind, key)
            yield Fact(kind.__name__, key, problem, values={"problem": problem})


def _of_node(
    devices: PodClaims, claims: Sequence[ClaimExplanation], node: Node, status: Status
) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and problem of what keeps the pod off a node."""
    if status.reasons == NOT_AVAILABLE.reasons:
        for claim in claims:
            if claim.devices:
                yield (
                    "claim",
                    claim.claim,
                    (
                        f"has {first_of(claim.devices, MOST_NAMED)}"
                        + (f", used by {', '.join(claim.users)}" if claim.users else "")
                    ),
                )
        return
    for name, problem in devices.pool_problems(node):
        yield "pool", name, problem
    lacking = [request for claim in claims for request in lacking_requests(claim, node.name)]
    yield from (("request", *request) for request in lacking)
    if not lacking and status.reasons == CANNOT_ALLOCATE.reasons:
        asking = [claim for claim in claims if claim.requests]
        requests = sum(len(claim.requests) for claim in asking)
        each = (
            "each request alone finds enough devices" if requests > 1 else "each rule leaves enough devices"
        )
        yield "claim", ", ".join(claim.claim for claim in asking), f"{each}; the search finds no set of them"


def lacking_requests(claim: ClaimExplanation, node: str) -> Iterator[tuple[str, str]]:
    """Yield the requests of a claim with too few devices on a node; of alternatives, if all have too few.

    Yields
    ------
    (str, str)
        The request, and the rule that leaves too few.
    """
    by_request: dict[str, list[tuple[str, str] | None]] = {}
    for survey in claim.requests:
        request, text = survey.request, None
        at = survey.failing_step(node)
        if at is not None:
            text = claim.name_of(request), _step_text(survey, node, at)
        by_request.setdefault(request.parent or request.name, []).append(text)
    for texts in by_request.values():
        if all(texts):
            yield from (text for text in texts if text is not None)


def _step_text(survey: RequestSurvey, node: str, at: int) -> str:
    """The rule of a request that leaves too few devices on a node, in words."""
    step = survey.steps[at]
    if survey.steps[-1].error:
        return survey.steps[-1].error
    rule = STEP_TEXTS[step.kind] + (
        f" {step.text}" if step.text and step.kind in (CAPACITY, CONSTRAINT) else ""
    )
    return f"{survey.left[node][at]} of {survey.wanted(node)} devices {rule}"
