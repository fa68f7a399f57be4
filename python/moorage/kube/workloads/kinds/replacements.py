"""The pods that operators make in place of those that are gone."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.other_workloads import full_kind
from moorage.kube.model.pod import POD_GATED, POD_PENDING, Pod

from ..ownership import FINISHED
from .kind_table import rule_of


def replacement(pod: Pod) -> Pod | None:
    """Return the pod that an operator makes when one of its pods is gone: an equal one.

    Parameters
    ----------
    pod : Pod
        Its last state.

    Returns
    -------
    Pod or None
        Of the same name, or with the prefix of a generated one. None for a pod that has ended by itself, for
        one of a batch workload, and for one whose controller is of no kind in the table of kinds.
    """
    meta = pod.metadata
    owner = meta.controller()
    rule = rule_of(full_kind(owner.kind, owner.api_version)) if owner is not None else None
    if rule is None or rule.why_none is not None or rule.is_batch:
        return None
    if pod.status.phase in FINISHED and meta.deletion_timestamp is None:
        return None
    new = ObjectMeta(
        name="" if meta.generate_name else meta.name,
        generate_name=meta.generate_name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=meta.owner_references,
    )
    status = POD_GATED if pod.spec.scheduling_gates else POD_PENDING
    return Pod(metadata=new, spec=replace(pod.spec, node_name=""), status=status)
