"""Of which template a pod was made, and what its controller makes in its place."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..model.meta import Object
from ..model.node import REGION, ZONE
from ..model.pod import Pod
from ..model.workload import (
    ControllerRevision,
    DaemonSet,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from .daemon_pods import node_of, pinned_spec
from .jobs.indexes import INDEX
from .missing_pods import daemon_spec, new_pod
from .ownership import HASH_LABEL, refers_to
from .pod_claims import with_claims
from .revisions import REVISION_LABEL, Revisioned, mark_of, template_of
from .stateful_pods import by_ordinal

MAKERS: tuple[type[Object], ...] = (ReplicaSet, ReplicationController, *Revisioned.__args__, Job)
SET_LATER = frozenset({REGION, ZONE})
"""Labels that a pod gets from its node when it is bound."""
BY_CONTROLLERS = SET_LATER | {
    *(HASH_LABEL, REVISION_LABEL, INDEX, "pod-template-generation", "rollouts-pod-template-hash"),
    *("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"),
}
"""Labels that no template gives a pod, and no webhook."""


class MadeOf:
    """Finds the templates of pods.

    Parameters
    ----------
    objects : iterable of Object
        With the controllers of pods (`MAKERS`), and the ControllerRevisions.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        objects = list(objects)
        self._owners = {(obj.kind, obj.key): obj for obj in objects if isinstance(obj, MAKERS)}
        self._revisions: dict[tuple[str, str, str], ControllerRevision] = {}
        for obj in objects:
            if isinstance(obj, ControllerRevision) and isinstance(owner := self._owner_of(obj), Revisioned):
                self._revisions[owner.kind, owner.key, mark_of(owner, obj)] = obj

    def pod_like(self, pod: Pod) -> Pod | None:
        """Return the pod that its controller makes in place of one, before admission.

        Returns
        -------
        Pod or None
            Of the same revision, without a name. None if the template is not known.
        """
        owner = self._owner_of(pod)
        template = None if owner is None else self._template(owner, pod)
        if owner is None or template is None:
            return None
        spec = template.spec
        if isinstance(owner, DaemonSet):
            of_template = replace(owner, spec=replace(owner.spec, template=template))
            spec = pinned_spec(daemon_spec(of_template), node_of(pod.spec))
        elif isinstance(owner, StatefulSet):
            for ordinal in by_ordinal(owner, [pod]):
                spec = with_claims(owner, ordinal, spec)
        given = BY_CONTROLLERS - SET_LATER
        labels = {name: value for name, value in pod.metadata.labels.items() if name in given}
        return new_pod(owner, template, marks=(labels, {}), spec=spec)

    def _owner_of(self, obj: Object) -> Object | None:
        reference = obj.metadata.controller()
        if reference is None:
            return None
        owner = self._owners.get((reference.kind, f"{obj.namespace}/{reference.name}"))
        return owner if owner is not None and refers_to(reference, owner) else None

    def _template(self, owner: Object, pod: Pod) -> PodTemplateSpec | None:
        mark = pod.metadata.labels.get(REVISION_LABEL)
        if isinstance(owner, Revisioned) and mark is not None:
            revision = self._revisions.get((owner.kind, owner.key, mark))
            return None if revision is None else template_of(revision)
        assert isinstance(owner, ReplicaSet | ReplicationController | Revisioned | Job)
        return owner.spec.template
