"""What the claims of a pod ask for, and how many devices each rule leaves for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.resources import pod_requests
from moorage._core.devices.claims_of_pods import ClaimError
from moorage.controllers.resource_claim_controller import claim_of_template
from moorage.engine.devices.claim_requests import ClaimRequests, ClassOf, PreparedRequest
from moorage.engine.devices.device_state import DeviceState
from moorage.engine.devices.extended_resources import claim_spec, find_claim, new_claim
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube import Node, Pod
from moorage.kube.model.pod import PodResourceClaim, PodResourceClaimStatus
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.resource_claims import (
    EXTENDED_CLAIM,
    DeviceClass,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from moorage.kube.model.resource_slices import ResourceSlice, find_pool_problems
from moorage.store import ObjectClient, find_object

from .request_survey import (
    CAPACITY,
    CLASS,
    CONSTRAINT,
    COUNTER,
    IN_USE,
    PUBLISHED,
    SELECTOR,
    TAINT,
    DeviceSurvey,
    RequestSurvey,
)

EXTENDED = "extended resources"
"""Name of the claim that stands for the extended resources of a pod."""
STEP_TEXTS = {
    PUBLISHED: "published",
    CLASS: "match the class",
    SELECTOR: "match the selectors",
    TAINT: "have only tolerated taints",
    IN_USE: "free",
    CAPACITY: "have the capacity",
    COUNTER: "have enough shared counters",
    CONSTRAINT: "meet the constraint",
}


class ClaimExplanation(Struct, frozen=True):
    """A claim of a pod.

    Attributes
    ----------
    claim : str
        ``namespace/name``; ``extended resources`` for those of the pod that device classes provide.
    use : str
        Its name in the pod; "" for extended resources.
    devices : tuple of str
        The devices that it has, as ``driver/pool/device``; none before its allocation.
    users : tuple of str
        Names of those for which it is reserved.
    requests : list of RequestSurvey
        What it asks for, an alternative each, if it has no devices yet.
    resources : dict of str to str
        For extended resources: the resource that stands for a class.
    """

    claim: str
    use: str
    devices: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    requests: list[RequestSurvey] = msgspec.field(default_factory=list)
    resources: dict[str, str] = msgspec.field(default_factory=dict)

    def name_of(self, request: PreparedRequest) -> str:
        """Return the name of a request with that of its claim, or with its extended resource."""
        if self.use:
            return f"{request.full_name} of claim {self.use}"
        return f"{self.resources[request.class_name]} ({request.full_name})"

    def request_text(self, survey: RequestSurvey) -> str:
        """Return a request in words."""
        request = survey.request
        count = "all" if request.wants_all else str(request.count)
        claim = f" ({self.claim})" if self.use else ""
        return f"request {self.name_of(request)}{claim}: {count} of class {request.class_name}"


class PodClaims:
    """The claims of a pod, and the devices of the cluster."""

    def __init__(self, devices: DeviceState, pod: Pod) -> None:
        self.state = devices
        self.pod = pod

    @classmethod
    def of(cls, engine: Engine, pod: Pod) -> PodClaims | None:
        """Return the claims of a pod; None where its placement does not depend on devices."""
        if engine.handle.informers is None:
            return None
        asks = bool(pod.spec.resource_claims)
        if not asks and not engine.handle.informers.lister(DeviceClass).changes:
            return None
        claims = cls(engine.handle.shared(DeviceState.of), pod)
        return claims if asks or claims.resources else None

    @property
    def resources(self) -> list[str]:
        """The extended resources of the pod that device classes provide."""
        classes = self.state.by_resource()
        requests = pod_requests(self.pod, resizes=False)
        return [name for name, amount in requests.items() if name in classes and amount.sign()]

    def published(self) -> Sequence[ResourceSlice]:
        """Return the slices of the cluster."""
        return self.state.published()

    def kinds_of(self, node: Node) -> tuple[tuple[bytes, int], ...]:
        """Return the kinds of devices of a node with their numbers, to tell nodes with others apart."""
        pools = self.state.slices().pools_of(node)
        return tuple(Counter(device.properties for pool in pools for device in pool.devices).items())

    def named(self) -> Iterator[tuple[str, ResourceClaim]]:
        """Yield the existing claims of the pod's spec by their names in the spec."""
        for use in self.pod.spec.resource_claims:
            alone = with_claims(self.pod, [use])
            with suppress(ClaimError):
                for claim in self.state.consumers.claims_of(alone, self.state.claim_cache.find):
                    yield use.name, claim

    def extended(self) -> ResourceClaim | None:
        """Return a claim for the pod's extended resources; None if it has none."""
        if not self.resources:
            return None
        classes = self.state.by_resource()
        return new_claim(self.pod, claim_spec(self.pod, self.resources, classes)[0])

    def survey(self) -> DeviceSurvey:
        """Return a survey of the devices as they are now."""
        state = self.state
        claims = state.claim_cache.claims()
        return DeviceSurvey(
            state.slices(), state.features, state.claim_cache.in_use(), state.selectors, claims
        )

    def explanations(self, nodes: list[Node]) -> list[ClaimExplanation]:
        """Return what each claim asks for and finds on some nodes."""
        survey, class_of = self.survey(), self.state.class_of()
        explanations = []
        for use, claim in self.named():
            allocation, users = claim.status.allocation, [each.name for each in claim.status.reserved_for]
            results = () if allocation is None else allocation.devices.results
            devices = tuple([f"{each.driver}/{each.pool}/{each.device}" for each in results])
            requests = [] if allocation is not None else [*surveys(survey, nodes, claim, class_of)]
            explanations.append(ClaimExplanation(claim.key, use, devices, tuple(users), requests))
        extended = self.extended()
        if extended is not None:
            having = [node for node in nodes if not any(map(node.status.allocatable.get, self.resources))]
            requests = list(surveys(survey, having, extended, class_of))
            classes = self.state.by_resource()
            resources = {classes[name].name: name for name in self.resources}
            explanations.append(ClaimExplanation(EXTENDED, "", requests=requests, resources=resources))
        return explanations

    @cached_property
    def _problems(self) -> dict[tuple[str, str], str]:
        return {problem.pool: problem.text for problem in find_pool_problems(self.published())}

    def pool_problems(self, node: Node) -> list[tuple[str, str]]:
        """Return the pools of a node that cannot be used, and why."""
        problems = self._problems
        return [
            (
                f"{pool.driver}/{pool.name}",
                "slices are missing"
                if pool.is_incomplete
                else problems.get((pool.driver, pool.name), "invalid"),
            )
            for pool in self.state.slices().pools_of(node)
            if pool.is_incomplete or pool.is_invalid
        ]


def surveys(
    survey: DeviceSurvey, nodes: list[Node], claim: ResourceClaim, class_of: ClassOf
) -> Iterator[RequestSurvey]:
    """Yield what the rules of each request of a claim leave, alternatives apart.

    Parameters
    ----------
    class_of : callable
        Returns the device class of a name, or None.
    """
    requests = ClaimRequests.of(claim)
    for alternatives in requests.alternatives:
        for alternative in alternatives:
            yield survey.request(nodes, alternative, class_of(alternative.class_name), requests.constraints)


def with_claims(pod: Pod, uses: Iterable[PodResourceClaim]) -> Pod:
    """Return a pod with other claims."""
    return replace(pod, spec=replace(pod.spec, resource_claims=tuple(uses)))


# ---- claims of a pod that is explained as if it were pending -----------------------------------------------


def released_claims(devices: PodClaims) -> list[ResourceClaim]:
    """Return the claims that only the pod uses, as they were before its scheduling."""
    uid = devices.pod.metadata.uid
    claims = {claim.key: claim for _, claim in devices.named()}
    extended = find_claim(devices.pod, devices.state.claim_cache.extended_claims(devices.pod))
    if extended is not None:
        meta = extended.metadata
        left = {key: value for key, value in meta.annotations.items() if key != EXTENDED_CLAIM}
        claims[extended.key] = replace(extended, metadata=replace(meta, annotations=left))
    return [
        replace(claim, status=ResourceClaimStatus())
        for claim in claims.values()
        if all(consumer.uid == uid for consumer in claim.status.reserved_for)
    ]


def generated_claims(
    client: ObjectClient, pod: Pod, group: PodGroup | None
) -> tuple[Pod, list[ResourceClaim]]:
    """Return the claims that a controller would make for a pod, and the pod with their names in its status.

    Parameters
    ----------
    group : PodGroup or None
        With which the pod may share claims.

    Returns
    -------
    pod : Pod
        The pod itself if it misses no claim, or a template of its claims is missing.
    """
    generated: list[ResourceClaim] = []
    statuses = list(pod.status.resource_claim_statuses)
    known = {status.name for status in statuses}
    for use in pod.spec.resource_claims:
        if use.resource_claim_template_name is None or use.name in known:
            continue
        owner = group if group is not None and use in group.spec.resource_claims else pod
        ready = next(
            (status for status in owner.status.resource_claim_statuses if status.name == use.name), None
        )
        if ready is not None:
            statuses.append(ready)
            continue
        named = use.resource_claim_template_name
        template = find_object(client, ResourceClaimTemplate, named, pod.namespace)
        if template is None:
            return pod, []
        claim = claim_of_template(owner, use, template)
        name = claim.metadata.generate_name.rstrip("-")
        meta = replace(claim.metadata, name=name, uid=f"{owner.key}/{name}", resource_version="0")
        generated.append(replace(claim, metadata=meta))
        statuses.append(PodResourceClaimStatus(use.name, name))
    return replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses))), generated
