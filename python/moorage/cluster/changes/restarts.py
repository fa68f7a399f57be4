"""Restarts of workloads, as ``kubectl rollout restart`` makes them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moorage.kube.model.workload import DaemonSet, Deployment, StatefulSet
from moorage.kube.workloads.seen_failures import RESTARTED_AT

RESTARTABLE = (DaemonSet, Deployment, StatefulSet)


def restarted(workload: Any) -> Any:
    """Return a workload whose template differs from that of its pods in the annotation of a restart."""
    template = workload.spec.template
    annotations = template.metadata.annotations
    # A time in a real cluster; here a text that depends on the workload alone, and differs from the last one.
    again = f"after {annotations.get(RESTARTED_AT, 'the first rollout')}"
    meta = replace(template.metadata, annotations=annotations | {RESTARTED_AT: again})
    return replace(workload, spec=replace(workload.spec, template=replace(template, metadata=meta)))
