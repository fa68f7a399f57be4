"""Which resource names count, and the effective requests of a pod.

The arithmetic is upstream's (kube-scheduler v1.36: component-helpers resource.PodRequests, NodeInfo
calculateResource, resource_allocation.go); sums are exact quantities, rounded once at the end.
"""

from moorage._core.quantity import Quantity

DEFAULT_MILLI_CPU = Quantity("100m")
DEFAULT_MEMORY = Quantity("200Mi")
ZERO = Quantity("0")
NON_ZERO = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}


def is_counted(str name):
    """True for ephemeral-storage and scalars: extended, huge pages, kubernetes.io/, attachable volumes."""
    if name == "ephemeral-storage":
        return True
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


def _parsed(resources):
    return {name: Quantity(raw) for name, raw in resources.items()}


def _add(dict total, dict more):
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _maximum(dict total, dict other):
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def _is_infeasible(pod):
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _container_requests(pod, container, status, dict missing):
    """Requests of one container, with a resize in progress counted at its largest."""
    requests = _parsed(container.resources.requests)
    if status is not None and status.resources is not None:
        held = _parsed(status.resources.requests)
        _maximum(held, _parsed(status.allocated_resources))
        if _is_infeasible(pod):
            requests = held
        else:
            _maximum(requests, held)
    for name, quantity in missing.items():
        requests.setdefault(name, quantity)
    return requests


def pod_requests(pod, dict missing=None, bint pod_level=True):
    """Effective requests of a pod by resource name, as quantities.

    max(sum over containers and sidecars, running maximum over init containers), pod-level requests in
    place of that where they are set, plus overhead.

    Parameters
    ----------
    missing : dict, optional
        What a container counts for that does not request the resource.
    pod_level : bool
        Whether spec.resources takes part.
    """
    missing = missing or {}
    statuses = {s.name: s for s in pod.status.container_statuses}
    statuses.update({s.name: s for s in pod.status.init_container_statuses})
    total, sidecars, init = {}, {}, {}
    for container in pod.spec.containers:
        _add(total, _container_requests(pod, container, statuses.get(container.name), missing))
    for container in pod.spec.init_containers:
        is_sidecar = container.restart_policy == "Always"
        status = statuses.get(container.name) if is_sidecar else None
        requests = _container_requests(pod, container, status, missing)
        if is_sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            requests = sidecars
        else:
            _add(requests, sidecars)
        _maximum(init, requests)
    _maximum(total, init)
    if pod_level:
        total.update(pod_level_requests(pod))
    _add(total, _parsed(pod.spec.overhead))
    return total


def pod_level_requests(pod):
    """The requests in spec.resources that may be set for a whole pod: cpu, memory and huge pages."""
    if pod.spec.resources is None:
        return {}
    return {
        name: Quantity(raw)
        for name, raw in pod.spec.resources.requests.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def nonzero_requests(pod, dict requests, bint pod_level=True):
    """What a placed pod adds to NonZeroRequested: containers without a request count 100m and 200Mi; under
    pod-level requests only for a resource that is absent from the whole pod's total."""
    missing = NON_ZERO
    if pod_level and pod_level_requests(pod):
        missing = {name: quantity for name, quantity in NON_ZERO.items() if name not in requests}
    return pod_requests(pod, missing, pod_level) if missing else requests
