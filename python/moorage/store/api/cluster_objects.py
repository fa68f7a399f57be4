"""Reads what scheduling needs of a cluster. Secrets and configuration maps are never read."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.objects import Namespace, Node, Object, Pod
from moorage.objects.model.workload import ControllerRevision
from moorage.objects.plain import plain
from moorage.objects.read.decode import is_known
from moorage.objects.read.object_defaults import decoded_revision
from moorage.store.errors import ForbiddenError
from moorage.store.kinds import resource, structs

from .api_client import ApiClient

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
REQUIRED = (Namespace, Node, Pod)


def kinds_of_clusters() -> list[type[Object]]:
    """Return the kinds that scheduling reads: namespaces, nodes, and pods last.

    Returns
    -------
    list of type
    """
    others = [one for one in structs() if one not in REQUIRED and is_known(one.__name__, "")]
    return [Namespace, Node, *sorted(others, key=lambda one: one.__name__), Pod]


def list_cluster(client: ApiClient) -> tuple[list[Object], list[str]]:
    """List the objects of a cluster, kind by kind. Structs have no fields with contents of secrets, such as
    the environment of containers.

    Parameters
    ----------
    client : ApiClient

    Returns
    -------
    objects : list of Object
    warnings : list of str
        One for the kinds that the user may not list.

    Raises
    ------
    ForbiddenError
        The user may not list namespaces, nodes or pods.
    ApiError
    """
    objects: list[Object] = []
    refused: list[str] = []
    for kind in kinds_of_clusters():
        try:
            objects += map(_without_contents, client.list(kind)[0])
        except ForbiddenError:
            if kind in REQUIRED:
                raise
            refused.append(resource(kind))
    warnings = [f"Left out, because the user may not list them: {', '.join(refused)}."] if refused else []
    return objects, warnings


def _without_contents(obj: Object) -> Object:
    """Leave out the manifest that an annotation repeats, and what is no field of scheduling in a revision."""
    if isinstance(obj, ControllerRevision):
        obj = replace(obj, data=plain(decoded_revision(obj).data))
    annotations = obj.metadata.annotations
    if LAST_APPLIED not in annotations:
        return obj
    others = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return replace(obj, metadata=replace(obj.metadata, annotations=others))
