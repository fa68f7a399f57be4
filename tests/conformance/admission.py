"""Answers of the API server to creations and changes: what it refuses, and what it warns of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import moorage as mo
from moorage.errors import InputError
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


# ---- validation --------------------------------------------------------------------------------------------

_REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Not found": "FieldValueNotFound",
}
_FIELD = r"[^\s:,\"]*(?:(?:\[[^\]\"]*\]|\{[^}\"]*\})[^\s:,\"]*)*"
_CAUSE = re.compile(rf"(?:^|: |, )({_FIELD}): ({'|'.join(_REASONS)})")
_CODES = (
    (" is invalid: ", (422, "Invalid")),
    (" is forbidden: ", (403, "Forbidden")),
    (" not found", (404, "NotFound")),
    ("no matches for kind", (404, "NotFound")),
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


_ALWAYS_THERE = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    for name in ("default", "kube-system", "kube-public", "kube-node-lease")
]


def _validation(vector: Json) -> Iterator[str]:
    """Compare whether an object is refused, with which code and reason, and the fields that are wrong."""
    result, refused = vector["result"], _refusals(vector)
    if vector["note"] == "without kind":  # a file has no path that tells the kind
        return
    if bool(refused) != (result["code"] >= 400 or not result["code"]):
        yield f"expected {result['code']} {result.get('message')!r}, got {refused}"
        return
    if not refused or not result["code"]:
        return
    code = next((code for text, code in _CODES if text in refused[0]), (400, "BadRequest"))
    expected = result["code"], result["reason"]
    if code != expected and not {code[0], expected[0]} <= {400, 500}:
        yield f"expected {expected}, got {refused}"
    wanted = {
        (cause.get("reason"), cause["field"]) for cause in result.get("causes") or () if "field" in cause
    }
    if code[0] == expected[0] == 422 and (causes := _causes(refused[0])) != wanted:
        yield f"causes: expected {sorted(wanted)}, got {sorted(causes)}: {refused[0]}"


def _causes(text: str) -> set[tuple[str, str]]:
    """Return reasons and fields of a text with one error, or with several in brackets."""
    listed = text.partition(" is invalid: ")[2].removeprefix("[")
    return {(_REASONS[what], field) for field, what in _CAUSE.findall(listed)}


def _refusals(vector: Json) -> list[str]:
    """Return why a request is refused, nothing if it is not."""
    request, setup = vector["request"], [*_ALWAYS_THERE, *vector["setup"]]
    given: Any = request["object"]
    if request["verb"] == "update":  # the whole object: as if it had been applied before
        given = _as_manifest(given)
        setup = [_as_applied(obj) if _name(obj) == _name(given) else obj for obj in setup]
    mode = request.get("fieldValidation", "Strict").lower()
    try:
        cluster = mo.load(setup, request.get("raw", given), validate=mode)
    except InputError as error:
        return [str(error)]
    return [*(obj.message for obj in cluster.refused_objects), *(pod.message for pod in cluster.refused)]


def _name(obj: Json) -> tuple[str, ...]:
    meta = obj.get("metadata") or {}
    return obj.get("kind", ""), meta.get("namespace", ""), meta.get("name", "")


def _as_manifest(obj: Json) -> Json:
    """Return an object without what a server sets."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_SERVER}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": meta}


def _as_applied(obj: Json) -> Json:
    """Return an object of a server with the note that all its fields were applied."""
    meta, text = obj["metadata"], json.dumps(_as_manifest(obj))
    return obj | {"metadata": meta | {"annotations": meta.get("annotations", {}) | {_LAST_APPLIED: text}}}


_FAMILIES: dict[str, Callable[[Json], Iterator[str]]] = {
    "pod_security": _pod_security,
    "validate": _validation,
    "update": _validation,
}
