"""Reads what scheduling needs of a cluster. Secrets and configuration maps are never read."""

from __future__ import annotations

from moorage.objects import Namespace, Node, Object, Pod
from moorage.objects.read.decode import is_known
from moorage.store.errors import ForbiddenError
from moorage.store.kinds import resource, structs

from .api_client import ApiClient

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
            objects += client.list(kind)[0]
        except ForbiddenError:
            if kind in REQUIRED:
                raise
            refused.append(resource(kind))
    warnings = [f"Left out, because the user may not list them: {', '.join(refused)}."] if refused else []
    return objects, warnings
