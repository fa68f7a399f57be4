"""The release of Kubernetes that decides where ``--kubernetes-version`` names none."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from moorage.kube import Cluster, Pod
from moorage.kube.model.cluster import DecidingRelease
from moorage.kube.releases import DEFAULT, Version, nearest_release, parse_version
from moorage.kube.workloads.input_facts import input_facts
from moorage.kube.workloads.ownership import Workload

from ..messages import FACT, note, print_warnings

COMPONENTS = ("kube-scheduler", "kube-apiserver", "kube-controller-manager")
"""Their pods in kube-system tell the version of a cluster, the first of these before the others."""
ALL_IN_ONE = ("hardened-kubernetes", "hyperkube")
"""Images that have all components (RKE2, RKE): the name of the container says which one runs."""
NAMED = "--kubernetes-version"
MOST_FACTS = 12
NEAREST = "the nearest, {}, decides"
NOT_TOLD = "the input does not say its release"


def deciding_release(cluster: Cluster, named: str | None) -> DecidingRelease:
    """Return the release that decides for a cluster, and warn where it is not its own.

    The cluster's own is that of the image of a component of its control plane, else that of its API server,
    which some archives tell, else that of its newest kubelet.

    Parameters
    ----------
    cluster : Cluster
        Its warnings get one where it is of a release that moorage does not have.
    named : str or None
        Value of ``--kubernetes-version``, which comes before all that.
    """
    if named is not None:
        return DecidingRelease(named, NAMED)
    found = next(_told(cluster), None)
    if found is None:
        return DecidingRelease(DEFAULT, NOT_TOLD)
    version, reason = found
    release, is_its_own = nearest_release(version)
    if not is_its_own:
        cluster.warnings.insert(
            0,
            f"moorage has no release {version.major}.{version.minor} ({reason}); "
            f"{NEAREST.format(release.version)}. {NAMED} chooses another.",
        )
    return DecidingRelease(release.version, reason)


def _told(cluster: Cluster) -> Iterator[tuple[Version, str]]:
    """Iterate over what tells the release of a cluster, the best first."""
    for component in COMPONENTS:
        images = [(*tagged, pod.name) for pod in cluster.pods for tagged in _images(pod, component)]
        if images:
            version, image, name = max(images)
            yield version, f"image of pod kube-system/{name}: {image}"
    server = parse_version(cluster.server_version)
    if server is not None:
        yield server, f"version of the API server: {cluster.server_version}"
    told = [(node.status.node_info.kubelet_version, node.name) for node in cluster.nodes]
    kubelets = [(known, text, name) for text, name in told if (known := parse_version(text)) is not None]
    if kubelets:
        version, text, name = max(kubelets)
        yield version, f"kubelet of node {name}: {text}"


def _images(pod: Pod, component: str) -> Iterator[tuple[Version, str]]:
    """Iterate over the images of a component in a pod of the control plane that have a version as their tag.

    Elsewhere than in kube-system, such an image is one of a second scheduler.
    """
    for container in pod.spec.containers if pod.namespace == "kube-system" else ():
        name, _, tag = container.image.partition("@")[0].rpartition(":")
        version = parse_version(tag)
        its = {name.rpartition("/")[2], container.name if name.rpartition("/")[2] in ALL_IN_ONE else ""}
        if version is not None and component in its:
            yield version, container.image


def facts_of(cluster: Cluster, about: Container[Workload] | None = None) -> list[str]:
    """Return what the objects of an input say of themselves, at most `MOST_FACTS` sentences.

    Parameters
    ----------
    about : container of Workload, optional
        The workloads that an answer is about; nodes are always told.
    """
    found = [
        one for one in input_facts(cluster) if about is None or one.workload is None or one.workload in about
    ]
    texts = [one.text for one in found]
    more = len(texts) - MOST_FACTS
    return texts if more <= 1 else [*texts[:MOST_FACTS], f"{more} more facts of this kind"]


def print_notes(
    warnings: Iterable[str],
    *clusters: Cluster,
    facts: Iterable[str] = (),
    is_asked: bool = False,
) -> None:
    """Say what the input says of itself; which release decides for each cluster and why, if the input has
    told it and no warning says so; and the warnings of a command.

    Parameters
    ----------
    facts : iterable of str, optional
        See `facts_of`.
    is_asked : bool, optional
        Whether the question is about releases, so that the default is told as well.
    """
    for fact in facts:
        note(FACT, fact)
    told = " ".join(text for cluster in clusters for text in cluster.warnings)
    for release in dict.fromkeys(cluster.release for cluster in clusters):
        if release is None or release.reason == NAMED or NEAREST.format(release.version) in told:
            continue
        if release.reason != NOT_TOLD:
            note("release", f"Kubernetes {release.version} decides ({release.reason})")
        elif is_asked:
            hint = f"{NAMED} chooses another"
            note("release", f"Kubernetes {release.version} decides ({NOT_TOLD}; {hint})")
    print_warnings(warnings)
