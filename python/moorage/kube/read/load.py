"""Loads files and values of Python: a cluster, what further files change of it, or one object."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Literal, TypeVar, get_args, overload

from moorage.errors import InputError, shorten

from .. import read as room
from .. import workloads as of_workloads
from ..apiserver.decode import versions_gone
from ..apiserver.overlay import key_of
from ..apiserver.refusals import (
    STORED,
    Check,
    Origin,
    Refusals,
    ValidationMode,
    kept_objects,
    located_at,
    without_refused,
)
from ..model.admission_registration import ADMISSION_POLICIES
from ..model.autoscaling import KARPENTER_KINDS, AutoscalerFlags, ConfigMap, MachineGroup, NodePool
from ..model.cluster import Cluster, RefusedObject, RequestedObject
from ..model.meta import Object
from ..model.node import Node
from ..model.pod import Pod
from ..model.policy import AdmissionPlugins
from ..model.workload import (
    WORKLOADS,
    CustomObject,
    PriorityClass,
    full_kind,
    is_of_kueue,
)
from ..releases import RELEASES, FeatureGates, default_gates
from ..workloads.ownership import Names
from .cluster_builder import build_cluster, check_object, check_priority, skipped_warnings
from .object_defaults import default_namespace, default_object, priority_classes
from .parts_reader import PartsReader
from .python_values import Source
from .read_objects import Listed, ReadObjects, UnreadManifest, WithHooks, in_namespace, read_objects

Refused = Literal["raise", "warn", "ignore"]
_LONGEST = 2000


def load(
    *sources: Source | Listed | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
    like_siblings: bool = True,
    refused: Refused = "raise",
) -> Cluster:
    """Read a cluster and its workloads from files and directories, or from values of Python.

    Supported are the output of ``kubectl get -o json`` and ``-o yaml``, single objects, lists, multi-document
    YAML and concatenated JSON, each optionally compressed (up to 4 GiB unpacked). Of a directory
    the ``.json``, ``.yaml`` and ``.yml`` files, also compressed, are read in the order of their
    names, and so are those of an archive (tar, zip). Files among them without objects
    are left out, and named in a warning. Objects without a kind get that of their place in an Insights
    archive or a support bundle. Exports of kube-scheduler-simulator, ``/snapshotz`` of
    cluster-autoscaler and snapshots of the KAI scheduler are read too (see `read_snapshot`).

    The objects are validated and get the API server's defaults, and disruption budgets without a status get
    one (see `build_cluster`). The pods that workloads lack are made by a `Scheduler`, or by `expanded`. Kinds
    that scheduling does not read are counted in `Cluster.skipped` and named in a warning.

    In place of a path, each argument may also be the text of a manifest, a file object, a dict, an object of
    moorage, of the official Kubernetes client, of lightkube or of pykube, or a list of such objects. They are
    read as if they stood in a file.

    An object of a later argument changes one of an earlier argument that has the same kind, namespace and
    name, as ``kubectl apply`` does (see `apply_manifest`); nothing is deleted. Within an argument, equal
    objects count once, and of several readings of an API server's object the newest counts; other objects of
    one name are an error.

    Parameters
    ----------
    *sources : str, Path, bytes, file object, dict, object, or list of dicts and objects
        Read in this order. A string that has a line break, or begins with ``{`` or ``[``, is a text, any
        other one a path; ``"-"`` is standard input. Bytes are a text, which may be compressed. Errors name
        the file, or else the number of the argument where there are several.
    validate : {"strict", "warn", "ignore"}
        What unknown and duplicate fields of manifests are: errors, warnings, or nothing; see
        `FieldValidation`.
    recursive : bool
        Whether directories in directories are read too.
    namespace : str
        The namespace of objects that name none.
    check : callable, optional
        Raises an InputError about an object that is valid otherwise; gets the file.
    like_siblings : bool
        Whether new pods of a workload differ from their template as its running pods do, for example by a
        sidecar; see docs/inputs.md.
    refused : {"raise", "warn", "ignore"}
        What an object of a later argument is that the API server would refuse, and a new pod that its
        admission would: an error; or left out, with a Python warning or without. `Cluster.refused_objects`
        and `Cluster.refused` have those that are left out.

    Raises
    ------
    InputError
        The input is invalid; names file, object and field of the first error. Or an object is refused, with
        the text of the server.
    TypeError
        An argument is something else.

    Examples
    --------
    >>> web = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    >>> [node.name for node in load(web).nodes]
    ['n1']
    """
    if refused not in get_args(Refused):
        raise InputError(f"must be one of {', '.join(get_args(Refused))}, not {refused!r}", source="refused")
    reading = partial(read_objects, validate=validate, recursive=recursive, namespace=namespace)
    if len(sources) < 2:  # there is no change, so nothing is left out
        read = reading(*sources)
        is_empty = not (read.objects or read.skipped)
        refusals = Refusals(check=check, gates=partial(_gates_at, check, read.server_version))
        cluster = build_cluster(
            in_namespace(_emptied(read.objects), namespace),
            origins=read.origins,
            texts=read.texts,
            skipped=read.skipped,
            refusals=refusals,
            like_siblings=like_siblings,
        )
        read.finish(cluster)
        if is_empty:
            cluster.warnings.append("The input has no object.")
    else:
        _, cluster = _before_and_after(reading(*sources), 0, namespace, check, like_siblings)
    texts = [refusal.text for refusal in cluster.refused_objects]
    texts += [each.message for each in cluster.refused if not each.is_old_template]
    if texts and refused == "raise":
        raise InputError(shorten(texts[0], _LONGEST))
    for text in texts if refused == "warn" else ():
        warnings.warn(shorten(text, _LONGEST), stacklevel=2)
    return cluster


def load_before_and_after(
    *sources: Source | Listed | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
    like_siblings: bool = True,
) -> tuple[Cluster, Cluster]:
    """Read a cluster, and what its first source alone comes to. Each source is read once.

    Parameters
    ----------
    like_siblings : bool
        See `load`.

    Returns
    -------
    before, after : Cluster
        Of the first source, and of all but those objects of later ones that an API server would refuse
        (`Cluster.refused_objects`).

    Raises
    ------
    InputError
        See `load`.
    """
    read = read_objects(*sources, validate=validate, recursive=recursive, namespace=namespace)
    first = read.origins[0].argument if read.objects else 0
    # A cluster that is given as a change would be laid over what changes it. A first source to which nodes
    # can come is a cluster, too.
    kinds = (Node, NodePool, AutoscalerFlags, AdmissionPlugins)
    at = next((at for at, obj in enumerate(read.objects) if isinstance(obj, kinds)), None)
    if at is not None and isinstance(read.objects[at], Node) and read.origins[at].argument:
        text = "has the nodes, so it is the cluster: give it first, before what changes it"
        raise InputError(text, source=read.origins[at].source)
    return _before_and_after(read, first, namespace, check, like_siblings)


def load_change(
    before: Cluster,
    *sources: Source | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
) -> Cluster | None:
    """Read what changes a cluster that was loaded; None where all has to be read together (`_of_cluster`).

    The parameters are those of `load`.
    """
    read = read_objects(*sources, validate=validate, recursive=recursive, namespace=namespace, all_texts=True)
    gates = _gates_at(check, "", before)
    objects, origins, texts, unserved = _served(read, namespace, STORED, lambda: gates.release.version)
    if (read.skipped and before.skipped) or _of_cluster(objects, texts, 0):
        return None
    change = room.change_cluster.ClusterChange(before, Refusals(STORED, check, lambda _: gates))
    after, refused = without_refused(change, objects, origins, texts)
    after.skipped = dict(read.skipped) or before.skipped
    after.warnings += skipped_warnings(read.skipped, {})
    after.refused_objects = [*unserved, *refused, *_refused_unread(after, read.unread)]
    after.requested = [*_requested(objects, origins, texts, read, None)]
    _finish(after, read, gates)
    return after


# ---- later files -------------------------------------------------------------------------------------------


def _before_and_after(
    read: ReadObjects, first: int, namespace: str, check: Check | None, like_siblings: bool
) -> tuple[Cluster, Cluster]:
    """Return the cluster of the first argument, and that of all.

    Parameters
    ----------
    first : int
        Its number.
    """
    objects, origins, texts, unserved = _served(read, namespace, first, partial(_release, check, read, first))
    number = bisect_right(origins, first, key=attrgetter("argument"))
    build: Callable[..., Cluster] = partial(
        build_cluster,
        skipped=read.skipped,  # of all files
        refusals=Refusals(first, check, partial(_gates_at, check, read.server_version)),
        like_siblings=like_siblings,
    )
    before = base = build(objects[:number], origins=origins[:number])
    own = [*range(number), *_of_cluster(objects, texts, number)]
    refused = list[RefusedObject]()
    if len(own) > number:
        base, refused = without_refused(build, *kept_objects(objects, origins, texts, own))
    stored_texts = {key_of(objects[at]): texts[at] for at in own if at in texts}
    gates = _gates_at(check, read.server_version, base)
    change = room.change_cluster.ClusterChange(base, Refusals(STORED, check, lambda _: gates), stored_texts)
    later = sorted({*range(len(objects))}.difference(own))
    after, refused_later = without_refused(change, *kept_objects(objects, origins, texts, later))
    assert after.change is not None
    after.change = after.change._replace(parts=read.parts)
    after.refused_objects = [*unserved, *refused, *refused_later, *_refused_unread(after, read.unread)]
    of_change = {at: text for at, text in texts.items() if at >= number}
    after.requested = [*_requested(objects, origins, of_change, read, objects[:number])]
    _finish(after, read, gates)
    return before, after


def _of_cluster(objects: Sequence[Object], texts: Mapping[int, bytes], start: int) -> list[int]:
    """Return which objects of later files are of the cluster, and no change that controllers follow.

    They are what is read from an API server and that the files before lack, or have as it was earlier; what
    nodes and controllers write, and people do not; and the settings of the server. Operators are not
    simulated: what they make of an object, and what it refers to, is looked at with the whole cluster.
    """
    later, of_cluster = range(start, len(objects)), list[int]()
    names = {objects[at].name for at in later}
    known = {
        (obj.full_kind, default_namespace(obj), obj.name)
        for obj in objects[:start]
        if obj.metadata.name in names
    }
    is_operated = any(map(_is_operated, objects[start:]))
    for at in later:
        obj = objects[at]
        is_new = (obj.full_kind, default_namespace(obj), obj.name) not in known
        is_read = bool(obj.metadata.uid or obj.metadata.resource_version)
        is_made = bool(obj.metadata.owner_references) or (isinstance(obj, Pod) and bool(obj.spec.node_name))
        is_near = is_operated and not isinstance(obj, (*WORKLOADS, Pod, Node))
        is_before = is_operated and is_of_kueue(obj)  # as what operators make of objects follows from it
        is_part = (is_new and (is_read or is_made or is_near)) or (is_read and at not in texts)
        if is_part or is_before or _is_operated(obj) or isinstance(obj, AdmissionPlugins | MachineGroup):
            of_cluster.append(at)
    return of_cluster


def _is_operated(obj: Object) -> bool:
    """Whether operators that are not simulated act on an object."""
    return isinstance(obj, CustomObject)


def _finish(after: Cluster, read: ReadObjects, gates: FeatureGates) -> None:
    """Add what is known beside the objects of a change, and what a server warns of in it."""
    from ..admission.stored.strategy_warnings import warnings_of_change

    after.warnings += warnings_of_change(after.accepted, gates, after.change.objects if after.change else ())
    read.finish(after)


def _refused_unread(cluster: Cluster, manifests: Sequence[UnreadManifest]) -> list[RefusedObject]:
    """Return which manifests of kinds that are not read the policies of a cluster refuse."""
    if not manifests or not any(isinstance(obj, ADMISSION_POLICIES) for obj in cluster.others):
        return []
    from ..admission.policy.unread_objects import refused_unread  # few clusters have policies

    return refused_unread(cluster, manifests)


def _requested(
    objects: Sequence[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
    read: ReadObjects,
    old: Sequence[Object] | None,
) -> Iterator[RequestedObject]:
    """Yield the manifests of a change.

    Parameters
    ----------
    old : sequence of Object, optional
        Those before; None if they are not known.
    """
    short = {objects[at].name for at in texts}
    known = {(obj.full_kind, default_namespace(obj), obj.name) for obj in old or () if obj.name in short}
    for at, text in texts.items():
        obj, namespace = objects[at], default_namespace(objects[at])
        is_new = None if old is None else (obj.full_kind, namespace, obj.name) not in known
        unjudged_kind = "" if _is_judged(obj) else full_kind(obj.kind, obj.api_version)
        has_node = isinstance(obj, Pod) and obj.status.phase in ("", "Pending") and is_new is not False
        node = obj.spec.node_name if isinstance(obj, Pod) and has_node else ""
        yield RequestedObject(origins[at].source, text, namespace, is_new, unjudged_kind, node)
    for source, document in read.unread:
        yield RequestedObject(source, document, "", None)


def _is_judged(obj: Object) -> bool:
    """Whether the rules of a kind are known, or do not matter, as nothing follows from it, or as for a
    ConfigMap, of which most are not read at all."""
    if isinstance(obj, CustomObject):
        rule = of_workloads.kind_table.rule_of(obj.full_kind)
        return rule is None or rule.why_none is not None or rule.renders != ""
    from ..admission.manifest_validation import has_rules  # which has judged the change

    is_own = isinstance(obj, ConfigMap) or obj.api_version.partition("/")[0].endswith("moorage.dev")
    is_known = isinstance(obj, KARPENTER_KINDS) or is_of_kueue(obj)
    return is_own or is_known or has_rules(obj.kind, obj.api_version)


def _served(
    read: ReadObjects, namespace: str, cluster: int, release: Callable[[], str]
) -> tuple[list[Object], Sequence[Origin], Mapping[int, bytes], list[RefusedObject]]:
    """Return what was read, without the objects of a change in versions or with fields that the deciding
    release does not serve, and these, with those that were not read."""
    unserved, warnings = read.fields.judge(read.ended, cluster, release)
    read.warnings.extend(warnings)
    objects = list(in_namespace(read.objects, namespace))
    if not unserved:
        return objects, read.origins, read.texts, read.refused
    gone = {origin for origin, _ in unserved}
    kept = [at for at, origin in enumerate(read.origins) if origin not in gone]
    parts = kept_objects(objects, read.origins, read.texts, kept)
    return *parts, [*read.refused, *(refused for _, refused in unserved)]


def _release(check: Check | None, read: ReadObjects, argument: int) -> str:
    """Return the release that decides for the objects of an argument."""
    objects = zip(read.objects, read.origins, strict=True)
    listed = [obj for obj, origin in objects if origin.argument == argument]
    nodes = [obj for obj in listed if isinstance(obj, Node)]
    pods = [obj for obj in listed if isinstance(obj, Pod)]
    return _gates_at(check, read.server_version, Cluster(nodes, pods)).release.version


def _gates_at(check: Check | None, server_version: str, cluster: Cluster) -> FeatureGates:
    """Return the release that decides for a cluster, with its gates, and warn of nothing."""
    version = server_version or cluster.server_version
    alone = Cluster(cluster.nodes, cluster.pods, server_version=version, release=cluster.release)
    if check is not None:
        return check.gates(alone)
    return default_gates(RELEASES[room.deciding_release.deciding_release(alone, None).version])


def _emptied(objects: list[Object]) -> Iterator[Object]:
    """Iterate over a list that is emptied meanwhile, so that it keeps no object alive."""
    objects.reverse()
    while objects:
        yield objects.pop()


# ---- one object --------------------------------------------------------------------------------------------
#
# One object from a value of Python, with the validation and the defaults that a file's objects get.

T = TypeVar("T", bound=Object)


@cache
def _shared_parts() -> PartsReader:
    """Pods that are read one by one and have the same template share what was decoded and checked of it."""
    return PartsReader()


@overload
def read_object(source: Source, kind: type[T], *, classes: Iterable[PriorityClass] = ()) -> T: ...


@overload
def read_object(source: Source, *, classes: Iterable[PriorityClass] = ()) -> Object: ...


def read_object(
    source: Source, kind: type[Object] = Object, *, classes: Iterable[PriorityClass] = ()
) -> Object:
    """Read one object: check it as `load` checks a new one, and set the API server's defaults. Quotas, limit
    ranges and policies are not asked.

    Use it where a plugin's test or a program needs a Pod or a Node, and has a dict, a text or an object of a
    Kubernetes client.

    Parameters
    ----------
    source : dict, object, str, bytes, Path or file object
        See `load`. One of moorage's own objects is returned as it is.
    kind : type, optional
        What it has to be, such as `Pod`.
    classes : iterable of PriorityClass
        The priority classes that a pod may name, besides the two built-in ones.

    Returns
    -------
    Object
        If it has no name or no UID, it gets one that follows from its other names.

    Raises
    ------
    InputError
        The object is invalid, or there is not exactly one, or it has another kind.
    TypeError
        The source is something else.

    Examples
    --------
    >>> from moorage.kube import Pod
    >>> containers = [{"name": "main", "image": "web:1"}]
    >>> value = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}}
    >>> read_object(value, Pod).key
    'default/web'
    """
    obj, text = read_one(source)
    if not isinstance(obj, kind):
        raise InputError(f"must be a {kind.__name__}", obj=obj.full_name.strip())
    return obj if obj is source else with_defaults(obj, text, classes)


def read_one(source: Source) -> tuple[Object, bytes | None]:
    """Read one object as it is written: its fields are checked, and nothing is added.

    Parameters
    ----------
    source : dict, object, str, bytes, Path or file object
        See `load`.

    Returns
    -------
    obj : Object
        One of moorage's own objects as it is.
    text : bytes or None
        Of any other, as JSON.

    Raises
    ------
    InputError
        It cannot be read, or there is not exactly one.
    """
    if isinstance(source, Object):
        return source, None
    read = read_objects(source, parts=_shared_parts(), all_texts=True)
    for refused in read.refused:
        raise InputError(refused.text)
    if read.skipped:
        kind = next(iter(read.skipped))
        raise InputError(versions_gone().get(kind) or f"scheduling does not read this kind: {kind}")
    if len(read.objects) != 1:
        raise InputError(f"must be one object, not {len(read.objects)}")
    return read.objects[0], read.texts[0]


def with_defaults(obj: Object, text: bytes | None, classes: Iterable[PriorityClass] = ()) -> Object:
    """Validate a new object, and set the API server's defaults.

    Parameters
    ----------
    text : bytes or None
        See `read_one`.
    classes : iterable of PriorityClass
        See `read_object`.

    Raises
    ------
    InputError
        The object is invalid.
    """
    listed = priority_classes(classes)
    try:
        check_object(obj, text)
        check_priority(obj, listed)
    except InputError as error:
        raise located_at(error, obj, Origin()) from None
    return default_object(obj, listed, Names())
