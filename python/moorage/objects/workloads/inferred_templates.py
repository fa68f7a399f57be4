"""Which templates the pods of a workload had, where a file has the pods and no ReplicaSets or revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from moorage.objects.model.meta import ObjectMeta
from moorage.objects.model.pod import Container, Pod
from moorage.objects.model.workload import PodTemplateSpec

from .deployment_rollout import comparable


def infer_templates(
    pods: Mapping[str, Iterable[Pod]], label: str, template: PodTemplateSpec, known: str = ""
) -> dict[str, PodTemplateSpec]:
    """Return the template of the pods with each hash, the oldest first.

    Parameters
    ----------
    pods : mapping of str to iterable of Pod
        At least one by hash.
    label : str
        The label that has the hash.
    template : PodTemplateSpec
        The template that the workload had when the pods were read.
    known : str
        The hash of this template, where the status of the workload tells it. Otherwise the newest pod is
        taken to have it, if containers, images and resources are the same.

    Returns
    -------
    dict of str to PodTemplateSpec
        Pods of other hashes have the template that they show.
    """
    newest = {suffix: max(each, key=by_creation) for suffix, each in pods.items()}
    found: dict[str, PodTemplateSpec] = {}
    for suffix, pod in sorted(newest.items(), key=lambda item: by_creation(item[1])):
        found[suffix] = _shown(pod, label, suffix)
    last = known or next(reversed(found), "")
    if last in found and (known or _shows(newest[last], template)):
        found[last] = template
    return found


def _shown(pod: Pod, label: str, suffix: str) -> PodTemplateSpec:
    # Other hashes are those of other templates, also if they differ in fields that are not read.
    annotations = pod.metadata.annotations | {label: suffix}
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=annotations)
    return PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name=""))


def by_creation(pod: Pod) -> tuple[str, str]:
    """Return the sort key of pods, the oldest first.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    (str, str)
    """
    return pod.metadata.creation_timestamp or "", pod.name


def _shows(pod: Pod, template: PodTemplateSpec) -> bool:
    """Whether a pod has the containers of a template; admission may have added others."""
    its = {each.name: each for each in pod.spec.containers}
    ours = template.spec.containers
    return all(each.name in its for each in ours) and _parts(ours) == _parts(its[each.name] for each in ours)


def _parts(containers: Iterable[Container]) -> object:
    return comparable([(each.name, each.image, each.resources) for each in containers])
