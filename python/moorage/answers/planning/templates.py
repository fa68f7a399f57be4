"""Templates: what is left of a pod when it is asked for more of its kind."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.pod import Pod, PodStatus


def as_template(pod: Pod) -> Pod:
    """Return a pod without what is its own: node, UID, status, and times.

    Parameters
    ----------
    pod : Pod
        A manifest, or a pod of a cluster.
    """
    meta = pod.metadata
    kept = ObjectMeta(
        name=meta.name,
        generate_name=meta.generate_name,
        namespace=meta.namespace or "default",
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=meta.owner_references,
    )
    return replace(pod, metadata=kept, spec=replace(pod.spec, node_name=""), status=PodStatus())
