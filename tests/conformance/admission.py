"""Answers of the API server to creations and changes: what it refuses, and what it warns of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import moorage as mo
from moorage.errors import InputError
from tests.doors.kube import (
    Admission,
    AdmissionRequest,
    SecuredNamespaces,
    StoredObjects,
    joined,
    pod_template,
    strategy_warnings,
    with_version_defaults,
    without_admission,
)

from .clusters.pod_subresources import subresource_causes

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
    cluster = mo.load(vector["setup"], given, refused="ignore")
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
        if (
            obj.kind != _ACCOUNT["kind"]
            and obj.name == meta.get("name", obj.name)
            and vector["request"]["verb"] == "create"
        ):
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
    ("Operation cannot be fulfilled on ", (409, "Conflict")),
    (" not found", (404, "NotFound")),
    ("no matches for kind", (404, "NotFound")),
)
_STALE = re.compile(r'metadata\.(uid|resourceVersion) = "?([^"]+)"?')
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
    fields = {cause.get("reason") for cause in result.get("causes") or ()}
    if result.get("reason") == "AlreadyExists" or "FieldManagerConflict" in fields:
        return  # a file is applied, by whoever has applied it before
    if bool(refused) != (result["code"] >= 400 or not result["code"]):
        yield f"expected {result['code']} {result.get('message')!r}, got {refused}"
        return
    if not refused or not result["code"]:
        return
    if "no matches for kind" in refused[0]:  # kubectl says so itself, before it sends anything
        return
    code = _code(refused[0])
    expected = result["code"], result["reason"]
    if code != expected and not {code[0], expected[0]} <= {400, 500}:
        yield f"expected {expected}, got {refused}"
    wanted = {
        (cause.get("reason"), cause["field"]) for cause in result.get("causes") or () if "field" in cause
    }
    if code[0] == expected[0] == 422 and (causes := _causes(refused[0])) != wanted:
        yield f"causes: expected {sorted(wanted)}, got {sorted(causes)}: {refused[0]}"


_PLACE = re.compile(r"\[[^\]]*\]")
_TEMPLATE = re.compile(r"(?:spec\.jobTemplate\.)?(?:spec\.)?template\.(?=spec|metadata|labels|annotations)")


def wrong_rules(vector: Json) -> Iterator[str]:
    """Yield each rule by which the answer to a creation is not that of the API server.

    Yields
    ------
    str
        What moorage does (``accepts`` and ``refuses`` the object against the server, or ``lacks`` and
        ``adds`` a cause), the kind, the field without places in lists, and the reason. A field of a pod is
        the same in all kinds with templates.
    """
    result, refused = vector["result"], _refusals(vector)
    is_refused = not 0 < result["code"] < 400
    given = {(cause.get("reason", ""), cause.get("field", "")) for cause in result.get("causes") or ()}
    if is_refused and not given:
        given = {_undecoded(result["code"], result.get("message", ""))}
    texts = {cause for text in refused for cause in _causes(text) or {_undecoded(_code(text)[0], text)}}
    codes = result["code"], _code(refused[0])[0] if refused else 0
    if is_refused and refused and codes[0] != codes[1]:
        yield f"answers {vector['request']['object'].get('kind')} {codes[1]} instead of {codes[0]}"
        return
    which = ("lacks", "adds") if refused and is_refused else ("accepts", "refuses")
    for word, causes in zip(which, (given - texts, texts - given), strict=True):
        for reason, field in sorted(causes):
            of_pod = _TEMPLATE.sub("", field, count=1)
            kind = vector["request"]["object"].get("kind") if of_pod == field else "Pod"
            yield f"{word} {kind} {_PLACE.sub('[]', of_pod)} {reason}"


def _undecoded(code: int, text: str) -> tuple[str, str]:
    """Return a refusal without causes as if it had one: the code, and the unknown field, or the end of the
    text without values."""
    if unknown := re.search(r'unknown field "([^"]*)"', text):
        return "unknown", unknown[1]
    return str(code), re.sub(r'"[^"]*"|`[^`]*`|number [-0-9.e+]+', "…", text)[-100:]


def _code(text: str) -> tuple[int, str]:
    return next((code for part, code in _CODES if part in text), (400, "BadRequest"))


def _causes(text: str) -> set[tuple[str, str]]:
    """Return reasons and fields of a text with one error, or with several in brackets."""
    listed = text.partition(" is invalid: ")[2].removeprefix("[")
    return {(_REASONS[what], field) for field, what in _CAUSE.findall(listed)}


def _refusals(vector: Json) -> list[str]:
    """Return why a request is refused, nothing if it is not."""
    request, setup = vector["request"], [*_ALWAYS_THERE, *vector["setup"]]
    given: Any = request["object"]
    if part := request.get("subresource"):  # no file can ask for one
        causes = subresource_causes(request["old"], given, part)
        head = f'Pod "{given["metadata"]["name"]}" is invalid: '
        return [f"{head}[{', '.join(': '.join(cause) for cause in causes)}]"] if causes else []
    if request["verb"] == "update":  # the whole object: as if it had been applied before
        given = _as_manifest(given)
        if (stale := _STALE.fullmatch(vector["note"])) is not None:  # the request shows what is stored
            own = {name: request["old"]["metadata"][name] for name in ("uid", "resourceVersion")}
            given["metadata"] |= own | {stale[1]: stale[2]}
        setup = [as_applied(obj) if names(obj) == names(given) else obj for obj in setup]
    mode = request.get("fieldValidation", "Strict").lower()
    try:
        cluster = mo.load(setup, request.get("raw", given), validate=mode, refused="ignore")
    except InputError as error:
        return [str(error)]
    return [*(obj.message for obj in cluster.refused_objects), *(pod.message for pod in cluster.refused)]


def names(obj: Json) -> tuple[str, ...]:
    """Return kind, namespace and name of an object."""
    meta = obj.get("metadata") or {}
    return obj.get("kind", ""), meta.get("namespace", ""), meta.get("name", "")


def _as_manifest(obj: Json) -> Json:
    """Return an object without what a server sets."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_SERVER}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": meta}


def as_applied(obj: Json) -> Json:
    """Return an object of a server with the note that all its fields were applied."""
    meta, text = obj["metadata"], json.dumps(_as_manifest(obj))
    return obj | {"metadata": meta | {"annotations": meta.get("annotations", {}) | {_LAST_APPLIED: text}}}


# ---- plugins -----------------------------------------------------------------------------------------------

_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount"}
_MADE_UP_TIME = "2026-11-01T00:00:00Z"
_RANDOM = (
    ("GENERATED", r"[bcdfghjklmnpqrstvwxz2456789]{5}"),
    ("kube-api-access-00000", r"kube-api-access-\w+"),
)


def _plugins(vector: Json) -> Iterator[str]:
    """Compare the whole answer: the text of a refusal, or the warnings and the object as it is stored."""
    result, given, setup = vector["result"], vector["request"]["object"], _with_accounts(vector["setup"])
    try:
        cluster = mo.load(setup, given, refused="ignore")
    except InputError as error:
        yield f"expected {result['code']} {result['message']!r}, got an error: {error}"
        return
    refused = [*(obj.message for obj in cluster.refused_objects), *(pod.message for pod in cluster.refused)]
    if bool(refused) != (result["code"] >= 400):
        yield f"expected {result['code']} {result['message']!r}, got {refused}"
    elif refused:
        yield from _refusal_differences(vector, refused[0])
    else:
        yield from _stored_differences(cluster, given, result)


def _policies(vector: Json) -> Iterator[str]:
    """Compare as for plugins; and, of what a policy denies, the code, the reason and the causes."""
    request, result = vector["request"], vector["result"]
    given, setup = request["object"], _with_accounts([*vector["setup"], _CERTIFICATE])
    if request["verb"] == "update":
        given = _as_manifest(given)
        setup = [as_applied(obj) if names(obj) == names(given) else obj for obj in setup]
    cluster = mo.load(setup, given, refused="ignore")
    refused = [*(obj.message for obj in cluster.refused_objects), *(pod.message for pod in cluster.refused)]
    if bool(refused) != (result["code"] >= 400 or not result["code"]):
        yield f"expected {result['code']} {result['message']!r}, got {refused}"
    elif not refused:
        yield from _mutated_differences(cluster, given, result)
    elif refused[0].partition(_ERROR)[0] != result["message"].partition(_ERROR)[0]:
        yield f"message: expected {result['message']!r}, got {refused[0]!r}"
    elif _DENIED in refused[0]:
        yield from _denial_differences(setup, given, result)


_DENIED, _ERROR = "denied request: ", " resulted in error: "
_CERTIFICATE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kube-root-ca.crt", "namespace": "default", "uid": "ca", "resourceVersion": "1"},
}


def _denial_differences(setup: list[Json], given: Json, result: Json) -> Iterator[str]:
    """Compare code, reason and causes of what the chain answers to a creation or an update."""
    try:
        cluster, new = mo.load(setup), mo.read_object(given)
    except InputError:  # a kind that is not read
        return
    others: list[Any] = [*cluster.others, *cluster.namespaces]
    old = next((obj for obj in others if _name_of(obj) == _name_of(new)), None)
    operation: Any = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(new, operation, old, document=given)
    refusal = Admission(others, lambda _: ()).answer(request).refusal
    expected = (
        result["code"],
        result["reason"],
        [(cause.get("reason", ""), cause.get("field", "")) for cause in result["causes"]],
    )
    causes = [] if refusal is None else [(cause.reason, cause.field) for cause in refusal.causes]
    told = None if refusal is None else (refusal.code, refusal.reason, causes)
    if told != expected:
        yield f"expected {expected}, got {told}"


def _name_of(obj: Any) -> tuple[str, str, str]:
    return obj.kind, obj.namespace, obj.name


def _mutated_differences(cluster: mo.Cluster, given: Json, result: Json) -> Iterator[str]:
    """Compare warnings of policies, and the object that policies may have changed."""
    warned = [text for text in result["warnings"] if text.startswith("Validation failed")]
    texts = [text for text in cluster.warnings if "Validation failed" in text]
    if len(warned) != len(texts) or any(text not in shown for text, shown in zip(warned, texts, strict=True)):
        yield f"warnings: expected {warned}, got {texts}"
    lists: list[list[Any]] = [cluster.pods, cluster.nodes, cluster.namespaces, cluster.others]
    own = [obj for listed in lists for obj in listed if obj.kind == given["kind"] and _is_given(obj, given)]
    if not own:  # a kind that is not read
        return
    obj, document = own[-1], joined(without_admission(own[-1]), given)
    if isinstance(obj, mo.Pod):
        document = given | {"spec": json.loads(str(obj.unread or "{}"))}
    value = StoredObjects(cluster.others).value(obj, document)
    value["metadata"] = {key: item for key, item in value["metadata"].items() if key not in _OF_SERVER}
    value["metadata"].get("annotations", {}).pop(_LAST_APPLIED, None)
    yield from _value_differences(_without_empty(result["object"]), _without_empty(value), "")


def _with_accounts(setup: list[Json]) -> list[Json]:
    """Return the objects that exist, also those that are not listed: they are in each cluster."""
    listed = [*_ALWAYS_THERE, *setup]
    spaces = [obj["metadata"]["name"] for obj in listed if obj["kind"] == "Namespace"]
    meta = {"name": "default", "resourceVersion": "1"}
    there = {(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in listed}
    return [
        *listed,
        *(
            _ACCOUNT | {"metadata": meta | {"namespace": name, "uid": f"{name}-default"}}
            for name in spaces
            if ("ServiceAccount", name, "default") not in there
        ),
    ]


def _refusal_differences(vector: Json, text: str) -> Iterator[str]:
    result = vector["result"]
    expected, code = result["message"], _code(text)
    if code != (result["code"], result["reason"]):
        yield f"expected {result['code']} {result['reason']}, got {text}"
    if result["code"] == 404 and "no matches for kind" in text:  # a reader without a server names the kind
        return
    wanted = {(cause["reason"], cause["field"]) for cause in result["causes"] if "field" in cause}
    if code[0] == 422 and (causes := _causes(text)) != wanted:
        yield f"causes: expected {sorted(wanted)}, got {sorted(causes)}: {text}"
    # The order of errors that come from a map is chance.
    same = re.compile(_with_random(re.escape(_sorted_texts(expected))))
    if not same.fullmatch(_sorted_texts(text)):
        yield f"message: expected {expected!r}, got {text!r}"


def _sorted_texts(text: str) -> str:
    """Return a text with the errors that it lists in brackets sorted."""
    head, bracket, rest = text.partition(": [")
    return head + bracket + ", ".join(sorted(rest.removesuffix("]").split(", ")))


def _with_random(pattern: str) -> str:
    for word, form in _RANDOM:
        pattern = pattern.replace(re.escape(word), form)
    return pattern


def _stored_differences(cluster: mo.Cluster, given: Json, result: Json) -> Iterator[str]:
    lists: list[list[Any]] = [cluster.pods, cluster.nodes, cluster.namespaces, cluster.others]
    own = [obj for listed in lists for obj in listed if obj.kind == given["kind"] and _is_given(obj, given)]
    if not own:  # a kind that is not read
        return
    value = StoredObjects([*cluster.others, *cluster.nodes]).value(own[-1], given)
    sent = with_version_defaults(given, given["kind"], given["apiVersion"])
    if (warnings := [*strategy_warnings(sent)]) != result["warnings"]:
        yield f"warnings: expected {result['warnings']}, got {warnings}"
    yield from _value_differences(_without_empty(result["object"]), _without_empty(value), "")


def _is_given(obj: Any, given: Json) -> bool:
    meta = given["metadata"]
    name, prefix = meta.get("name"), meta.get("generateName")
    return obj.name == name if name else obj.metadata.generate_name == prefix


def _without_empty(value: Any) -> Any:
    """Return a value without the fields that are empty: a server writes some of them."""
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _value_differences(expected: Any, value: Any, path: str) -> Iterator[str]:
    """Yield where values differ; what a server chooses may be absent."""
    if isinstance(expected, dict) and isinstance(value, dict):
        for key in sorted(expected.keys() | value.keys()):
            yield from _value_differences(expected.get(key), value.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(value, list) and len(expected) == len(value):
        for at, pair in enumerate(zip(expected, value, strict=True)):
            yield from _value_differences(*pair, f"{path}[{at}]")
    elif value is None and expected in ("ALLOCATED", ["ALLOCATED"], _MADE_UP_TIME, 0):
        return
    elif isinstance(expected, str) and isinstance(value, str):
        if expected != "UID" and not re.fullmatch(_with_random(re.escape(expected)), value):
            yield f"object{path}: expected {expected!r}, got {value!r}"
    elif path not in _OF_OBJECTS and (expected != value or type(expected) is not type(value)):
        yield f"object{path}: expected {expected!r}, got {value!r}"


_OF_OBJECTS = (".metadata.uid", ".metadata.generation")


_FAMILIES: dict[str, Callable[[Json], Iterator[str]]] = {
    "pod_security": _pod_security,
    "validate": _validation,
    "update": _validation,
    "quota_limits": _plugins,
    "defaults": _plugins,
    "policies": _policies,
}
