"""Answers of the API server to creations and changes: what it refuses, and what it warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import moorage as mo
from tests.doors.kube import SecuredNamespaces, pod_template

Json = dict[str, Any]
_OF_SERVER = ("uid", "resourceVersion", "creationTimestamp")


def is_admission(vector: Json) -> bool:
    """Whether a vector is a request to an API server, and its answer."""
    return {"family", "request", "result"} <= vector.keys()


def check_admission(vector: Json, most: int) -> Iterator[str]:
    """Yield how the answer to a request differs from that of the API server, at most so many differences."""
    yield from islice(_FAMILIES[vector["family"]](vector), most)


# ---- Pod Security ------------------------------------------------------------------------------------------


def _pod_security(vector: Json) -> Iterator[str]:
    request, result = vector["request"], vector["result"]
    given = request["object"]
    if given["kind"] == "PodTemplate":  # not read: its template stands in the place of a workload's
        named = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": given["metadata"]}
        given = named | {"spec": {"template": given["template"]}}
    cluster = mo.load(vector["setup"], given)
    refused = [*(obj.message for obj in cluster.refused_objects), *(pod.message for pod in cluster.refused)]
    if bool(refused) != (result["code"] >= 400):
        yield f"refused: expected {result['message']!r}, got {refused}"
    elif refused and refused != [result["message"]]:
        yield f"message: expected {result['message']!r}, got {refused}"
    if not refused:
        expected = [
            text for text in result["warnings"] if "PodSecurity" in text or given["kind"] == "Namespace"
        ]
        if (warnings := [*_security_warnings(vector, cluster)]) != expected:
            yield f"warnings: expected {expected}, got {warnings}"


def _security_warnings(vector: Json, cluster: mo.Cluster) -> Iterator[str]:
    """Yield what a server warns of: in an object, or in the pods of a namespace with other labels."""
    meta, kind = vector["request"]["object"]["metadata"], vector["request"]["object"]["kind"]
    security = SecuredNamespaces(cluster.namespaces, lambda: "1.36")
    if kind == "Namespace":  # its pods as they were when they were new
        pods = [_as_new(obj) for obj in vector["setup"] if obj["kind"] == "Pod"]
        listed = mo.load(*([pods] if pods else [])).pods
        old = SecuredNamespaces([mo.read_object(vector["request"]["old"])], lambda: "1.36")
        if old.levels(meta["name"]) != security.levels(meta["name"]):
            yield from security.of_existing(meta["name"], [(pod.name, pod) for pod in listed])
        return
    objects: list[Any] = [*cluster.pods, *cluster.others]
    for obj in objects:
        if obj.name == meta["name"] and vector["request"]["verb"] == "create":
            yield from filter(None, [security.warning(obj.namespace, pod_template(obj) or obj)])


def _as_new(obj: Json) -> Json:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_SERVER}
    return obj | {"metadata": meta, "status": {}}


_FAMILIES: dict[str, Callable[[Json], Iterator[str]]] = {"pod_security": _pod_security}
