"""What is refused of a change, and where it was read: unknown fields, ended versions, invalid objects."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, Protocol, TypeVar, overload

import msgspec

from moorage.errors import InputError, nearest, shorten
from moorage.lazy import NamedTuple

from ..model.cluster import Cluster, EndedObject, RefusedObject
from ..model.meta import Object, ObjectMeta
from ..model.workload import full_kind
from ..read.object_defaults import default_namespace
from ..releases import DEFAULT_GATES, FeatureGates
from ..releases.release import ended_version
from .decode import decode, is_json
from .unknown_fields import (
    ANY,
    EVERY,
    Path,
    checked_struct,
    has_only_known_fields,
    known_at,
    path_text,
    struct_of,
    unknown_fields,
)

# ---- origins -----------------------------------------------------------------------------------------------
#
# Origins of objects: where in which file each one was read.


class Origin(NamedTuple):
    """The origin of an object: file, index of the document, index of the item in a list.

    `argument` is the number of the argument of `load` that names the file, or its directory or archive.
    """

    source: str = ""
    document: int = 0
    item: int | None = None
    argument: int = 0


class Origins(Sequence[Origin]):
    """The origins of objects in reading order, without an object for each."""

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._starts: list[int] = []  # index of the first object of each source
        self._arguments: list[int] = []  # of each source
        self._documents, self._items = array("q"), array("q")
        self.argument = -1

    def begin_argument(self) -> None:
        """Begin the next argument: what is added from now on has been read from it."""
        self.argument += 1

    def add(self, source: str, document: int, item: int | None) -> None:
        """Append an origin.

        Parameters
        ----------
        item : int or None
            Index of the item in a list.
        """
        if not self._sources or self._sources[-1] is not source or self._arguments[-1] != self.argument:
            self._sources.append(source)
            self._starts.append(len(self._items))
            self._arguments.append(self.argument)
        self._documents.append(document)
        self._items.append(-1 if item is None else item)

    @property
    def first_argument(self) -> int:
        """That of the first origin; 0 without any."""
        return self._arguments[0] if self._arguments else 0

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Origin: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Origin]: ...

    def __getitem__(self, at: int | slice) -> Origin | Sequence[Origin]:
        if isinstance(at, slice):
            part, (first, _, step) = copy(self), at.indices(len(self))
            assert step == 1
            part._starts = [max(0, start - first) for start in self._starts]
            part._documents, part._items = self._documents[at], self._items[at]
            return part
        file = bisect_right(self._starts, at) - 1
        item = self._items[at]
        argument = self._arguments[file]
        return Origin(self._sources[file], self._documents[at], None if item < 0 else item, argument)


def label(kind: str, namespace: str, name: str, origin: Origin) -> str:
    """Return the name of an object in errors; its position if it has no name.

    Parameters
    ----------
    kind, namespace, name : str
        Identity of the object; empty if unknown.

    Returns
    -------
    str
        ``Pod default/web-1``, or ``Pod (document 2)``.
    """
    if name:
        return shorten(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}").strip()
    position = f"document {origin.document}" if origin.item is None else f"items[{origin.item}]"
    return f"{shorten(kind)} ({position})" if kind else position


# ---- refusals ----------------------------------------------------------------------------------------------
#
# Objects of a change that an API server would refuse: they are left out, and the others are looked at.

T = TypeVar("T")


class Check(Protocol):
    """What an API server checks of objects beside the rules of their kinds."""

    def __call__(self, obj: Object) -> None:
        """Raise an InputError about an object that is valid otherwise."""

    def gates(self, cluster: Cluster) -> FeatureGates:
        """Return the feature gates of the server of a cluster, with its release."""


_LONGEST = 2000
STORED = -2
"""In place of the argument of an object that is in the cluster already."""


def located_at(error: InputError, obj: Object, origin: Origin) -> InputError:
    """Return an error with the place of its object."""
    named = label(obj.kind, obj.namespace, obj.name, origin)
    return InputError(error.message, source=origin.source, obj=named, path=error.path)


class RefusedObjectsError(InputError):
    """An API server would refuse objects of a change. The text is about the first one.

    Attributes
    ----------
    refused : dict of Origin to RefusedObject
        All that were found at once.
    """

    def __init__(self, first: InputError, refused: Mapping[Origin, RefusedObject]) -> None:
        super().__init__(first.message, source=first.source, obj=first.obj, path=first.path)
        self.refused = refused


class Refusals:
    """Collects the objects of a change that are refused. What is wrong with the cluster itself is an error.

    Parameters
    ----------
    cluster : int
        The argument that is the cluster, or `STORED`; manifests of later ones change it.
    check : callable, optional
        Raises an InputError about an object that is valid otherwise.
    gates : callable, optional
        Returns the feature gates of the API server of a cluster, with its release.
    """

    def __init__(
        self,
        cluster: int = 0,
        check: Callable[[Object], None] | None = None,
        gates: Callable[[Cluster], FeatureGates] = lambda _: DEFAULT_GATES,
    ) -> None:
        self._cluster, self.gates = cluster, gates
        self.check: Callable[[Object], None] = check or (lambda _: None)
        self._first: InputError | None = None
        self._refused: dict[Origin, RefusedObject] = {}

    @property
    def has_cluster(self) -> bool:
        """Whether the objects of the cluster are read with the change."""
        return self._cluster != STORED

    def is_change(self, origin: Origin) -> bool:
        """Whether a manifest is of a change."""
        return origin.argument > self._cluster

    def add(self, error: InputError, obj: Object, origin: Origin) -> None:
        """Note that an object of a change, or what becomes of another one by it, is refused.

        Raises
        ------
        InputError
            The object is of the cluster.
        """
        located = located_at(error, obj, origin)
        if not self.is_change(origin):
            raise located from None
        self._first = self._first or located
        names = obj.kind, obj.api_version, default_namespace(obj), obj.name or located.obj
        self._refused.setdefault(origin, refused_object(error, names, origin.source))

    def raise_any(self) -> None:
        """Raise a RefusedObjectsError if any object was refused."""
        first, refused = self._first, self._refused
        if first is not None:
            self._first, self._refused = None, {}
            raise RefusedObjectsError(first, refused)


def refused_object(error: InputError, names: tuple[str, str, str, str], source: str) -> RefusedObject:
    """Return an object that an API server refuses.

    Parameters
    ----------
    names : tuple of str
        Kind, API version, namespace and name.
    """
    kind, api_version, namespace, name = names
    message = shorten(error.message, _LONGEST)
    if error.path or message.startswith("["):
        field = f"{error.path}: " if error.path else ""
        message = f'{full_kind(kind, api_version)} "{name}" is invalid: {field}{message}'
    return RefusedObject(api_version.rpartition("/")[0], kind, namespace, name, source, message)


class ReadEnded(NamedTuple):
    """An object in a version that has ended, as it was read.

    Attributes
    ----------
    argument : int
        See `Origin`.
    origin : Origin or None
        None for a kind that is not read.
    is_manifest : bool
        False for one of an API server, which has served it.
    """

    obj: EndedObject
    argument: int
    origin: Origin | None
    is_manifest: bool


class ReadFields(NamedTuple):
    """A manifest with fields that some releases lack, as it was read.

    Attributes
    ----------
    names : tuple of str
        Kind, API version, namespace and name.
    argument : int
        See `Origin`.
    origin : Origin or None
        None for a kind that is not read.
    """

    document: Any
    names: tuple[str, str, str, str]
    source: str
    argument: int
    origin: Origin | None


def refused_versions(
    ended: Iterable[ReadEnded], cluster: int, release: Callable[[], str]
) -> list[tuple[Origin | None, RefusedObject]]:
    """Return the objects of a change in versions that a release does not serve, with their origins. Those
    that are off by default are served if objects of a server have them.

    Parameters
    ----------
    cluster : int
        As for `Refusals`.
    release : callable
        Returns the release; it is called only where releases differ.
    """
    listed = list(ended)
    served = {obj.obj.version.api_version for obj in listed if not obj.is_manifest}
    refused = list[tuple[Origin | None, RefusedObject]]()
    for obj in listed:
        version = obj.obj.version
        if obj.is_manifest and obj.argument > cluster:
            is_on = not version.is_off_by_default or version.api_version in served
            if not (is_on and version.depends_on_release and version.is_served(release())):
                past, group = obj.obj, version.api_version.rpartition("/")[0]
                refusal = RefusedObject(
                    group, version.kind, past.namespace, past.name, past.source, version.text
                )
                refused.append((obj.origin, refusal))
    return refused


def kept_objects(
    objects: Sequence[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
    kept: Sequence[int],
) -> tuple[list[Object], list[Origin], dict[int, bytes]]:
    """Return some of the objects, by their indexes, their origins, and texts by their new indexes."""
    left = {new: texts[at] for new, at in enumerate(kept) if at in texts}
    return [objects[at] for at in kept], [origins[at] for at in kept], left


def without_refused(
    build: Callable[..., T],
    objects: list[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
) -> tuple[T, list[RefusedObject]]:
    """Build from all objects but those that are refused, as if these had not been given.

    Parameters
    ----------
    build : callable
        Takes objects, and by name their ``origins`` and ``texts`` (see `build_cluster`). It is called until
        nothing is refused, each time with fewer objects.

    Returns
    -------
    object
        What it returns.
    list of RefusedObject
    """
    refused: list[RefusedObject] = []
    while True:
        try:
            return build(objects, origins=origins, texts=texts), refused
        except RefusedObjectsError as error:
            number = len(objects)
            kept = [at for at, origin in enumerate(origins) if origin not in error.refused]
            objects, origins, texts = kept_objects(objects, origins, texts, kept)
            assert len(objects) < number
            refused += error.refused.values()


# ---- field validation --------------------------------------------------------------------------------------
#
# Field validation as ``kubectl apply --validate`` does it: unknown and duplicate fields.

ValidationMode = Literal["strict", "warn", "ignore"]
MODES: tuple[ValidationMode, ...] = ("strict", "warn", "ignore")
_NAMES = re.compile(rb'"(name|generateName|nodeName|hostname|kubernetes\.io/hostname)"\s*:\s*"[ !#-\[\]-~]*"')
_MAX_SKELETONS = 1 << 12
_sound: set[tuple[str, tuple[bytes, ...]]] = set()
"""Kind and text without names of manifests without problems; they are so for all readers."""
_SHOWN = 10
"""Maximum number of fields that an error names."""


class FieldValidation:
    """Checks the fields of objects by the rules of one mode, and collects warnings.

    Manifests are objects without ``metadata.uid`` and ``metadata.resourceVersion``. Their unknown and
    duplicate fields are an error with ``strict`` and a warning with ``warn``. All other objects came from an
    API server, which may be newer: their unknown fields are a warning in both modes. Of these, pods and nodes
    are checked by their specs alone, and other objects that have a controller are not checked.

    Parameters
    ----------
    mode : {"strict", "warn", "ignore"}
        What unknown and duplicate fields are.

    Attributes
    ----------
    of_some_releases : list of ReadFields
        What the release decides that is known when all is read.
    """

    def __init__(self, mode: ValidationMode) -> None:
        if mode not in MODES:
            raise InputError(f"must be one of {', '.join(MODES)}, not {mode!r}", source="validate")
        self.mode = mode
        self._problems: dict[tuple[str, str, str], str] = {}
        self.of_some_releases: list[ReadFields] = []

    def is_sound(self, document: bytes | msgspec.Raw, kind: str) -> bool:
        """Whether `check` would find no problem in a manifest of the core's v1; manifests that differ in
        names alone are looked at once."""
        skeleton = kind, tuple(_NAMES.split(bytes(document)))  # by names no field is known or duplicate
        if skeleton in _sound:
            return True
        if not has_only_known_fields(document, f"core.v1.{kind}") or _duplicates(document):
            return False
        if len(_sound) >= _MAX_SKELETONS:
            _sound.clear()
        _sound.add(skeleton)
        return True

    def check(
        self, document: Any, kind: str, api_version: str, source: str, meta: ObjectMeta | None = None
    ) -> bool:
        """Check the fields of an object of a built-in kind; other kinds are not checked.

        Parameters
        ----------
        document : dict or bytes
            The object as a JSON value, or its JSON text.
        source : str
            File of the object, for warnings.
        meta : ObjectMeta, optional
            Its metadata, where they are decoded.

        Returns
        -------
        bool
            Whether the object is a manifest with fields that some releases lack.

        Raises
        ------
        InputError
            The object is a manifest, the mode is ``strict``, and there are unknown or duplicate fields.
        """
        struct = "" if self.mode == "ignore" else checked_struct(kind, api_version)
        if not struct:
            return False
        meta = _metadata(document) if meta is None else meta
        is_manifest = not (meta.uid or meta.resource_version)
        if not is_manifest and kind != "Pod" and meta.controller() is not None:
            return False  # a copy of its owner's template
        unsteady = _unknown(document, struct, EVERY)
        unknown = _unknown(document, struct) if unsteady else []
        problems = [(path, "unknown") for path in unknown]
        if is_manifest and is_json(document):
            problems += [(path, "duplicate") for path in _duplicates(document)]
        if unknown and is_manifest and len(unknown) == len(problems) and ended_version(kind, api_version):
            return True  # whether a server has the version comes first
        problems.sort()
        if problems and is_manifest and self.mode == "strict":
            raise InputError(_texts(problems, struct))
        for path, what in problems:
            self._warn(kind, path, what, f"{source}: {label(kind, meta.namespace, meta.name, Origin())}")
        return is_manifest and unsteady != unknown

    def judge(
        self, ended: Iterable[ReadEnded], cluster: int, release: Callable[[], str]
    ) -> tuple[list[tuple[Origin | None, RefusedObject]], list[str]]:
        """Return the manifests of a change in versions, or with fields, that a release lacks; and warnings in
        place of the latter if the mode is ``warn``. The parameters are those of `refused_versions`."""
        refused, warned = refused_versions(ended, cluster, release), FieldValidation(self.mode)
        known = {(each.kind, each.namespace, each.name, each.source) for _, each in refused}
        for document, names, source, argument, origin in self.of_some_releases:
            kind, api_version, namespace, name = names
            if argument <= cluster or (kind, namespace, name, source) in known:
                continue
            struct = struct_of(kind, api_version)
            paths = _unknown(document, struct, release())
            if self.mode == "strict" and paths:
                error = InputError(_texts([(path, "unknown") for path in paths], struct))
                refused.append((origin, refused_object(error, names, source)))
                continue
            for path in paths:
                place = f"{source}: {label(kind, namespace, name, Origin())}"
                warned._warn(kind, path, "unknown", place)
        return refused, warned.warnings()

    def check_spec(self, spec: bytes, kind: str, metadata: bytes, source: str) -> None:
        """Check the spec of a pod or node, unless it is a manifest.

        Parameters
        ----------
        source : str
            File of the object, for warnings.
        """
        if self.mode == "ignore" or has_only_known_fields(spec, f"core.v1.{kind}Spec"):
            return
        meta = decode(metadata, ObjectMeta)
        if meta.uid or meta.resource_version:
            self.check({"spec": _decoded(spec)}, kind, "v1", source, meta)

    def add_duplicate(self, line: int, path: Path, source: str) -> None:
        """Record a duplicate field of a YAML document."""
        if self.mode == "warn":
            self._warn("", path, "duplicate", f"{source}:{line}")

    def _warn(self, kind: str, path: Path, what: str, place: str) -> None:
        """Record a warning, one for each kind and path without its indices."""
        names = path_text(part for part in path if isinstance(part, str))
        self._problems.setdefault((kind, what, names), f"{place}: {_text(path, what)}.")

    def warnings(self) -> list[str]:
        """Return one warning for each kind and field, about the first object that has it."""
        return list(self._problems.values())


class _Named(msgspec.Struct):
    """The metadata of an object."""

    metadata: ObjectMeta = ObjectMeta()


def _metadata(document: Any) -> ObjectMeta:
    try:
        return decode(document, _Named).metadata
    except InputError:
        return ObjectMeta()


def _unknown(document: Any, struct: str, release: str = ANY) -> list[Path]:
    if not is_json(document):
        return unknown_fields(document, struct, release)
    if has_only_known_fields(document, struct):
        return []
    return unknown_fields(_decoded(document), struct, release)


def _decoded(text: bytes | msgspec.Raw) -> Any:
    """The value of a JSON text; integers beyond 64 bits are strings."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        return json.loads(bytes(text), parse_int=str)


def _texts(problems: Sequence[tuple[Path, str]], struct: str) -> str:
    """Return what is wrong with fields of a struct; of an unknown one alone, also the nearest."""
    texts = [_text(path, what) + _MOVED.get((struct, *path), "") for path, what in problems[:_SHOWN]]
    (*parents, name), what = problems[0]
    if len(problems) == 1 and what == "unknown" and (struct, *parents, name) not in _MOVED:
        texts[0] += nearest(str(name), known_at(struct, parents) - {name})
    more = [f"and {len(problems) - _SHOWN} more"] * (len(problems) > _SHOWN)
    return ", ".join(texts + more)


_MOVED: Mapping[Path, str] = {
    ("karpenter.sh/v1/NodePool", "spec", "template", "spec", "kubelet"): (
        "; Karpenter v1 has it in the node class, as spec.kubelet of an EC2NodeClass"
    ),
    ("karpenter.sh/v1/NodePool", "spec", "template", "spec", "nodeClassRef", "apiVersion"): (
        "; Karpenter v1 has group in its place, without a version"
    ),
    ("karpenter.sh/v1/NodePool", "spec", "disruption", "expireAfter"): (
        "; Karpenter v1 has it as spec.template.spec.expireAfter"
    ),
}
"""Where fields of earlier versions stand now, by kind and path."""


def _text(path: Path, what: str) -> str:
    return f'{what} field "{shorten(path_text(path))}"'


class _Map(dict[str, Any]):
    """A map of a JSON text with the keys that it has more than once."""

    duplicates: tuple[str, ...] = ()


def _duplicates(text: bytes | msgspec.Raw) -> list[Path]:
    """The fields that a JSON text has more than once."""
    # A text without white space is as long as what its value is encoded to, unless it has duplicate fields,
    # or strings and numbers in another spelling.
    if len(msgspec.json.format(text, indent=-1)) == len(msgspec.json.encode(_decoded(text))):
        return []
    paths: list[Path] = []
    pending: list[tuple[Path, Any]] = [((), json.loads(bytes(text), parse_int=str, object_pairs_hook=_map))]
    while pending:
        path, item = pending.pop()
        if isinstance(item, _Map):
            paths += [(*path, key) for key in item.duplicates]
            pending += [((*path, key), part) for key, part in item.items()]
        elif isinstance(item, list):
            pending += [((*path, at), part) for at, part in enumerate(item)]
    return paths


def _map(pairs: list[tuple[str, Any]]) -> _Map:
    members = _Map(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        members.duplicates = tuple([key for key in members if keys.count(key) > 1])
    return members
