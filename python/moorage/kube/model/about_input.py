"""What documents say about the input of a command."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from moorage.document import Document

from .cluster import Cluster, DecidingRelease, LeftOutWorkload, NotAsked, RefusedObject
from .new_pods import NewPodsDocument


class AboutInput(Document, frozen=True):
    """What the document of an answer says about the input."""

    release: DecidingRelease
    """The release of Kubernetes that decides, and what told it."""
    new_pods: list[NewPodsDocument]
    """Workloads whose new pods differ from their templates, since running pods do, or a VerticalPodAutoscaler
    recommends it."""
    left_out: list[LeftOutWorkload]
    """Workloads whose pods are not made, as their kind is not simulated."""
    warnings: list[str]
    """Warnings about the input and the run, a sentence each."""
    refused: list[RefusedObject] | UnsetType = UNSET
    """Objects of the change that the API server would refuse, with the file and the text of the server; the
    answer is without them."""
    not_asked: list[NotAsked] | UnsetType = UNSET
    """Webhooks that fail closed, and policies of Kyverno and Gatekeeper, that decide about the change or its
    pods: only the command with each has their answer."""


def about_input(cluster: Cluster, warnings: Iterable[str], not_asked: Iterable[NotAsked] = ()) -> AboutInput:
    """Return what documents say about the input of a command.

    Parameters
    ----------
    cluster : Cluster
        With the release that decides.
    warnings : iterable of str
        All that the command prints.
    """
    assert cluster.release is not None
    return AboutInput(
        cluster.release,
        [] if cluster.siblings is None else cluster.siblings.documents(),
        [obj.document() for obj in cluster.left_out],
        [*map(str, warnings)],
        cluster.refused_of_change or UNSET,
        [*not_asked] or UNSET,
    )
