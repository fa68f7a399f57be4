"""State shared by the expansion of all workloads: index of pods, used names, new pods."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.errors import InputError
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import Object, ObjectMeta, OwnerReference
from moorage.objects.model.pod import Pod, PodSpec, PodStatus
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import PodTemplateSpec
from moorage.objects.validate.validate_object import MAX_PODS

from .naming import Names, stable_uid
from .ownership import PodIndex

_PENDING = PodStatus(phase="Pending")


def controller_reference(owner: Object) -> tuple[OwnerReference, ...]:
    """The owner references of an object controlled by `owner`.

    Parameters
    ----------
    owner : Object
        The controller.
    """
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return (reference,)


class Expansion:
    """One run of `expand_workloads`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.index = PodIndex(cluster.pods + cluster.finished)
        self.names = Names()
        self.pods: list[Pod] = []
        self.claims: list[PersistentVolumeClaim] = []
        for pod in cluster.pods:
            self.names.take("Pod", pod.namespace, pod.name)

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Check the number of new pods before the first one is made; returns their numbers.

        Parameters
        ----------
        owner : Object
            The workload.
        missing : int
            Number of pods to create; negative numbers are 0.
        path : str
            The field with the number, for errors.

        Returns
        -------
        range

        Raises
        ------
        InputError
            There would be more than `MAX_PODS` pods.
        """
        if len(self.pods) + missing > MAX_PODS:
            message = f"{missing} pods to create would make more than {MAX_PODS} in all"
            raise InputError(message, obj=f"{owner.kind} {owner.key}", path=path)
        return range(missing)


class PodMaker:
    """Makes the pods of one workload from its template."""

    def __init__(self, expansion: Expansion, owner: Object, template: PodTemplateSpec) -> None:
        self._expansion = expansion
        self._owner = owner
        self._references = controller_reference(owner)
        self._labels = template.metadata.labels
        self._annotations = template.metadata.annotations
        self._spec = template.spec

    def make(
        self,
        *,
        name: str = "",
        base: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: PodSpec | None = None,
    ) -> None:
        """Make one pod named `name`, or `base` with a generated suffix; the other arguments extend the
        template.

        A pod whose `name` is taken is not made.

        Parameters
        ----------
        name : str
            The name, or "" to generate one.
        base : str
            Prefix of a generated name.
        labels, annotations : mapping, optional
            In addition to the template's.
        spec : PodSpec, optional
            In place of the template's.
        """
        expansion, namespace = self._expansion, self._owner.namespace
        if not name:
            name = expansion.names.generate("Pod", namespace, base)
        elif not expansion.names.take("Pod", namespace, name):
            return
        meta = ObjectMeta(
            name=name,
            generate_name=base,
            namespace=namespace,
            uid=stable_uid("Pod", namespace, name),
            creation_timestamp=self._owner.metadata.creation_timestamp,
            labels={**self._labels, **labels} if labels else self._labels,
            annotations={**self._annotations, **annotations} if annotations else self._annotations,
            owner_references=self._references,
        )
        expansion.pods.append(Pod(metadata=meta, spec=spec or self._spec, status=_PENDING))
