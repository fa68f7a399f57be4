"""Which resource names count, and the effective requests of a pod.

The arithmetic is upstream's (kube-scheduler v1.36: component-helpers resource.PodRequests, NodeInfo
calculateResource, resource_allocation.go); sums are exact quantities, rounded once at the end.
"""

from collections import namedtuple

from moorage._core.base.quantity import Quantity

PodGates = namedtuple(
    "PodGates", "pod_level_resources pod_level_resizing comparison_operators",
    defaults=(True, True, False), module=__name__,
)

DEFAULT_MILLI_CPU = Quantity("100m")
DEFAULT_MEMORY = Quantity("200Mi")
ZERO = Quantity("0")
NON_ZERO = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}


def is_counted(str name not None):
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


def _resized(pod, dict requests, dict actuated, dict allocated):
    """The largest of what is asked for, unless it cannot be, in use, and allocated."""
    held = _parsed(actuated)
    _maximum(held, _parsed(allocated))
    if not _is_infeasible(pod):
        _maximum(held, requests)
    return held


def _container_requests(pod, container, status, dict missing):
    """Requests of one container; with its status, a resize in progress counted at its largest."""
    requests = _parsed(container.resources.requests)
    if status is not None and status.resources is not None:
        requests = _resized(pod, requests, status.resources.requests, status.allocated_resources)
    for name, quantity in missing.items():
        requests.setdefault(name, quantity)
    return requests


def pod_requests(pod, dict missing=None, bint pod_level=True, bint resizes=True, bint pod_resizes=True):
    """Effective requests of a pod by resource name, as quantities.

    max(sum over containers and sidecars, running maximum over init containers), pod-level requests in
    place of that where they are set, plus overhead.

    Parameters
    ----------
    missing : dict, optional
        What a container counts for that does not request the resource.
    pod_level : bool
        Whether spec.resources takes part.
    resizes : bool
        Whether resizes in progress take part, as the status has them; not in what must be free for a waiting
        pod (fit.go, computePodResourceRequest).
    pod_resizes : bool
        Those of the whole pod too (the feature gate InPlacePodLevelResourcesVerticalScaling).
    """
    missing = missing or {}
    statuses = {}
    if resizes:
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
        total.update(pod_level_requests(pod, resizes and pod_resizes))
    _add(total, _parsed(pod.spec.overhead))
    return total


def pod_level_requests(pod, bint resizes=False):
    """The requests in spec.resources that may be set for a whole pod: cpu, memory and huge pages; with
    `resizes`, one in progress counted at its largest."""
    if pod.spec.resources is None:
        return {}
    requests = _of_pod_level(_parsed(pod.spec.resources.requests))
    resources, allocated = pod.status.resources, pod.status.allocated_resources
    if not resizes or not requests or (resources is None and not allocated):
        return requests
    return _of_pod_level(_resized(pod, requests, {} if resources is None else resources.requests, allocated))


def _of_pod_level(dict requests):
    return {
        name: amount for name, amount in requests.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def nonzero_requests(pod, dict requests not None, bint pod_level=True, bint pod_resizes=True):
    """What a placed pod adds to NonZeroRequested: containers without a request count 100m and 200Mi; under
    pod-level requests only for a resource that is absent from the whole pod's total."""
    missing = NON_ZERO
    if pod_level and pod_level_requests(pod):
        missing = {name: quantity for name, quantity in NON_ZERO.items() if name not in requests}
    return pod_requests(pod, missing, pod_level, True, pod_resizes) if missing else requests
