"""Rules between the parts of a pod spec (kubernetes v1.36, pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import NoReturn

from msgspec.structs import replace

from moorage._core.base.resources import CONTAINERS_ALONE, pod_requests
from moorage.errors import InputError, shorten

from ..model.meta import QuantityLike, Resources, in_thousandths, is_native, thousandths
from ..model.pod import Container, Pod, PodSpec, ResourceRequirements
from .resource_name_rules import HUGE_PAGES, can_exceed, name_errors

_OVERCOMMITTABLE = ("cpu", "memory")
_OF_PODS = '"cpu", "hugepages-", "memory"'
_quantity = lru_cache(maxsize=4096)(thousandths)  # the specs of a dump differ, but have few quantities


def check_pod_spec(spec: PodSpec) -> None:
    """Check the parts of a pod spec against each other.

    The parts may lack their defaults; quantities are compared as the API server rounds them.

    Parameters
    ----------
    spec : PodSpec
        Each field follows its own rules.

    Raises
    ------
    InputError
        Two parts contradict each other.
    """
    claims, names, ports = _claims(spec), set[str](), set[str]()
    for at, container in enumerate(spec.containers):
        try:
            _check_container(container, claims, names, ports, spec.host_network)
        except InputError as error:
            raise error.located(path=f"containers[{at}]") from None
    for at, container in enumerate(spec.init_containers):
        try:  # they run one by one, and share no ports
            _check_container(container, claims, names, set(), False)
        except InputError as error:
            raise error.located(path=f"initContainers[{at}]") from None
    _check_names("overhead.limits", spec.overhead)  # as the API server writes it
    if spec.resources is not None:
        _check_pod_level(spec, spec.resources)
    spreading: dict[tuple[str, str], int] = {}
    for at, one in enumerate(spec.topology_spread_constraints):
        key = one.topology_key, one.when_unsatisfiable
        if key in spreading:
            path = f"topologySpreadConstraints[{spreading[key]}].{{topologyKey, whenUnsatisfiable}}"
            _duplicate(f"{{{key[0]}, {key[1]}}}", path)
        spreading[key] = at


def _claims(spec: PodSpec) -> Set[str]:
    """Return the names of a pod's claims."""
    names: set[str] = set()
    for at, claim in enumerate(spec.resource_claims):
        if claim.name in names:
            _duplicate(claim.name, f"resourceClaims[{at}].name")
        given = claim.resource_claim_name is not None, claim.resource_claim_template_name is not None
        if given == (False, False):
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            raise InputError(text, path=f"resourceClaims[{at}]")
        if given == (True, True):
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            raise InputError(text, path=f"resourceClaims[{at}]")
        names.add(claim.name)
    return names


def _check_container(
    container: Container, claims: Set[str], names: set[str], ports: set[str], host_network: bool
) -> None:
    """Check a container, and add its name and host ports to those before it."""
    if container.name in names:
        _duplicate(container.name, "name")
    if container.name:
        names.add(container.name)
    for at, port in enumerate(container.ports):
        if port.host_port:
            path, key = f"ports[{at}].hostPort", f"{port.protocol or 'TCP'}/{port.host_ip}/{port.host_port}"
            if key in ports:
                _duplicate(key, path)
            ports.add(key)
            if host_network and port.host_port != port.container_port:
                text = "must match `containerPort` when `hostNetwork` is true"
                raise InputError(f"Invalid value: {port.host_port}: {text}", path=path)
    for at, use in enumerate(container.resources.claims):
        if use.name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            raise InputError(f'Not found: "{use.name}": {text}', path=f"resources.claims[{at}]")
    _check_names("resources.limits", container.resources.limits)
    _check_names("resources.requests", container.resources.requests)
    _check_resources(container.resources)


def _check_names(path: str, amounts: Resources) -> None:
    """Check the names of resources that a container can have."""
    for name in amounts:
        if errors := name_errors(name, "container"):
            raise InputError(
                f'Invalid value: "{shorten(name)}": {errors[-1]}', path=f"{path}[{shorten(name)}]"
            )


def _check_resources(resources: ResourceRequirements) -> None:
    requests, limits = resources.requests, resources.limits
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, raw in amounts.items():
            if not is_native(name) and _quantity(raw).milli_value() % 1000:
                _invalid(raw, "must be an integer", f"resources.{field}[{name}]")
    for name, raw in requests.items():
        if name not in limits:
            if not can_exceed(name):
                text = "Required value: Limit must be set for non overcommitable resources"
                raise InputError(text, path="resources.limits")
        elif (limited := limits[name]) != raw:
            request, limit = _quantity(raw), _quantity(limited)
            if request > limit or (request < limit and not can_exceed(name)):
                relation = "less than or equal" if can_exceed(name) else "equal"
                _invalid(raw, f"must be {relation} to {name} limit of {limit}", "resources.requests")


def _check_pod_level(spec: PodSpec, resources: ResourceRequirements) -> None:
    """Check pod-level resources; requests that they lack are the sums of the containers'."""
    for path, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name in amounts:
            if name not in _OVERCOMMITTABLE and not name.startswith(HUGE_PAGES):
                text = f'Unsupported value: "{shorten(name)}": supported values: {_OF_PODS}'
                raise InputError(text, path=f"resources.{path}[{shorten(name)}]")
    alone = PodSpec(containers=spec.containers, init_containers=spec.init_containers)
    inner = Pod(spec=with_limits_requested(alone))
    total = pod_requests(inner, CONTAINERS_ALONE, resizes=False)
    sums: Resources = {name: str(total[name]) for name in _OVERCOMMITTABLE if name in total}
    own = _with_requests(replace(resources, requests=sums | resources.requests))
    _check_resources(own)
    for name, quantity in total.items():
        if name in own.requests and quantity > _quantity(own.requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {quantity}"
            _invalid(own.requests[name], text, f"resources.requests[{name}]")
    for at, container in enumerate(spec.containers):
        for name, raw in container.resources.limits.items():
            if name in resources.limits and _quantity(raw) > (limit := _quantity(resources.limits[name])):
                path = f"resources.containers[{at}][{name}].limits"  # as the API server writes it
                _invalid(raw, f"must be less than or equal to pod limits of {limit}", path)


def with_limits_requested(spec: PodSpec) -> PodSpec:
    """Return a spec whose containers request their limits of resources that they do not request."""
    containers, init_containers = (
        tuple([replace(container, resources=_with_requests(container.resources)) for container in part])
        for part in (spec.containers, spec.init_containers)
    )
    return replace(spec, containers=containers, init_containers=init_containers)


def _with_requests(resources: ResourceRequirements) -> ResourceRequirements:
    """Default requests to limits, and round them up as the API server does before it adds them."""
    return replace(resources, requests=in_thousandths(resources.limits | resources.requests))


def _invalid(raw: QuantityLike, text: str, path: str) -> NoReturn:
    raise InputError(f'Invalid value: "{_quantity(raw)}": {text}', path=path)


def _duplicate(value: str, path: str) -> NoReturn:
    raise InputError(f'Duplicate value: "{shorten(value)}"', path=path)
