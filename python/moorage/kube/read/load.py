"""Loads files and values of Python into a cluster: JSON and YAML, lists and directories."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, overload

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from moorage.errors import InputError, NoManifestError, examples, shorten

from ..apiserver.joined_cluster import are_manifests, join
from ..apiserver.overlay import is_newer
from ..apiserver.refusals import (
    STORED,
    Check,
    FieldValidation,
    Origin,
    Origins,
    ReadEnded,
    Refusals,
    ValidationMode,
    kept_objects,
    label,
    refused_object,
    refused_versions,
    without_refused,
)
from ..apiserver.unknown_fields import check_kind, has_version, is_before_karpenter_1
from ..apiserver.validate_object import validate
from ..model.cluster import Cluster, EndedObject, RefusedObject
from ..model.meta import Object, ObjectMeta
from ..model.node import Node
from ..model.pod import Pod
from ..model.workload import PriorityClass, full_kind
from ..releases import DEFAULT
from ..releases.release import EndedVersion, ended_version
from ..workloads.custom_objects import makes_pods, metadata_of, read_custom
from ..workloads.deployment_rollout import is_simulated
from ..workloads.ownership import Names
from ..workloads.seen_failures import KINDS as EVENTS
from ..workloads.seen_failures import FailedCreates, Touched
from .cluster_builder import build_cluster
from .decode import UNREADABLE, Head, decode, decode_kind, is_json, is_known, versions_gone
from .files import (
    RENDERS,
    YAML_SUFFIXES,
    has_suffix,
    is_chart,
    is_directory,
    kind_of_path,
    list_files,
    member_source,
    open_regular,
    read_archive,
    read_file,
    source_name,
    unpack,
    unread_hint,
)
from .object_defaults import default_namespace, default_object, priority_classes
from .parts_reader import Parts, PartsReader
from .python_values import Source, is_manifest, is_path, text_of
from .snapshots import TABLE, read_config_map, read_flags, read_server_version, read_snapshot, refuse_answers
from .yaml_reader import read_yaml

if TYPE_CHECKING:
    from .yaml_events import DuplicateKey

_PEEK = 4096
_EXAMPLES = 5
_PIECE = 1 << 20
"""Number of bytes that are read at once, whose lines are decoded at once."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_BOM = b"\xef\xbb\xbf"
_TABLE = re.compile(r"(NAMESPACE +)?NAME +[A-Z]{2}")
_LOGS = re.compile(
    rb"^==== START logs for container .*?^==== END logs for container [^\n]*\n?", re.DOTALL | re.MULTILINE
)
_HOOK, _WEIGHT = "helm.sh/hook", "helm.sh/hook-weight"
_PHASES = {"pre-install": -1, "pre-upgrade": -1, "post-install": 1, "post-upgrade": 1}
"""The hooks of Helm that run with a release, before and after its objects; others run at other times."""
_OPEN = "{{"
TEMPLATE_HINT = "; for a template of Helm, use helm template"
_KIND = b"kind"
"""A broken file without this word is no manifest, and may be left out of an archive."""
OWN_GROUP = ".moorage.dev"
"""Last part of the API groups of other documents: sweeps, scenarios, results."""


class WithHooks(NamedTuple):
    """In place of the first path: hooks of Helm that run with a release are read as its objects."""


class Listed(NamedTuple):
    """Objects that were read elsewhere, such as those of an API server, in place of a path.

    Attributes
    ----------
    source : str
        Where they are from, for errors.
    objects : sequence of Object
    server_version : str
        Version of the API server, for example "v1.36.2"; "" where it is not known.
    """

    source: str
    objects: Sequence[Object]
    server_version: str = ""


def load(
    *sources: Source | Listed | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
    like_siblings: bool = True,
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
    name, as ``kubectl apply`` does (see `apply_manifest`); nothing is deleted. One that the API server would
    refuse changes nothing: `Cluster.refused_objects` has it, and a warning names it. Within an argument,
    equal objects count once, and of several readings of an API server's object the newest counts; other
    objects of one name are an error.

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

    Raises
    ------
    InputError
        The input is invalid; names file, object and field of the first error.
    TypeError
        An argument is something else.

    Examples
    --------
    >>> web = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    >>> [node.name for node in load(web).nodes]
    ['n1']
    """
    read = read_objects(*sources, validate=validate, recursive=recursive, namespace=namespace)
    build = partial(
        build_cluster, skipped=read.skipped, refusals=Refusals(check=check), like_siblings=like_siblings
    )
    if len(sources) < 2:  # there is no change, so nothing is left out
        cluster = build(
            in_namespace(_emptied(read.objects), namespace), origins=read.origins, texts=read.texts
        )
    else:
        listed, origins, texts, unserved = _served(read, namespace, 0, lambda: DEFAULT)
        cluster, refused = without_refused(build, listed, origins, texts)
        refused = unserved + refused
        cluster.refused_objects = refused
        cluster.warnings += [f"{refusal.text}." for refusal in refused]
    read.finish(cluster)
    return cluster


def load_before_and_after(
    *sources: Source | Listed | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
    like_siblings: bool = True,
    needs_before: bool = True,
) -> tuple[Cluster, Cluster]:
    """Read a cluster, and what its first source alone comes to. Each source is read once.

    Parameters
    ----------
    validate : {"strict", "warn", "ignore"}
    like_siblings : bool
        See `load`.
    needs_before : bool
        Whether the first source is looked at alone if the others cannot be joined to it.

    Returns
    -------
    before, after : Cluster
        Of the first source, if it was looked at alone, and of all but those objects of later ones that an API
        server would refuse (`Cluster.refused_objects`).

    Raises
    ------
    InputError
        See `load`.
    """
    read = read_objects(*sources, validate=validate, recursive=recursive, namespace=namespace)
    first = read.origins[0].argument if read.objects else 0
    number = sum(origin.argument == first for origin in read.origins)
    release = partial(_release, check, read, number)
    objects, origins, texts, unserved = _served(read, namespace, first, release)
    build = partial(build_cluster, refusals=Refusals(first, check), like_siblings=like_siblings)
    before = joined = None
    refused: list[RefusedObject] = []
    if needs_before or are_manifests(objects[number:]):
        before = build(objects[:number], origins=origins[:number])
        joining = partial(join, before, skipped=read.skipped, check=check)
        further = {at - number: text for at, text in texts.items() if at >= number}
        joined, refused = without_refused(joining, objects[number:], origins[number:], further)
    if joined is None:
        building = partial(build, skipped=read.skipped)
        after, refused = without_refused(building, objects, origins, texts)
    else:
        after = joined
    after.refused_objects = unserved + refused
    read.finish(after)
    return before or after, after


def load_joined(
    before: Cluster,
    *sources: Source,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    check: Check | None = None,
    like_siblings: bool = True,
) -> Cluster | None:
    """Read what changes a cluster that was loaded; see `join`, and `load` for the parameters."""
    read = read_objects(*sources, validate=validate, recursive=recursive, namespace=namespace, all_texts=True)
    release = partial(_release_of, check, before)
    objects, origins, texts, unserved = _served(read, namespace, STORED, release)
    joining = partial(join, before, skipped=read.skipped, check=check)
    after, refused = without_refused(joining, objects, origins, texts)
    if after is not None:
        after.refused_objects = unserved + refused
        read.finish(after)
    return after


def _served(
    read: ReadObjects, namespace: str, cluster: int, release: Callable[[], str]
) -> tuple[list[Object], Sequence[Origin], Mapping[int, bytes], list[RefusedObject]]:
    """Return what was read, without the objects of a change in versions that the deciding release does not
    serve, and these, with those that were not read."""
    unserved = refused_versions(read.ended, cluster, release)
    objects = list(in_namespace(read.objects, namespace))
    if not unserved:
        return objects, read.origins, read.texts, read.refused
    parts = kept_objects(objects, read.origins, read.texts, {origin for origin, _ in unserved})
    return *parts, [*read.refused, *(refused for _, refused in unserved)]


def _release(check: Check | None, read: ReadObjects, number: int) -> str:
    """Return the release that decides for the first objects that were read."""
    first = read.objects[:number]
    nodes = [obj for obj in first if isinstance(obj, Node)]
    pods = [obj for obj in first if isinstance(obj, Pod)]
    return _release_of(check, Cluster(nodes, pods, server_version=read.server_version))


def _release_of(check: Check | None, cluster: Cluster) -> str:
    return DEFAULT if check is None else check.release(cluster)


def in_namespace(objects: Iterable[Object], namespace: str) -> Iterator[Object]:
    """Iterate over objects, those put into a namespace that need one and name none."""
    for obj in objects:
        if namespace != "default" and not obj.namespace and default_namespace(obj):
            obj = replace(obj, metadata=replace(obj.metadata, namespace=namespace))
        yield obj


def _emptied(objects: list[Object]) -> Iterator[Object]:
    """Iterate over a list that is emptied meanwhile, so that it keeps no object alive."""
    objects.reverse()
    while objects:
        yield objects.pop()


def read_objects(
    *sources: Source | Listed | WithHooks,
    validate: ValidationMode = "strict",
    recursive: bool = False,
    namespace: str = "default",
    all_texts: bool = False,
    parts: PartsReader | None = None,
) -> ReadObjects:
    """Read the objects of files, directories and values as they are; see `load`.

    Parameters
    ----------
    validate : {"strict", "warn", "ignore"}
    namespace : str
        As for `load`.
    all_texts : bool
        Whether the texts of all objects are kept, not only of those that change an object of an earlier one.
    parts : PartsReader, optional
        What pods and nodes are decoded with, if it is kept from call to call.

    Returns
    -------
    ReadObjects
        Not validated, and without defaults.

    Raises
    ------
    InputError
        The input cannot be decoded.
    """
    reader = _Reader(FieldValidation(validate), all_texts, parts)
    for at, source in enumerate(sources, 1):
        if isinstance(source, WithHooks):
            reader.takes_hooks = True
            continue
        reader.begin_argument()
        if isinstance(source, Listed):
            reader.take(source)
        elif is_path(source):
            reader.read_path(source if isinstance(source, str) else Path(source), recursive)
        else:
            name = f"argument {at}" if len(sources) > 1 else "input"
            reader.read_value(source, name)
    warnings = [no_manifests(reader.left_out, reader.has_templates)] if reader.left_out else []
    if reader.hooks:
        shown = examples(reader.hooks, _EXAMPLES)
        why = "because neither an installation nor an upgrade runs these hooks"
        if not reader.takes_hooks:
            hint = "--hooks puts in those of an installation or upgrade"
            why = f"because Helm runs hooks apart from a release; {hint}"
        warnings.append(f"Left out, {why} ({len(reader.hooks)}): {shown}.")
    if reader.taken_hooks:
        warnings.append(reader.sort_hooks())
    warnings += reader.fields.warnings() + reader.notes
    for at, obj in reader.failed_creates.put(reader.objects):
        reader.objects[at] = obj
    return ReadObjects(
        reader.objects,
        reader.origins,
        reader.texts,
        reader.skipped,
        warnings,
        reader.server_version,
        [target._replace(namespace=target.namespace or namespace) for target in reader.touched],
        reader.ended,
        reader.refused,
    )


def no_manifests(files: list[str], has_templates: bool = False) -> str:
    """Return the warning about files that have no objects.

    Parameters
    ----------
    files : list of str
        At least one.
    has_templates : bool, optional
        Whether some of them are templates.
    """
    shown = examples(files, _EXAMPLES)
    hint = TEMPLATE_HINT if has_templates else ""
    if any(is_chart(file) for file in files):
        hint = f"; {RENDERS}"
    return f"Left out, because there are no objects in these files ({len(files)}): {shown}{hint}."


class ReadObjects(NamedTuple):
    """Objects in reading order, where each is from, the JSON texts of some by index, how many were left out
    by kind, warnings, the version of the API server, "" where no file tells it, the objects of later
    arguments that may let it admit what it refused, objects in versions that ended, and those of a change
    that are not read, because an API server would refuse them."""

    objects: list[Object]
    origins: Sequence[Origin]
    texts: Mapping[int, bytes]
    skipped: Mapping[str, int]
    warnings: list[str]
    server_version: str
    touched: list[Touched]
    ended: list[ReadEnded]
    refused: list[RefusedObject]

    def finish(self, cluster: Cluster) -> None:
        """Give a cluster of these objects what is known beside them."""
        cluster.warnings += self.warnings
        cluster.server_version = self.server_version or cluster.server_version
        cluster.failures = cluster.failures.without(self.touched)
        cluster.ended = [*cluster.ended, *(ended_object.obj for ended_object in self.ended)]


class _Reader:
    """Collects the objects of all files, in reading order."""

    def __init__(self, fields: FieldValidation, all_texts: bool, parts: PartsReader | None) -> None:
        self.objects: list[Object] = []
        self._origins = Origins()
        self.origins: Sequence[Origin] = self._origins
        self.texts: dict[int, bytes] = {}
        self._all_texts = all_texts
        self._earlier: dict[tuple[str, str], Object] = {}  # one of each kind and name in earlier arguments
        self._indexed = 0  # number of the objects that are among them
        self.skipped: Counter[str] = Counter()
        self.notes: list[str] = []
        self.ended: list[ReadEnded] = []
        self.refused: list[RefusedObject] = []  # that were not read
        self.left_out: list[str] = []
        self.has_templates = False  # among the files that are left out
        self.hooks: list[str] = []  # that are left out
        self.takes_hooks = False
        self.taken_hooks: dict[int, tuple[int, int, str]] = {}  # by index: phase, weight and name
        self._arguments = 0
        self.failed_creates = FailedCreates()
        self.touched: list[Touched] = []
        self.server_version = ""
        self._own_kind = ""  # of the last document of the present path that is one of moorage's own
        self.fields = fields
        self._source = self._kind = ""  # of the present file, and the kind that its place in an archive tells
        self._parts = parts or PartsReader(
            lambda kind, metadata, spec: fields.check_spec(spec, kind, metadata, self._source)
        )

    def begin_argument(self) -> None:
        """Begin the next argument: what is read from now on may change what was read before."""
        self._arguments += 1
        self._origins.begin_argument()
        self._earlier.update(((obj.kind, obj.name), obj) for obj in self.objects[self._indexed :])
        self._indexed = len(self.objects)

    def _keep_text(self, obj: Object, texts: _Texts | list[Any], at: int) -> None:
        """Keep the text of the object that is stored next, if it may change another one."""
        earlier = self._earlier.get((obj.kind, obj.name))
        if self._all_texts or (earlier is not None and not is_newer(obj, earlier)):
            document = texts[at]
            self.texts[len(self.objects)] = (
                bytes(document) if is_json(document) else msgspec.json.encode(document)
            )

    def take(self, listed: Listed) -> None:
        """Take objects that were read elsewhere."""
        self.server_version = listed.server_version
        for at, obj in enumerate(listed.objects):
            self._store(obj, listed.source, 1, at)

    def read_value(self, value: object, name: str) -> None:
        """Read a text or values of Python; errors call them by a name."""
        self._kind = ""
        data, source = text_of(value, name)
        if is_manifest(value):
            self._source = source
            self._read_whole(data, Origin(source, 1))
        else:
            self._read_file(BytesIO(unpack(data, source)), source, False)

    def read_path(self, path: str | Path, recursive: bool) -> None:
        """Read a file, a directory or an archive."""
        before, self._own_kind = self._read_so_far(), ""
        may_leave_out = is_directory(path)
        for file in list_files(path, recursive):
            source = source_name(file)
            members = read_archive(file)
            if members is None:
                self._kind = kind_of_path(file)
                with open_regular(file) or BytesIO(read_file(file)) as opened:
                    self._read_file(opened, source, may_leave_out)
                continue
            may_leave_out, is_empty = True, True
            with closing(members):
                for member in members:
                    is_empty = False
                    self._kind = kind_of_path(member.name)
                    self._read_file(BytesIO(member.data), member_source(source, member.name), True)
            if is_empty:
                raise InputError("no .json, .yaml or .yml file in this archive", source=source)
        if before == self._read_so_far():
            source = source_name(str(path))
            if may_leave_out:
                hint = unread_hint(path, recursive) or (TEMPLATE_HINT if self.has_templates else "")
                raise InputError(f"its files have no objects{hint}", source=source)
            if self._own_kind:
                raise InputError(f"a {self._own_kind} of moorage, not a dump of objects", source=source)

    def _read_so_far(self) -> tuple[int, int]:
        return len(self.objects) + len(self.hooks) + len(self.refused), self.skipped.total()

    def _read_file(self, opened: BinaryIO, source: str, may_leave_out: bool) -> None:
        """Read a file; one without objects may be left out."""
        before = self._read_so_far()
        try:
            self._read_stream(opened, source)
        except NoManifestError as error:
            if not may_leave_out or before != self._read_so_far():
                raise
            self.left_out.append(source)
            self.has_templates |= error.message.endswith(TEMPLATE_HINT)

    def _read_stream(self, opened: BinaryIO, source: str) -> None:
        self._source = source
        number, rest, lines = 0, b"", 0
        with opened:
            try:
                if (text := _utf16(opened)) is not None:
                    opened = BytesIO(text)
                if not has_suffix(source, YAML_SUFFIXES):  # in YAML lines like JSON may be something else
                    number, rest, lines = self._read_lines(opened, source)
                if not number:
                    opened.seek(0)
                    rest = opened.read().removeprefix(_BOM)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", source=source) from None
        if not number and self._read_parts(rest, Origin(source, 1)):
            return
        rest = _without_logs(rest)
        for document in _json_documents(rest, source, lines) if number else self._documents(rest, source):
            number += 1
            self._read_whole(document, Origin(source, number))
        if not number:
            raise NoManifestError("this file is empty", source=source)

    def _read_lines(self, opened: BinaryIO, source: str) -> tuple[int, bytes, int]:
        """Read the objects at the beginning of a file of JSON lines, piece by piece.

        Returns
        -------
        number : int
            Number of objects.
        rest : bytes
            What follows the objects, if there were any.
        lines : int
            Number of lines before `rest`.
        """
        number, lines = 0, 0
        data = opened.read(_PIECE).removeprefix(_BOM)
        while end := data.rfind(b"\n") + 1:
            piece = memoryview(data)[:end]
            objects = self._parts.split_lines(piece)
            if objects is None:
                break
            texts = _Texts(partial(_RAW.decode_lines, piece))
            for at, parts in enumerate(objects):
                number += 1
                if not self._store(self._read_part(parts, self._kind, texts, at), source, number, None):
                    try:
                        self._read_whole(texts[at], Origin(source, number))
                    except InputError:
                        # An error of the syntax comes first.
                        _json_documents(data + opened.read(), source, lines)
                        raise
            lines += data.count(b"\n", 0, end)
            data = data[end:] + opened.read(_PIECE)
        rest = data + opened.read() if number else b""
        return number, b"" if rest.isspace() else rest, lines

    def _read_whole(self, document: Any, origin: Origin) -> None:
        """Read an object or a list."""
        if not (is_json(document) and self._read_parts(document, origin)):
            self._read_document(document, self._kind, origin)

    def _read_parts(self, document: bytes | msgspec.Raw, origin: Origin) -> bool:
        """Read an object or a list by its parts (see `PartsReader`), and other items of the list as a whole.

        Returns
        -------
        bool
            False if nothing was read, because the document is to be read as a whole.
        """
        parts = self._parts.split(document)
        if parts is None or parts.items is None:
            return parts is not None and self._store(
                self._read_part(parts, self._kind, [document], 0), *origin[:3]
            )
        if not str(parts.kind).endswith("List") or "/" in str(parts.api_version):
            return False
        kind = str(parts.kind).removesuffix("List")
        texts = _Texts(lambda: decode(document, Head[msgspec.Raw]).items or [])
        for at, item in enumerate(parts.items):
            if not self._store(self._read_part(item, kind, texts, at), origin.source, origin.document, at):
                self._read_document(texts[at], kind, origin._replace(item=at))
        return True

    def _read_part(self, parts: Parts, kind: str, texts: _Texts | list[Any], at: int) -> Object | None:
        """Read an object by its parts, if its fields need no check; its whole text is ``texts[at]``."""
        obj = self._parts.read(parts, kind)
        if obj is None:
            return None
        is_served = obj.metadata.uid or obj.metadata.resource_version
        if is_served or self.fields.mode == "ignore" or self.fields.is_sound(texts[at], obj.kind):
            if self._earlier or self._all_texts:
                self._keep_text(obj, texts, at)
            return obj
        return None

    def _store(self, obj: Object | None, source: str, document: int, item: int | None) -> bool:
        """Store an object, unless there is none."""
        if obj is None:
            return False
        if _HOOK in obj.metadata.annotations and not obj.metadata.uid and makes_pods(obj):
            phases = [_PHASES[event] for event in _events_of(obj) if event in _PHASES]
            if not (self.takes_hooks and phases):
                self.hooks.append(shorten(_hook_text(obj)))
                self.texts.pop(len(self.objects), None)
                return True
            self.taken_hooks[len(self.objects)] = phases[0], _weight_of(obj), obj.name
        self.objects.append(obj)
        self._origins.add(source, document, item)
        return True

    def sort_hooks(self) -> str:
        """Put the hooks of each argument before and after its other objects, as Helm runs them: by weight,
        then by name. Return the warning that names them."""
        origins, taken, objects = list(self.origins), self.taken_hooks, self.objects
        order = sorted(range(len(objects)), key=lambda at: (origins[at].argument, *taken.get(at, (0, 0, ""))))
        self.objects = [objects[at] for at in order]
        self.origins = [origins[at] for at in order]
        self.texts = {new: self.texts[old] for new, old in enumerate(order) if old in self.texts}
        hooks = [shorten(_hook_text(objects[at])) for at in order if at in taken]
        text = "Hooks of Helm are put in, in the order in which it runs them, and all at once"
        return f"{text} ({len(hooks)}): {examples(hooks, len(hooks))}."

    def _read_document(self, document: Any, kind: str, origin: Origin) -> None:
        """Read an object or a list; nested lists are flattened without recursion."""
        pending = [(document, kind, origin)]
        while pending:
            document, kind, origin = pending.pop()
            try:
                pending += self._read_one(document, kind, origin)
            except InputError as error:
                obj = label(*_identity(document, kind), origin)
                path = shorten(error.path)
                if _is_template(document, error.path):
                    error = _no_manifest(error, TEMPLATE_HINT)
                is_whole = isinstance(error, NoManifestError) and origin.item is None
                wrapped = NoManifestError if is_whole else InputError
                raise wrapped(error.message, source=origin.source, obj=obj, path=path) from None
            except RecursionError:
                raise InputError("nested too deeply", source=origin.source) from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                invalid = InputError(f"invalid JSON: {_reason(error)}", source=origin.source)
                raise (invalid if _KIND in bytes(document) else _no_manifest(invalid)) from None

    def _read_one(self, document: Any, kind: str, origin: Origin) -> list[tuple[Any, str, Origin]]:
        """Store or count one object; items of a list are returned in reverse order."""
        items = _items(document, kind)
        if items is not None:
            return [(item, kind, origin._replace(item=at)) for at, item in enumerate(items)][::-1]
        try:
            head = decode(document, Head[msgspec.Raw] if is_json(document) else Head[Any])
        except InputError as error:
            raise (error if error.path == "items" else _no_manifest(error)) from None
        kind = head.kind or kind
        if head.api_version.startswith("audit.k8s.io/"):
            raise NoManifestError("an audit log, not a dump of objects")
        refuse_answers(document, kind, head.api_version, origin.source)
        is_own = head.api_version.partition("/")[0].endswith(OWN_GROUP)
        if is_own and not is_known(kind, head.api_version):
            self._own_kind = kind
            return []
        if not kind:
            return self._read_snapshot(document, origin)
        if kind == "List" or (kind.endswith("List") and head.items is not UNSET):
            kind, items = (
                kind.removesuffix("List"),
                list(head.items or ()),
            )  # Go writes null for an empty list
            return [(item, kind, origin._replace(item=at)) for at, item in enumerate(items)][::-1]
        self._note_touched(document, kind, head.api_version)
        obj, first = None, len(self.objects)
        is_past = is_before_karpenter_1(kind, head.api_version) and _is_of_server(document)
        if is_known(kind, head.api_version) and not is_past:
            if self._is_unserved(document, kind, head.api_version, origin):
                return []
            obj = decode_kind(document, kind)
        elif kind == "ConfigMap":
            obj = read_config_map(document)
        if obj is not None and is_simulated(obj):
            version = head.api_version or obj.api_version  # as it was before a conversion
            self.fields.check(document, kind, version, origin.source, obj.metadata)
            self._keep_text(obj, [document], 0)
            self._store(obj, *origin[:3])
            self._store(read_flags(obj, document), *origin[:3])
        else:
            if has_version(kind, head.api_version):  # fields of versions that are gone are not known
                self.fields.check(document, kind, head.api_version, origin.source)
            custom = read_custom(document, kind, head.api_version)
            is_manifest = custom is None or not (custom.metadata.uid or custom.metadata.resource_version)
            if is_manifest and self._is_unserved(document, kind, head.api_version, origin):
                return []  # a server may be newer than the table
            if custom is None or not custom.document:
                self.skipped[full_kind(kind, head.api_version)] += 1
            if custom is not None and (custom.document or custom.wanted or custom.metadata.owner_references):
                if custom.document:
                    self._keep_text(custom, [document], 0)
                self._store(custom, *origin[:3])
        if (ended := ended_version(kind, head.api_version)) is not None:
            self._note_ended(ended, document, origin.source, first)
        return []

    def _is_unserved(self, document: Any, kind: str, api_version: str, origin: Origin) -> bool:
        """Whether a manifest of a change is of a kind and version that no release serves, so that it is left
        out; elsewhere that is an error."""
        try:
            check_kind(kind, api_version)
        except InputError as error:
            if not self._is_changing() or _is_of_server(document):
                raise
            _, namespace, name = _identity(document, kind)
            names = kind, api_version, namespace, name
            self.refused.append(refused_object(InputError(error.message), names, origin.source))
            return True
        return False

    def _is_changing(self) -> bool:
        """Whether what is read now changes objects that were read before, or elsewhere."""
        return self._all_texts or (bool(self.objects) and self.origins[0].argument < self._origins.argument)

    def _note_touched(self, document: Any, kind: str, api_version: str) -> None:
        """Note an object of a change that may let the API server admit what it refused, and an event that
        says what it refuses."""
        if full_kind(kind, api_version) in EVENTS:
            self.failed_creates.take(document)
        touched = Touched(kind, api_version.rpartition("/")[0], "", "")
        if (self._arguments > 1 or self._all_texts) and touched.may_admit:
            meta = metadata_of(document) or ObjectMeta()
            self.touched.append(touched._replace(namespace=meta.namespace, name=meta.name))

    def _note_ended(self, version: EndedVersion, document: Any, source: str, at: int) -> None:
        """Note that an object is in a version that ended; it is the last one that was stored, unless as many
        are as before."""
        _, namespace, name = _identity(document, version.kind)
        obj, is_stored = EndedObject(version, namespace, name, source), len(self.objects) > at
        is_manifest = not _is_of_server(document)
        stored = self.origins[at] if is_stored else None
        self.ended.append(ReadEnded(obj, self._origins.argument, stored, is_manifest))

    def _read_snapshot(self, document: Any, origin: Origin) -> list[tuple[Any, str, Origin]]:
        """Return the objects of a snapshot of another tool, in reverse order."""
        snapshot = read_snapshot(document)
        if snapshot is None and (version := read_server_version(document)):
            self.server_version = version
            return []
        if snapshot is None:
            raise NoManifestError(f"no kind{_what_it_is(decode(document, dict[str, Any]))}")
        lists, left_out = snapshot
        self.skipped.update(left_out)
        items = [(item, kind) for kind, listed in lists for item in listed]
        return [(item, kind, origin._replace(item=at)) for at, (item, kind) in enumerate(items)][::-1]

    def _documents(self, data: bytes, source: str) -> Iterable[Any]:
        """Split a file into documents: JSON texts, or values of YAML documents."""
        if data[:_PEEK].lstrip()[:1] in (b"{", b"["):
            try:
                return _json_documents(data, source, 0)
            except InputError:
                if not has_suffix(source, YAML_SUFFIXES):  # in YAML a flow map may look like JSON
                    raise
        if has_suffix(source, (".csv",)):
            raise NoManifestError(
                "a CSV file, not a dump of objects; for a trace, use moorage replay", source=source
            )
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if b"\0" not in data:
                line = data.count(b"\n", 0, error.start) + 1
                hint = f"not UTF-8 (byte 0x{data[error.start]:02x}); iconv converts, as from Latin-1"
                raise NoManifestError(hint, source=f"{source}:{line}") from None
            text = "\0"
        if "\0" in text:
            hint = "give YAML, JSON, or an archive of these (tar, zip, gzip, zstd, …)"
            raise NoManifestError(f"not a text file; {hint}", source=source)
        if text.startswith("No resources found"):
            raise NoManifestError("kubectl found no objects when it wrote this file", source=source)
        if _TABLE.match(text):
            raise NoManifestError(TABLE, source=source)
        documents = self._of_yaml(text, source)
        if _OPEN not in text and _KIND in data:
            return map(_as_json, documents)
        listed = _of_no_manifest(documents, _OPEN in text)  # a template of Helm, or no manifest at all
        for document in listed if _OPEN in text else ():
            _refuse_template(document, source)
        return map(_as_json, listed)

    def _of_yaml(self, text: str, source: str) -> Iterator[Any]:
        """Read YAML documents; with duplicate keys, unless they are refused."""
        duplicates: list[DuplicateKey] = []
        yield from read_yaml(text, source, None if self.fields.mode == "strict" else duplicates)
        for duplicate in duplicates:
            self.fields.add_duplicate(*duplicate, source)


def _is_of_server(document: Any) -> bool:
    """Whether a server has given an object."""
    metadata = decode(document, dict[str, Any]).get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid") or metadata.get("resourceVersion"))


def _events_of(hook: Object) -> list[str]:
    return [event.strip() for event in hook.metadata.annotations[_HOOK].split(",")]


def _weight_of(hook: Object) -> int:
    """Return the weight of a hook of Helm; 0 if it is no number, as Helm takes it."""
    with suppress(ValueError):
        return int(hook.metadata.annotations.get(_WEIGHT, ""))
    return 0


def _hook_text(hook: Object) -> str:
    weight = f", weight {_weight_of(hook)}" if _WEIGHT in hook.metadata.annotations else ""
    return f"{hook.full_kind} {hook.name} ({', '.join(_events_of(hook))}{weight})"


def _what_it_is(document: Mapping[str, Any]) -> str:
    """Return what an error adds about a map that is no object."""
    if "events" in document:
        return ": a trace, not a dump of objects"
    if {"clientVersion", "Client Version"} & document.keys():
        hint = "use kubectl get -A -o json nodes,pods"
        return f": what kubectl version prints, without a cluster's version; {hint}"
    return ""


def _without_logs(data: bytes) -> bytes:
    """Return the output of ``kubectl cluster-info dump`` without the logs between its lists."""
    return _LOGS.sub(b"", data) if b"==== START logs for container " in data else data


def _utf16(opened: BinaryIO) -> bytes | None:
    """Return the text of a file that is UTF-16 with a byte order mark, as UTF-8; None for another file."""
    head = opened.read(2)
    opened.seek(0)
    if head not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return None
    return opened.read().decode("utf-16", errors="replace").encode(errors="replace")


def _of_no_manifest(documents: Iterable[Any], is_template: bool) -> list[Any]:
    """Return the documents of a text that is no manifest if they cannot be read."""
    try:
        return list(documents)
    except InputError as error:
        raise _no_manifest(error, TEMPLATE_HINT if is_template else "") from None


def _refuse_template(document: Any, source: str) -> None:
    """Raise a NoManifestError for a document that is an object but for the braces of a template in what names
    it: an object of a server never has them there, though its arguments or annotations may."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return
    labels = metadata.get("labels")
    values = {f"metadata.{field}": metadata.get(field) for field in ("name", "generateName", "namespace")}
    if isinstance(labels, dict):
        values |= {f"metadata.labels.{key}": value for key, value in labels.items()}
    for path, value in values.items():
        if isinstance(value, str) and _OPEN in value:
            raise NoManifestError(f'"{shorten(value)}"{TEMPLATE_HINT}', source=source, path=shorten(path))


def _is_template(document: Any, path: str) -> bool:
    """Whether the value of a document at the path of an error has the braces of a template."""
    with suppress(*UNREADABLE, LookupError, TypeError):
        value = msgspec.json.decode(document) if is_json(document) else document
        for key, index in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", path):
            value = value[int(index)] if index else value[key]
        return isinstance(value, str) and _OPEN in value
    return False


def _no_manifest(error: InputError, hint: str = "") -> NoManifestError:
    return NoManifestError(error.message + hint, source=error.source, obj=error.obj, path=error.path)


def _as_json(document: Any) -> Any:
    """Return a YAML document as JSON text, whose objects are read in a fifth of the time (see `PartsReader`);
    the value itself where it is no map."""
    return msgspec.json.encode(document) if isinstance(document, dict) else document


class _Outline(msgspec.Struct):
    """What tells an object from other maps."""

    kind: str = ""
    metadata: dict[str, Any] | None = None


def _items(document: Any, kind: str) -> list[Any] | None:
    """Return the objects of a document that is a plain list of them; None for a map.

    Parameters
    ----------
    kind : str
        That of objects that name none.

    Raises
    ------
    NoManifestError
        The document is neither a map nor a list of objects.
    """
    if is_json(document) and bytes(memoryview(document)[:_PEEK]).lstrip()[:1] == b"[":
        document = decode(document, list[msgspec.Raw])
    if is_json(document) or isinstance(document, dict):
        return None
    if not isinstance(document, list):
        names = {str: "string", bool: "boolean", int: "integer", float: "number"}
        raise NoManifestError(f"expected map, got {names.get(type(document), 'null')}")
    if not document or not all(_is_object(item, kind) for item in document):
        raise NoManifestError("a list, but not of objects")
    return document


def _is_object(item: Any, kind: str) -> bool:
    try:
        outline = decode(item, _Outline)
    except InputError:
        return False
    return bool(outline.kind or kind) and outline.metadata is not None


class _Texts:
    """Texts of several objects, which are split when the first of them is asked for."""

    def __init__(self, split: Callable[[], list[msgspec.Raw]]) -> None:
        self._split = split

    def __getitem__(self, at: int) -> msgspec.Raw:
        return self._texts[at]

    @cached_property
    def _texts(self) -> list[msgspec.Raw]:
        return self._split()


def _json_documents(data: bytes, source: str, lines: int) -> list[msgspec.Raw]:
    """Split concatenated JSON texts, which follow some lines; only their syntax is checked."""
    documents = []
    start = 0
    while start < len(data):
        end = len(data)
        try:
            document = msgspec.json.decode(memoryview(data)[start:], type=msgspec.Raw)
        except RecursionError:
            raise InputError("nested too deeply", source=source) from None
        except msgspec.DecodeError as error:
            at = re.search(r"\(byte (\d+)\)", str(error))
            end = start + int(at[1]) - 1 if at else len(data)
            if at is None or "trailing characters" not in str(error):
                line = lines + data.count(b"\n", 0, end) + 1
                invalid = InputError(f"invalid JSON: {_reason(error)}", source=f"{source}:{line}")
                raise (invalid if _KIND in data else _no_manifest(invalid)) from None
            document = msgspec.Raw(data[start:end])
        documents.append(document)
        start = end
    return documents


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if "truncated" in text else text.partition(" (byte")[0]


class _Identity(msgspec.Struct):
    """The identifying fields of an object."""

    kind: Any = ""
    metadata: Any = None


def _identity(document: Any, kind: str) -> tuple[str, str, str]:
    """Kind, namespace and name of an object that cannot be decoded; "" where unreadable."""
    try:
        identity = decode(document, _Identity)
    except (InputError, UnicodeDecodeError):
        identity = _Identity()
    names = identity.metadata if isinstance(identity.metadata, dict) else {}
    texts = identity.kind or kind, names.get("namespace"), names.get("name")
    kind, namespace, name = (text if isinstance(text, str) else "" for text in texts)
    return kind, namespace, name


# ---- one object --------------------------------------------------------------------------------------------
#
# One object from a value of Python, with the validation and the defaults that a file's objects get.

T = TypeVar("T", bound=Object)

_PARTS = PartsReader()
"""Pods that are read one by one and have the same template share what was decoded and checked of it."""


@overload
def read_object(source: Source, kind: type[T], *, classes: Iterable[PriorityClass] = ()) -> T: ...


@overload
def read_object(source: Source, *, classes: Iterable[PriorityClass] = ()) -> Object: ...


def read_object(
    source: Source, kind: type[Object] = Object, *, classes: Iterable[PriorityClass] = ()
) -> Object:
    """Read one object: check it as `load` does, and set the API server's defaults.

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
    obj = read_one(source)
    if not isinstance(obj, kind):
        raise InputError(f"must be a {kind.__name__}", obj=f"{obj.kind} {obj.key}".strip())
    return obj if obj is source else with_defaults(obj, classes)


def read_one(source: Source) -> Object:
    """Read one object as it is written: its fields are checked, and nothing is added.

    Parameters
    ----------
    source : dict, object, str, bytes, Path or file object
        See `load`.

    Returns
    -------
    Object
        One of moorage's own objects as it is.

    Raises
    ------
    InputError
        It cannot be read, or there is not exactly one.
    """
    if isinstance(source, Object):
        return source
    read = read_objects(source, parts=_PARTS)
    if read.skipped:
        kind = next(iter(read.skipped))
        raise InputError(versions_gone().get(kind) or f"scheduling does not read this kind: {kind}")
    if len(read.objects) != 1:
        raise InputError(f"must be one object, not {len(read.objects)}")
    return read.objects[0]


def with_defaults(obj: Object, classes: Iterable[PriorityClass] = ()) -> Object:
    """Validate an object, and set the API server's defaults.

    Parameters
    ----------
    classes : iterable of PriorityClass
        See `read_object`.

    Raises
    ------
    InputError
        The object is invalid.
    """
    validate(obj)
    return default_object(obj, priority_classes(classes), Names())
