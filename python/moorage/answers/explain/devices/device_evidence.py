"""What keeps a pod with claims for devices off nodes: requests with too few devices, pools that cannot be
used, claims with devices of other nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.engine.devices.request_survey import CAPACITY, CONSTRAINT, RequestSurvey
from moorage.engine.framework.plugin.evidence import Fact, FindEvidence, Rows
from moorage.engine.framework.plugin.status import Status
from moorage.engine.plugins.dynamic_resources import CANNOT_ALLOCATE, NOT_AVAILABLE
from moorage.errors import first_of
from moorage.kube import Node

from ..probe import Probe
from .claim_explanations import STEP_TEXTS, ClaimExplanation, PodClaims

MOST_NAMED = 3
"""Maximum number of devices of a claim that are named."""


def find_device_evidence(
    probe: Probe, devices: PodClaims, claims: Sequence[ClaimExplanation]
) -> FindEvidence:
    """Return the function that finds the evidence of nodes that DynamicResources rejects.

    Parameters
    ----------
    claims : sequence of ClaimExplanation
        Those of the pod.
    """

    def find(rows: Rows, status: Status) -> Iterator[Fact]:
        for node in probe.nodes(rows):
            for found in sorted(set(_of_node(devices, claims, node, status))):
                kind, name, problem = found
                yield Fact(kind, name, problem, values={"problem": problem})

    return find


def _of_node(
    devices: PodClaims, claims: Sequence[ClaimExplanation], node: Node, status: Status
) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and problem of what keeps the pod off a node."""
    if status.reasons == NOT_AVAILABLE.reasons:
        for claim in claims:
            if claim.devices:
                yield "claim", claim.claim, _allocation_text(claim)
        return
    for name, problem in devices.pool_problems(node):
        yield "pool", name, problem
    lacking = [request for claim in claims for request in lacking_requests(claim, node.name)]
    yield from (("request", *one) for one in lacking)
    if not lacking and status.reasons == CANNOT_ALLOCATE.reasons:
        asking = [claim for claim in claims if claim.requests]
        requests = sum(len(claim.requests) for claim in asking)
        each = (
            "each request alone finds enough devices" if requests > 1 else "each rule leaves enough devices"
        )
        yield "claim", ", ".join(claim.claim for claim in asking), f"{each}; the search finds no set of them"


def _allocation_text(claim: ClaimExplanation) -> str:
    return f"has {first_of(claim.devices, MOST_NAMED)}" + (
        f", used by {', '.join(claim.users)}" if claim.users else ""
    )


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
