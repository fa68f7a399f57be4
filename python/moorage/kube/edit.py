"""Copies of objects: with some fields changed, or with meaningless names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields, replace

from moorage.errors import InputError, shorten

from .admission.validate_object import QUOTA_OF_CLASS, validate
from .model.meta import LAST_APPLIED, Object, Struct
from .model.node import SECURITY_LABELS
from .model.storage import CSIDriver, CSINode, StorageClass
from .model.workload import ControllerRevision, PodTemplateSpec
from .read.object_defaults import decoded_revision
from .workloads.ownership import stable_uid

S = TypeVar("S", bound=Struct)

_STEP = re.compile(r"""\.?([A-Za-z_]\w*)|\[(\d+)\]|\[(["'])(.+?)\3\]|\[([^\]]+)\]""")
_KEY_OF_MAP = re.compile(
    r"\b((?:labels|annotations|matchLabels|nodeSelector|requests|limits|capacity|allocatable|overhead))"
    r"\.([^\[\]]*[./][^\[\]]*)$"
)


def edit(obj: S, changes: Mapping[str, Any] | None = None, /, **paths: Any) -> S:
    """Return a copy of an object with some fields changed; the object itself stays as it is.

    A path names fields as manifests do (or as attributes), items of lists by their index and entries of maps
    by their key: ``spec.nodeName``, ``spec.containers[0].resources.requests.cpu``,
    ``metadata.labels[topology.kubernetes.io/zone]``. Structs on the way that are not set are made; an index
    one beyond a list appends to it. A value is a struct, or JSON values as in a manifest; it replaces what
    was there, and is not merged with it.

    Parameters
    ----------
    changes : mapping of str to object, optional
        Path to the new value.
    **paths : object
        The same, for paths that are names: ``edit(node, status=status)``.

    Returns
    -------
    Object
        An edited object is validated.

    Raises
    ------
    TypeError
        It is something else.
    InputError
        A path names no field, a value has the wrong type, or the result is not valid; the error names the
        field.

    Examples
    --------
    >>> edit(pod, {"spec.priority": 10, "metadata.labels.tier": "web"})  # doctest: +SKIP
    """
    given: object = obj
    if not isinstance(given, Struct):
        what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise TypeError(f"edit takes an object that `load` or `read_object` returns, or a part, not {what}")
    edited: Any = obj
    for path, value in {**(changes or {}), **paths}.items():
        try:
            edited = _set(edited, type(edited), _steps(path), value)
        except InputError as error:
            key = _KEY_OF_MAP.search(path)  # with dots or slashes, outside brackets
            text = error.message + (f"; write {key[1]}[{key[2]}]" if key else "")
            located = InputError(text, obj=error.obj, path=error.path)
            name = obj.full_name if isinstance(obj, Object) else type(obj).__name__
            raise located.located(obj=name, path=shorten(path, 120)) from None
    if isinstance(edited, Object):
        validate(edited)
    result: S = edited
    return result


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str | int, ...]:
    """Return the names, keys and indexes of a path."""
    steps: list[str | int] = []
    at = 0
    while at < len(path) or not steps:
        match = _STEP.match(path, at)
        if match is None:
            raise InputError(f"is not a path: there is no name at character {at + 1}")
        name, index, _, quoted, key = match.groups()
        steps.append(int(index) if index else name or quoted or key)
        at = match.end()
    return tuple(steps)


def _set(value: Any, type_: Any, steps: tuple[str | int, ...], new: Any) -> Any:
    """Return a value with what the steps name replaced."""
    if not steps:
        return _converted(new, type_)
    step, rest = steps[0], steps[1:]
    kinds = _alternatives(type_)
    struct = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)), None)
    if struct is not None:
        if step not in (known := _fields(struct)):
            raise InputError(f'unknown field "{step}" of {struct.__name__}')
        name, type_ = known[step]
        value = struct() if value is None else value
        return replace(value, **{name: _set(getattr(value, name), type_, rest, new)})
    for kind in kinds:
        items = get_args(kind)
        if get_origin(kind) is dict:
            entries = dict(value or {})
            entries[str(step)] = _set(entries.get(str(step)), items[1], rest, new)
            return entries
        if get_origin(kind) is tuple:
            listed = tuple(value or ())
            if not isinstance(step, int) or step > len(listed):
                raise InputError(f"has {len(listed)} items: [{step}] is not one of them")
            old = listed[step] if step < len(listed) else None
            return (*listed[:step], _set(old, items[0], rest, new), *listed[step + 1 :])
    raise InputError(f'has no field "{step}"')


@cache
def _fields(struct: type[Struct]) -> dict[str | int, tuple[str, Any]]:
    """Attributes of a struct and their types, by their names in manifests and in Python; msgspec evaluates
    the annotations whenever it is asked."""
    listed = fields(struct)
    return {key: (field.name, field.type) for field in listed for key in (field.name, field.encode_name)}


@cache
def _alternatives(type_: Any) -> tuple[Any, ...]:
    """Return the types of a union, without annotations and None."""
    if get_origin(type_) is Annotated:
        return _alternatives(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):
        return tuple([kind for option in get_args(type_) for kind in _alternatives(option)])
    return () if type_ is NoneType else (type_,)


def _converted(value: Any, type_: Any) -> Any:
    """Return a value as a field of a type holds it."""
    if isinstance(value, Struct) and type(value) in _alternatives(type_):
        return value
    try:
        return msgspec.convert(msgspec.to_builtins(value), type_)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(str(error)) from None


# ---- anonymize ---------------------------------------------------------------------------------------------
#
# Replaces the names and labels of objects by meaningless ones, so that decisions stay the same.


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


Rename = Callable[[str], str]

_WORD = re.compile(r":latest$|(\d*)([A-Za-z][A-Za-z0-9]*)")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""UIDs stay, but for those that are made of names."""
_KUBERNETES = re.compile(r"([a-z0-9.-]+\.)?(kubernetes|k8s)\.io/")
"""What begins like this is defined by Kubernetes."""
_KNOWN = _names(
    "default kube-system kube-public kube-node-lease system-node-critical system-cluster-critical "
    "pod-template-hash pod-template-generation controller-revision-hash controller-uid job-name "
    "metadata.name true false yes"
)
"""What schedulers and controllers know by name."""
_MAX_LABEL = 63

_TEXTS = _names(
    "api_version apiVersion kind resource_version creation_timestamp deletion_timestamp time_added "
    "start_time completion_time last_transition_time allocation_timestamp operator effect type status reason "
    "phase protocol host_ip restart_policy action preemption_policy when_unsatisfiable node_affinity_policy "
    "node_taints_policy access_modes volume_mode capacity maximum_volume_size min_available max_unavailable "
    "max_surge qos_class completion_mode completed_indexes failed_indexes disruption_mode "
    "pod_management_policy reclaim_policy persistent_volume_reclaim_policy volume_binding_mode "
    "allocation_mode source scope_name scopes match_attribute distinct_attribute expression "
    "extended_resource_name resource_name resource api_group declared_features driver provisioner attacher "
    "scheduler_name binding_conditions binding_failure_conditions share_id concurrency_policy "
    "controlled_values mode pod_replacement_policy unhealthy_pod_eviction_policy when_deleted when_scaled"
)
"""Attributes whose texts stay: enumerations, times, quantities, resources, and what expressions name."""
_MAPS = _names(
    "capacity allocatable requests limits overhead pod_fixed allocated_resources consumed_capacity min max "
    "default default_request max_limit_request_ratio attributes counters"
)
"""Attributes whose maps stay: quantities by resource, and what a device has."""


def anonymize(objects: Iterable[Object]) -> list[Object]:
    """Rename objects, labels, taints and images.

    Each word, in the sense of letters and digits between other characters, becomes another one wherever it
    stands, and numbers stay. So references, selectors and names that are made of others still fit. New words
    have the order of the old ones, because names decide some ties. What Kubernetes defines stays: keys with
    ``kubernetes.io`` or ``k8s.io``, namespaces such as ``default``; so do the names of resources, schedulers
    and drivers, and the attributes of devices, which expressions name. Other annotations, messages and
    parameters are left out.

    Returns
    -------
    list of Object
        In the same order. The result depends on the objects alone.
    """
    from .apiserver.hidden_texts import hide

    hidden = hide(objects)  # so that no digest of what is left out can be undone
    objects = [decoded_revision(obj) if isinstance(obj, ControllerRevision) else obj for obj in hidden]
    texts: set[str] = set()

    def record(text: str) -> str:
        if not _UID.fullmatch(text):
            texts.add(text)
        return text

    for obj in objects:
        _renamed(obj, "", record)
    rename = _renaming(texts - _kept(objects))
    named = [(obj.kind, obj.namespace, obj.name) for obj in objects]
    named += [
        (owner.kind, obj.namespace, owner.name) for obj in objects for owner in obj.metadata.owner_references
    ]
    uids = {
        stable_uid(kind, namespace, name): stable_uid(kind, rename(namespace), rename(name))
        for kind, namespace, name in named
    }
    return [_renamed(obj, "", lambda text: uids.get(text) or rename(text)) for obj in objects]


def _kept(objects: Iterable[Object]) -> set[str]:
    """Return the names of drivers, and the labels that they define."""
    kept: set[str] = set()
    for obj in objects:
        if isinstance(obj, CSIDriver):
            kept.add(obj.name)
        elif isinstance(obj, StorageClass):
            kept.add(obj.provisioner)
        elif isinstance(obj, CSINode):
            for driver in obj.spec.drivers:
                kept.update((driver.name, *driver.topology_keys))
    return kept


def _renaming(texts: Iterable[str]) -> Rename:
    """Return what renames these texts; others stay."""
    texts = [text for text in texts if text not in _KNOWN and not _KUBERNETES.match(text)]
    words = sorted({match[2] for text in texts for match in _WORD.finditer(text) if match[2]})
    width = len(_letters(max(len(words) - 1, 0), 1))
    new = {word: _letters(number, width) for number, word in enumerate(words)}

    def of(match: re.Match[str]) -> str:
        return match[1] + new[match[2]] if match[2] else match[0]

    renamed = {text: _WORD.sub(of, text) for text in texts}
    long = sorted(text for text in texts if len(text) <= _MAX_LABEL < len(renamed[text]))
    renamed |= {text: f"long-{number}" for number, text in enumerate(long)}
    return lambda text: renamed.get(text, text)


def _letters(number: int, width: int) -> str:
    """Write a number with the digits a to z."""
    text = ""
    while number or len(text) < width:
        number, digit = divmod(number, 26)
        text = chr(ord("a") + digit) + text
    return text


def _renamed(value: Any, name: str, rename: Rename) -> Any:
    """Return the value of an attribute with its texts renamed."""
    if isinstance(value, str):
        return (
            ""
            if name in ("message", "unread", "managed_fields")
            else value
            if name in _TEXTS
            else rename(value)
        )
    if name == "os":
        return value
    if isinstance(value, tuple):
        return tuple(_renamed(item, name, rename) for item in value)
    if isinstance(value, dict):
        return _renamed_map(value, name, rename)
    if not isinstance(value, Struct):
        return value
    old = {item.name: getattr(value, item.name) for item in fields(value)}
    new = replace(value, **{key: _renamed(item, key, rename) for key, item in old.items() if item})
    return replace(new, unread=_left_out(value)) if isinstance(value, PodTemplateSpec) else new


def _left_out(template: PodTemplateSpec) -> str:
    """Return a field that differs where what is left out of templates does, so that a ReplicaSet is still the
    one of its Deployment's template."""
    unread = template.unread, sorted(template.metadata.annotations.items())
    if unread == ("", []):
        return ""
    digest = sha256(repr(unread).encode()).hexdigest()[:16]
    return f'{{"containers":[{{"workingDir":"/{digest}"}}]}}'


def _renamed_map(value: dict[str, Any], name: str, rename: Rename) -> Any:
    if name in _MAPS:
        return value
    if name == "parameters":
        return {}
    if name in ("data", "spec", "workload_ref"):  # JSON, not a map of names
        return {key: _renamed(item, key, rename) for key, item in value.items()}
    if name == "annotations":
        value = {key: item for key, item in value.items() if _KUBERNETES.match(key) and key != LAST_APPLIED}
    if name == "labels":  # the fields that they are about are left out, too
        value = {key: item for key, item in value.items() if not key.startswith(SECURITY_LABELS)}
    if name == "hard":
        return {_of_quota(key, rename): item for key, item in value.items()}
    if name == "disrupted_pods":  # times
        return {rename(key): item for key, item in value.items()}
    return {rename(key): _renamed(item, "", rename) for key, item in value.items()}


def _of_quota(key: str, rename: Rename) -> str:
    """Return the resource of a quota, which may name a storage class."""
    name, separator, resource = key.partition(QUOTA_OF_CLASS)
    return f"{rename(name)}{separator}{resource}" if separator else key
