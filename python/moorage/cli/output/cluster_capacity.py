"""Output in the form of cluster-capacity (kubernetes-sigs/cluster-capacity, pkg/framework/report.go), for
scripts that read it.

Different is what no two runs of it share: nodes are in list order, and the creation timestamp is that of an
unset time. The line with its version goes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from moorage._core.base.resources import pod_requests
from moorage._version import __version__
from moorage.objects.model.pod import Pod
from moorage.objects.read.write import dump_yaml
from moorage.planning.template_capacity import Capacity

from .printing import ignore_broken_pipe

PRIMARY = ("cpu", "memory")
GPU = "nvdia.com/gpu"
"""A primary resource by the spelling of cluster-capacity, so that no pod requests it."""
UNSET_TIME = "0001-01-01T00:00:00Z"
"""As Go writes a time that is not set."""


def write_compatible(
    form: str, found: Capacity, templates: Sequence[tuple[Pod, int]], limit: int, verbose: bool
) -> None:
    """Print a capacity as cluster-capacity does.

    Parameters
    ----------
    form : {"table", "json", "yaml"}
        Format of the output.
    templates : sequence of (Pod, int)
        As given.
    limit : int
        Value of ``--max-limit``.
    verbose : bool
        Whether ``--verbose`` was given.
    """
    print(f"Cluster capacity version moorage {__version__}", file=sys.stderr)
    pods = [pod for pod, _ in templates]
    with ignore_broken_pipe():
        if form == "table":
            lines = _verbose(found, pods, limit) if verbose else (str(each.count) for each in found.templates)
            print(*(f"{line}\n" for line in lines), sep="", end="")
            return
        review = _review(found, pods, limit)
        print(msgspec.json.encode(review).decode() if form == "json" else dump_yaml(review).rstrip("\n"))


def _stop(found: Capacity, limit: int) -> tuple[str, str]:
    """Return the type and the message of the reason why the count ended."""
    if not found.failed:
        return "LimitReached", f"Maximum number of pods simulated: {limit}"
    return "Unschedulable", found.message


def _scalars(pod: Pod) -> dict[str, int]:
    """Return the requests for resources that are not primary, sorted by name."""
    requests = pod_requests(pod)
    return {name: requests[name].value() for name in sorted(requests) if name not in PRIMARY}


def _verbose(found: Capacity, pods: Sequence[Pod], limit: int) -> Iterator[str]:
    """Yield the lines of ``--verbose``."""
    for pod in pods:
        requests = pod_requests(pod)
        yield f"{pod.name} pod requirements:"
        yield f"\t- CPU: {requests.get('cpu', 0)}"
        yield f"\t- Memory: {requests.get('memory', 0)}"
        if scalars := _scalars(pod):
            yield f"\t- ScalarResources: map[{' '.join(f'{name}:{n}' for name, n in scalars.items())}]"
        if pod.spec.node_selector:
            selector = ",".join(f"{key}={value}" for key, value in sorted(pod.spec.node_selector.items()))
            yield f"\t- NodeSelector: {selector}"
        yield ""
    for pod, each in zip(pods, found.templates, strict=True):
        yield f"The cluster can schedule {each.count} instance(s) of the pod {pod.name}."
    kind, message = _stop(found, limit)
    yield f"\nTermination reason: {kind}: {message}"
    if found.count:
        yield "\nPod distribution among nodes:"
        for pod, each in zip(pods, found.templates, strict=True):
            yield pod.name
            yield from (f"\t- {node}: {n} instance(s)" for node, n in each.nodes.items())


def _review(found: Capacity, pods: Sequence[Pod], limit: int) -> dict[str, Any]:
    """Return the document of ``-o json`` and ``-o yaml``."""
    kind, message = _stop(found, limit)
    results = [
        {
            "podName": pod.name,
            "replicasOnNodes": [{"nodeName": node, "replicas": n} for node, n in each.nodes.items()],
            "failSummary": None,
        }
        for pod, each in zip(pods, found.templates, strict=True)
    ]
    templates = [msgspec.to_builtins(pod) for pod in pods]
    requirements = [_requirements(pod) for pod in pods]
    return {
        "kind": "ClusterCapacityReview",
        "spec": {"templates": templates, "replicas": limit, "podRequirements": requirements},
        "status": {
            "creationTimestamp": UNSET_TIME,
            "replicas": found.count,
            "failReason": {"failType": kind, "failMessage": message},
            "pods": results,
        },
    }


def _requirements(pod: Pod) -> dict[str, Any]:
    requests = pod_requests(pod)
    primary = {name: str(requests.get(name, 0)) for name in PRIMARY} | {GPU: "0"}
    return {
        "podName": pod.name,
        "resources": {"primaryResources": primary, "scalarResources": _scalars(pod) or None},
        "nodeSelectors": pod.spec.node_selector,
    }
