"""Reads what scheduling needs of a cluster. Secrets and configuration maps are never read."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Namespace, Node, Object, Pod
from moorage.kube.apiserver.decode import UNREADABLE, Head, decode, decode_as, is_known
from moorage.kube.model.autoscaling import AutoscalerFlags, KarpenterSettings, MachineGroup
from moorage.kube.model.event import FAILED_CREATE, Event
from moorage.kube.model.meta import LAST_APPLIED, resource
from moorage.kube.model.policy import AdmissionPlugins
from moorage.kube.model.workload import ControllerRevision
from moorage.kube.plain import object_to_dict, plain
from moorage.kube.read.object_defaults import decoded_revision
from moorage.kube.read.snapshots import read_server_version
from moorage.kube.workloads.seen_failures import with_failed_creates
from moorage.store.errors import ApiError, ForbiddenError, NotFoundError, ServerError, structs

from .api_client import ApiClient

REQUIRED = (Namespace, Node, Pod)
_NOT_SERVED = AdmissionPlugins, AutoscalerFlags, KarpenterSettings, MachineGroup
"""What a dump has aside, as of objects of other kinds."""


def kinds_of_clusters() -> list[type[Object]]:
    """Return the kinds that scheduling reads: namespaces, nodes, and pods last."""
    others = [
        struct
        for struct in structs()
        if struct not in (*REQUIRED, *_NOT_SERVED) and is_known(struct.__name__, "")
    ]
    return [Namespace, Node, *sorted(others, key=attrgetter("__name__")), Pod]


def server_version(client: ApiClient) -> str:
    """Return the version of a cluster's API server; "" where it does not tell it.

    Returns
    -------
    str
        For example "v1.36.2".
    """
    with suppress(ApiError):
        return asked_version(client)
    return ""


def asked_version(client: ApiClient) -> str:
    """Return the version of a cluster's API server; "" where it refuses to tell it.

    Raises
    ------
    ApiError
        The server did not answer.
    """
    try:
        return read_server_version(b'{"info":' + client.connection.request("GET", "/version") + b"}")
    except (ForbiddenError, NotFoundError):
        return ""


def list_cluster(client: ApiClient, with_metrics: bool = False) -> tuple[list[Object], list[str]]:
    """List the objects of a cluster, kind by kind. Structs have no fields with contents of secrets, such as
    the environment of containers.

    Parameters
    ----------
    with_metrics : bool
        Whether the metrics of pods and nodes are listed too, where a metrics server has them.

    Returns
    -------
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
            objects += map(without_contents, client.list(kind)[0])
        except ForbiddenError:
            if kind in REQUIRED:
                raise
            refused.append(resource(kind))
    try:
        for at, obj in with_failed_creates(objects, _events(client, f"reason={FAILED_CREATE}")):
            objects[at] = obj
    except ForbiddenError:
        refused.append("events")
    objects += events_of_nodes(client)
    if with_metrics:
        from moorage.kube.read.usage_metrics import GROUP_VERSION, KINDS, read_metrics

        for metrics, path in zip(KINDS, ("pods", "nodes"), strict=True):
            try:
                answer = client.connection.request("GET", f"/apis/{GROUP_VERSION}/{path}")
                objects += (
                    read_metrics(item, metrics) for item in decode(answer, Head[msgspec.Raw]).items or ()
                )
            except ForbiddenError:
                refused.append(metrics)
            except (ServerError, NotFoundError):
                pass  # a server without metrics, or whose metrics server does not answer
    warnings = [f"Left out, because the user may not list them: {', '.join(refused)}."] if refused else []
    return objects, warnings


def events_of_nodes(client: ApiClient) -> list[Event]:
    """List the events of nodes; none where the user may not list events.

    Raises
    ------
    ApiError
        The server did not answer.
    """
    with suppress(ForbiddenError):
        return _events(client, f"involvedObject.kind={Node.__name__}")
    return []


def _events(client: ApiClient, selector: str) -> list[Event]:
    """List events by a field selector; none of a server without events."""
    with suppress(NotFoundError):
        listed = client.connection.request("GET", "/api/v1/events", {"fieldSelector": selector})
        return [decode(event, Event) for event in decode(listed, Head[msgspec.Raw]).items or ()]
    return []


def without_contents(obj: Object) -> Object:
    """Leave out what is no field of scheduling in a revision, and in the manifest of an annotation."""
    if isinstance(obj, ControllerRevision):
        obj = replace(obj, data=plain(decoded_revision(obj).data))
    text = obj.metadata.annotations.get(LAST_APPLIED)
    if text is None:
        return obj
    annotations = {key: value for key, value in obj.metadata.annotations.items() if key != LAST_APPLIED}
    with suppress(InputError, *UNREADABLE):
        manifest = object_to_dict(decode_as(text.encode(), type(obj)))
        annotations[LAST_APPLIED] = msgspec.json.encode(manifest).decode()
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))
