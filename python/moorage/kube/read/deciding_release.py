"""The release of Kubernetes that decides for a cluster where nobody names one."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.notes import RoutineNote

from ..model.cluster import NOT_TOLD, Cluster, DecidingRelease
from ..model.pod import Pod
from ..releases import DEFAULT, RELEASES, Version, nearest_release, parse_version

COMPONENTS = ("kube-scheduler", "kube-apiserver", "kube-controller-manager")
"""Their pods in kube-system tell the version of a cluster, the first of these before the others."""
ALL_IN_ONE = ("hardened-kubernetes", "hyperkube")
"""Images that have all components (RKE2, RKE): the name of the container says which one runs."""
NAMED = "--kubernetes-version"
NEAREST = "the nearest, {}, decides"
PREVIEW = "Kubernetes {} is decided as its beta {} does, so it may still change (docs/releases.md)."


def deciding_release(cluster: Cluster, named: str | None) -> DecidingRelease:
    """Return the release that decides for a cluster, and warn where it is not its own.

    The cluster's own is that of the image of a component of its control plane, else that of its API server,
    which some archives tell, else that of its newest kubelet.

    Parameters
    ----------
    cluster : Cluster
        Its warnings get one where it is of a release that moorage does not have, and one where a beta
        decides.
    named : str or None
        Value of ``--kubernetes-version``, which comes before all that.
    """
    decides = DecidingRelease(named, NAMED) if named is not None else _own_or_nearest(cluster)
    release = RELEASES[decides.version]
    if release.is_preview:
        cluster.warnings.insert(0, PREVIEW.format(release.version, release.patch))
    return decides


def _own_or_nearest(cluster: Cluster) -> DecidingRelease:
    """Return the release that the input tells."""
    best = next(_stated_versions(cluster), None)
    if best is None:
        return DecidingRelease(DEFAULT, NOT_TOLD)
    version, reason = best
    release, is_its_own = nearest_release(version)
    if not is_its_own:
        name = f"{version.major}.{version.minor}"
        text = f"moorage has no release {name} ({reason}); {NEAREST.format(release.version)}."
        note = RoutineNote(f"{text} {NAMED} chooses another.", f"nearest release to {name}")
        cluster.warnings.insert(0, note)
    return DecidingRelease(release.version, reason)


def _stated_versions(cluster: Cluster) -> Iterator[tuple[Version, str]]:
    """Iterate over what tells the release of a cluster, the best first."""
    planes = [pod for pod in cluster.pods if pod.metadata.namespace == "kube-system"]
    for component in COMPONENTS:
        images = [(*tagged, pod.name) for pod in planes for tagged in _images(pod, component)]
        if images:
            version, image, name = max(images)
            yield version, f"image of pod kube-system/{name}: {image}"
    server = parse_version(cluster.server_version)
    if server is not None:
        yield server, f"version of the API server: {cluster.server_version}"
    versions = [(node.status.node_info.kubelet_version, node.name) for node in cluster.nodes]
    kubelets = [(known, text, name) for text, name in versions if (known := parse_version(text)) is not None]
    if kubelets:
        version, text, name = max(kubelets)
        yield version, f"kubelet of node {name}: {text}"


def _images(pod: Pod, component: str) -> Iterator[tuple[Version, str]]:
    """Iterate over the images of a component in a pod of kube-system that have a version as their tag.

    Elsewhere, such an image is one of a second scheduler.
    """
    for container in pod.spec.containers:
        name, _, tag = container.image.partition("@")[0].rpartition(":")
        version = parse_version(tag)
        its = {name.rpartition("/")[2], container.name if name.rpartition("/")[2] in ALL_IN_ONE else ""}
        if version is not None and component in its:
            yield version, container.image
