"""What a pod names and is bound by: claims for devices, and its runtime class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from moorage.objects import Container, Pod
from moorage.objects.model.admission_policies import RuntimeClass
from moorage.objects.model.pod import PodResourceClaim

from ..probe import Probe
from .constraint import Constraint, with_containers, without


def claim_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the claims for devices that a pod uses."""
    for use in pod.spec.resource_claims:
        yield Constraint("claim", use.name, partial(_without_claim, dropped=use))


def _without_claim(pod: Pod, dropped: PodResourceClaim) -> Pod:
    """Drop a claim for devices, and the containers' use of it."""

    def changed(container: Container) -> Container:
        claims = tuple(claim for claim in container.resources.claims if claim.name != dropped.name)
        return replace(container, resources=replace(container.resources, claims=claims))

    claims = without(pod.spec.resource_claims, dropped)
    return with_containers(replace(pod, spec=replace(pod.spec, resource_claims=claims)), changed)


def runtime_class_constraints(probe: Probe) -> Iterator[Constraint]:
    """Yield the constraint that the pod's runtime class is: its overhead, and the nodes that it is for."""
    named = probe.runtime_class
    if named is not None:
        yield Constraint("runtime-class", named.name, partial(_without_runtime_class, runtime_class=named))


def _without_runtime_class(pod: Pod, runtime_class: RuntimeClass) -> Pod:
    spec, scheduling = pod.spec, runtime_class.scheduling
    if spec.runtime_class_name != runtime_class.name:
        return pod
    selector, tolerations = spec.node_selector, spec.tolerations
    if scheduling is not None:
        selector = {
            key: value for key, value in (selector or {}).items() if key not in scheduling.node_selector
        }
        tolerations = tuple(each for each in tolerations if each not in scheduling.tolerations)
    fields = {"node_selector": selector, "tolerations": tolerations}
    return replace(pod, spec=replace(spec, runtime_class_name=None, overhead={}, **fields))
