"""Reads the objects of files, directories and values as they are: not validated, and without defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from moorage.errors import InputError, NoManifestError, NoObjectError, UnusableError, examples, shorten
from moorage.lazy import NamedTuple, lazy_attribute
from moorage.notes import RoutineNote

from .. import read as room
from .. import workloads as of_workloads
from ..apiserver.decode import Head, check_required, decode, decode_kind, is_json, is_known
from ..apiserver.overlay import is_newer
from ..apiserver.refusals import (
    FieldValidation,
    Origin,
    Origins,
    ReadEnded,
    ReadFields,
    ValidationMode,
    label,
    refused_object,
)
from ..apiserver.unknown_fields import check_kind, has_version, is_before_karpenter_1, newest_version
from ..model.admission_registration import PolicyParameter
from ..model.cluster import Cluster, EndedObject, RefusedObject
from ..model.meta import Object, ObjectMeta
from ..model.node import Node
from ..model.pod import is_api_server
from ..model.workload import full_kind
from ..releases.release import ended_version
from .documents import (
    KIND,
    PEEK,
    TEMPLATE_HINT,
    is_template,
    json_documents,
    no_manifest,
    read_yaml,
    reason_of,
    split_documents,
    utf8_of,
    without_logs,
)
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
from .object_defaults import default_namespace
from .parts_reader import Parts, PartsReader
from .python_values import Source, is_listed, is_manifest, is_path, text_of

if TYPE_CHECKING:
    from ..model.event import Event
    from ..workloads.seen_failures import Touched
    from .params_reader import ParamsReader
    from .yaml_events import DuplicateKey

_EXAMPLES = 5
_POLICY = "AdmissionPolicy"
_PIECE = 1 << 20
"""Number of bytes that are read at once, whose lines are decoded at once."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_BOM = b"\xef\xbb\xbf"
_HOOK, _WEIGHT = "helm.sh/hook", "helm.sh/hook-weight"
_PHASES = {"pre-install": -1, "pre-upgrade": -1, "post-install": 1, "post-upgrade": 1}
"""The hooks of Helm that run with a release, before and after its objects; others run at other times."""
_EVENT = "Event"
_METRICS = frozenset({"PodMetrics", "NodeMetrics"})
ONLY_METRICS = "only metrics, which `moorage nodes` alone shows"
"""What a note says that an argument has; commands that show metrics leave the note out."""
_OWN_GROUP = ".moorage.dev"
"""Last part of the API groups of other documents: sweeps, scenarios, results."""


class WithHooks(NamedTuple):
    """In place of the first path: hooks of Helm that run with a release are read as its objects."""


class Listed(NamedTuple):
    """Objects that were read elsewhere, such as those of an API server, in place of a path.

    Attributes
    ----------
    source : str
        Where they are from, for errors.
    server_version : str
        Version of the API server, for example "v1.36.2"; "" where it is not known.
    """

    source: str
    objects: Sequence[Object]
    server_version: str = ""


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
    namespace : str
        As for `load`.
    all_texts : bool
        Whether the texts of all objects are kept, not only those of manifests that change earlier ones.
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
        reader.has_more = at < len(sources)
        if isinstance(source, WithHooks):
            reader.takes_hooks = True
            continue
        reader.begin_argument()
        name = f"argument {at}" if len(sources) > 1 else "input"
        before, measured = reader.effects(), len(reader.metrics)
        if isinstance(source, Listed):
            name = source.source
            reader.take(source)
        elif is_path(source):
            name = source_name(str(source))
            reader.read_path(source if isinstance(source, str) else Path(source), recursive)
        else:
            reader.read_value(source, name)
        if before == reader.effects() and reader.is_changing():
            what = ONLY_METRICS if measured < len(reader.metrics) else "nothing that moorage reads"
            reader.notes.append(f"{name} has {what}: the answer is as without it.")
    warnings = list[str]()
    if files := reader.left_out:
        hint = TEMPLATE_HINT if reader.has_templates else ""
        if any(map(is_chart, files)):
            hint = f"; {RENDERS}"
        shown = examples(files, _EXAMPLES)
        text = f"Left out, because there are no objects in these files ({len(files)}): {shown}{hint}."
        warnings.append(text if hint else RoutineNote(text))
    if reader.hooks:
        shown = examples(reader.hooks, _EXAMPLES)
        why = "because neither an installation nor an upgrade runs these hooks"
        if not reader.takes_hooks:
            hint = "--hooks puts in those of an installation or upgrade"
            why = f"because Helm runs hooks apart from a release; {hint}"
        warnings.append(f"Left out, {why} ({len(reader.hooks)}): {shown}.")
    if reader.taken_hooks:
        warnings.append(reader.sort_hooks())
    first, more = reader.origins[0].argument if reader.objects else 0, 0
    if reader.objects and reader.origins[-1].argument > first:
        exports = room.exported_objects
        if more := (last := exports.joined_dump(reader.objects, reader.origins, namespace)) - first:
            reader.origins = [
                origin._replace(argument=first) if origin.argument <= last else origin
                for origin in reader.origins
            ]
        warnings += exports.judge_exports(reader.objects, reader.origins, reader.texts, namespace)
    warnings += reader.fields.warnings() + reader.notes
    if reader.events:
        for at, obj in of_workloads.seen_failures.with_failed_creates(reader.objects, reader.events):
            reader.objects[at] = obj
    return ReadObjects(
        reader.objects,
        reader.origins,
        reader.texts,
        +reader.skipped,
        warnings,
        reader.server_version,
        [target._replace(namespace=target.namespace or namespace) for target in reader.touched],
        reader.ended,
        reader.refused,
        reader.unread,
        reader.fields,
        reader.metrics,
        reader.events,
        more,
    )


class UnreadManifest(NamedTuple):
    """A manifest of a change of a kind that scheduling does not read: its file, and its text or value."""

    source: str
    document: Any


class ReadObjects(NamedTuple):
    """Objects in reading order, where each is from, the JSON texts of some by index, how many were left out
    by kind, warnings, the version of the API server, "" where no file tells it, the objects of later
    arguments that may let it admit what it refused, objects in versions that ended, those of a change that
    are not read, because an API server would refuse them, the others of a change that are not read, what
    was checked of fields, what pods and nodes use, events, and how many arguments after the first are of the
    cluster."""

    objects: list[Object]
    origins: Sequence[Origin]
    texts: Mapping[int, bytes]
    skipped: Mapping[str, int]
    warnings: list[str]
    server_version: str
    touched: list[Touched]
    ended: list[ReadEnded]
    refused: list[RefusedObject]
    unread: list[UnreadManifest]
    fields: FieldValidation
    metrics: list[Object]
    events: list[Event]
    parts: int

    def finish(self, cluster: Cluster) -> None:
        """Give a cluster of these objects what is known beside them."""
        cluster.warnings += self.warnings
        cluster.server_version = self.server_version or cluster.server_version
        cluster.failures = None if cluster.failures is None else cluster.failures.without(self.touched)
        cluster.metrics = [*cluster.metrics, *self.metrics]
        cluster.events = [*cluster.events, *self.events]
        cluster.ended = [*cluster.ended, *(ended_object.obj for ended_object in self.ended)]


class _Reader:
    """Collects the objects of all files, in reading order."""

    def __init__(self, fields: FieldValidation, all_texts: bool, parts: PartsReader | None) -> None:
        self.objects: list[Object] = []
        self._origins = Origins()
        self.origins: Sequence[Origin] = self._origins
        self.texts: dict[int, bytes] = {}
        self._all_texts = all_texts
        self.has_more = False  # whether another argument follows
        self._earlier: dict[tuple[str, str], Object] = {}  # one of each kind and name in earlier arguments
        self._noted = self._indexed = 0  # how many objects are among them; how many are of earlier arguments
        self.skipped: Counter[str] = Counter()
        self.notes: list[str] = []
        self.ended: list[ReadEnded] = []
        self.refused: list[RefusedObject] = []  # that were not read
        self.unread: list[UnreadManifest] = []  # of a change
        self.left_out: list[str] = []
        self.has_templates = False  # among the files that are left out
        self.hooks: list[str] = []  # that are left out
        self.takes_hooks = False
        self.taken_hooks: dict[int, tuple[int, int, str]] = {}  # by index: phase, weight and name
        self._arguments = 0
        self.events: list[Event] = []  # about nodes, and about pods that could not be created
        self.touched: list[Touched] = []
        self.metrics: list[Object] = []
        self.server_version = ""
        self._is_text = True  # what is read now, and no value of Python
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
        self._indexed = len(self.objects)

    def _keep_text(self, obj: Object, texts: _Texts | list[Any], at: int) -> None:
        """Keep the text of the object that is stored next, if it is of a change, or may be changed: people
        change what no controller makes."""
        meta, is_changing = obj.metadata, self.is_changing()
        is_change = is_changing
        if is_changing and (meta.uid or meta.resource_version):
            if self._noted < self._indexed:
                new = self.objects[self._noted : self._indexed]
                self._earlier.update(((each.kind, each.name), each) for each in new)
                self._noted = self._indexed
            earlier = self._earlier.get((obj.kind, obj.name))
            is_change = earlier is not None and not is_newer(obj, earlier)
        may_change = self.has_more or is_changing
        may_change = may_change and meta.controller() is None and not isinstance(obj, Node)
        if self._all_texts or may_change or is_change:
            document = texts[at]
            self.texts[len(self.objects)] = (
                bytes(document) if is_json(document) else msgspec.json.encode(document)
            )

    def take(self, listed: Listed) -> None:
        """Take objects that were read elsewhere."""
        self.server_version = listed.server_version
        for at, obj in enumerate(listed.objects):
            if obj.kind == _EVENT:
                self.events.append(obj)  # type: ignore[arg-type]
            elif obj.kind in _METRICS:
                self.metrics.append(obj)
            else:
                self._store(obj, listed.source, 1, at)

    def read_value(self, value: object, name: str) -> None:
        """Read a text or values of Python; errors call them by a name."""
        self._kind, self._is_text = "", not is_listed(value)
        data, source = text_of(value, name)
        if is_manifest(value):
            self._source = source
            self._read_whole(data, Origin(source, 1))
        else:
            self._read_file(BytesIO(unpack(data, source)), source, False)

    def read_path(self, path: str | Path, recursive: bool) -> None:
        """Read a file, a directory or an archive."""
        before, self._own_kind, self._is_text = self._read_so_far(), "", True
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

    def effects(self) -> tuple[object, ...]:
        """Return what changes with all that is read and may have an effect on scheduling."""
        seen = len(self.touched), len(self.events), self.server_version
        return len(self.objects), len(self.hooks), len(self.refused), *seen

    def _read_so_far(self) -> tuple[int, int]:
        aside = len(self.metrics) + len(self.events)
        return len(self.objects) + len(self.hooks) + len(self.refused) + aside, self.skipped.total()

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
                if (text := utf8_of(opened)) is not None:
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
        rest = without_logs(rest)
        for document in (
            json_documents(rest, source, lines) if number else split_documents(rest, source, self._of_yaml)
        ):
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
                        json_documents(data + opened.read(), source, lines)
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
        if not parts.api_version and self.is_changing():
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
        if obj is None or is_api_server(obj):
            return None
        is_served = obj.metadata.uid or obj.metadata.resource_version
        if not is_served and parts.kind and not parts.api_version and self.is_changing():
            return None
        if is_served or self.fields.mode == "ignore" or self.fields.is_sound(texts[at], obj.kind):
            if self._indexed or self._all_texts or self.has_more:
                self._keep_text(obj, texts, at)
            return obj
        return None

    def _store(self, obj: Object | None, source: str, document: int, item: int | None) -> bool:
        """Store an object, unless there is none."""
        if obj is None:
            return False
        if (
            _HOOK in obj.metadata.annotations
            and not obj.metadata.uid
            and of_workloads.custom_objects.makes_pods(obj)
        ):
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
        return RoutineNote(f"{text} ({len(hooks)}): {examples(hooks, len(hooks))}.")

    def _read_document(self, document: Any, kind: str, origin: Origin) -> None:
        """Read an object or a list; nested lists are flattened without recursion."""
        pending = [(document, kind, origin)]
        while pending:
            document, kind, origin = pending.pop()
            try:
                pending += self._read_one(document, kind, origin)
            except InputError as error:
                identity = _identity(document, kind)
                is_file = isinstance(error, NoObjectError) and not any(identity)
                obj = "" if is_file else label(*identity, origin)
                path = shorten(error.path)
                if is_template(document, error.path):
                    error = no_manifest(error, TEMPLATE_HINT)
                elif self._is_undecodable(document, error):
                    self._refuse(document, kind, error, origin)
                    continue
                is_whole = isinstance(error, NoManifestError) and origin.item is None
                wrapped = NoManifestError if is_whole else InputError
                raise wrapped(error.message, source=origin.source, obj=obj, path=path) from None
            except RecursionError:
                raise InputError("nested too deeply", source=origin.source) from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                invalid = InputError(f"invalid JSON: {reason_of(error)}", source=origin.source)
                raise (invalid if KIND in bytes(document) else no_manifest(invalid)) from None

    def _read_one(self, document: Any, kind: str, origin: Origin) -> list[tuple[Any, str, Origin]]:
        """Store or count one object; items of a list are returned in reverse order."""
        items = _items(document, kind)
        if items is not None:
            return [(item, kind, origin._replace(item=at)) for at, item in enumerate(items)][::-1]
        try:
            head = decode(document, Head[msgspec.Raw] if is_json(document) else Head[Any])
        except InputError as error:
            raise (error if error.path == "items" else no_manifest(error)) from None
        kind = head.kind or kind
        if head.api_version.startswith("audit.k8s.io/"):
            raise NoManifestError("an audit log, not a dump of objects")
        room.snapshots.refuse_answers(document, kind, head.api_version, origin.source)
        if self._read_aside(document, kind, head.api_version):
            return []
        if not kind:
            return self._read_snapshot(document, origin)
        if head.kind and not head.api_version and self._is_unversioned(document, kind, origin):
            return []
        if kind == "List" or (kind.endswith("List") and head.items is not UNSET):
            kind, items = kind.removesuffix("List"), list(head.items or ())  # Go: null
            return [(item, kind, origin._replace(item=at)) for at, item in enumerate(items)][::-1]
        self._note_touched(document, kind, head.api_version)
        obj, first, differs = None, len(self.objects), False
        is_past = is_before_karpenter_1(kind, head.api_version) and _is_of_server(document)
        if is_known(kind, head.api_version) and not is_past:
            if self._is_unserved(document, kind, head.api_version, origin):
                return []
            obj = decode_kind(document, kind)
        elif kind == "ConfigMap":
            obj = room.snapshots.read_config_map(document)
        if obj is not None and of_workloads.deployment_rollout.is_simulated(obj):
            version = head.api_version or obj.api_version  # as it was before a conversion
            differs = self.fields.check(document, kind, version, origin.source, obj.metadata)
            check_required(document, kind)
            self._keep_text(obj, [document], 0)
            self._store(obj, *origin[:3])
            self._store(room.snapshots.read_flags(obj, document), *origin[:3])
            self._store_params(self._params.of_policy(obj) if kind.endswith(_POLICY) else (), origin)
        else:
            if has_version(kind, head.api_version):  # fields of versions that are gone are not known
                differs = self.fields.check(document, kind, head.api_version, origin.source)
            custom = of_workloads.custom_objects.read_custom(document, kind, head.api_version)
            is_manifest = custom is None or not (custom.metadata.uid or custom.metadata.resource_version)
            names = document, kind, head.api_version, origin
            if (is_manifest and self._is_unserved(*names)) or self._is_refused(*names):
                return []  # a server may be newer than the table
            is_param = self._store(self._params.param(document, kind, head.api_version), *origin[:3])
            is_group = self._store(room.snapshots.read_machine_group(document, kind), *origin[:3])
            if not (is_param or is_group) and (custom is None or not custom.document):
                self.skipped[full_kind(kind, head.api_version)] += 1
                if is_manifest and self.is_changing():
                    self.unread.append(UnreadManifest(origin.source, document))
            if custom is not None and (custom.document or custom.wanted or custom.metadata.owner_references):
                if custom.document:
                    self._keep_text(custom, [document], 0)
                self._store(custom, *origin[:3])
        self._note_releases(document, (kind, head.api_version), origin.source, first, differs)
        return []

    def _read_aside(self, document: Any, kind: str, api_version: str) -> bool:
        """Note a document of moorage, metrics, or an event; False for others, which a cluster may store, and
        for events that nothing reads."""
        group = api_version.partition("/")[0]
        if kind == _EVENT and group in ("", "v1", "events.k8s.io"):
            from ..model.event import FAILED_CREATE, Event  # few inputs have events

            with suppress(InputError):  # of another shape
                event = decode(document, Event)
                if event.about.kind == Node.__name__ or event.reason == FAILED_CREATE:
                    self.events.append(event)
                    return True
            return False
        if kind in _METRICS and group in ("", "metrics.k8s.io"):
            from .usage_metrics import read_metrics  # few inputs have metrics

            self.metrics.append(read_metrics(document, kind))
            return True
        if group.endswith(_OWN_GROUP) and not is_known(kind, api_version):
            self._own_kind = kind
            return True
        return False

    def _is_undecodable(self, document: Any, error: InputError) -> bool:
        """Whether an error is one of an API server, which cannot decode an object of a change."""
        if isinstance(error, NoManifestError | NoObjectError | UnusableError) or not self.is_changing():
            return False
        with suppress(InputError):
            decode(document, dict[str, Any])
            return True
        return False

    def _refuse(self, document: Any, kind: str, error: InputError, origin: Origin) -> None:
        """Note that an API server cannot decode a manifest."""
        named, namespace, name = _identity(document, kind)
        version = decode(document, Head[Any]).api_version
        text = f"{error.path}: {error.message}" if error.path else error.message
        names = named, version, namespace, name or f"({label('', '', '', origin)})"
        self.refused.append(refused_object(InputError(text), names, origin.source))

    @lazy_attribute
    def _params(self) -> ParamsReader:
        """Chooses the params of policies."""
        return room.params_reader.ParamsReader()

    def _store_params(self, params: Iterable[PolicyParameter], origin: Origin) -> None:
        """Store objects that were left out before a policy named their kind."""
        for param in params:
            self._store(param, *origin[:3])
            self.skipped.subtract([full_kind(param.value["kind"], param.value["apiVersion"])])

    def _is_unversioned(self, document: Any, kind: str, origin: Origin) -> bool:
        """Whether a text of a change, which lacks a version, is left out: kubectl takes none such."""
        if not (self._is_text and self.is_changing()) or _is_of_server(document):
            return False
        version = newest_version(kind)
        hint = f"; write {version}" if version else ""
        self._refuse(document, kind, InputError(f"error validating data: apiVersion not set{hint}"), origin)
        return True

    def _is_unserved(self, document: Any, kind: str, api_version: str, origin: Origin) -> bool:
        """Whether a manifest of a change is of a kind and version that no release serves, so that it is left
        out; elsewhere that is an error."""
        try:
            check_kind(kind, api_version)
        except InputError as error:
            if not self.is_changing() or _is_of_server(document):
                raise
            _, namespace, name = _identity(document, kind)
            names = kind, api_version, namespace, name
            self.refused.append(refused_object(InputError(error.message), names, origin.source))
            return True
        return False

    def _is_refused(self, document: Any, kind: str, api_version: str, origin: Origin) -> bool:
        """Whether an API server refuses a manifest of a change of a kind that is not read."""
        if not self.is_changing():
            return False
        from ..admission.manifest_validation import check_unread  # only changes are judged

        try:
            check_unread(document, kind, api_version)
        except InputError as error:
            _, namespace, name = _identity(document, kind)
            self.refused.append(refused_object(error, (kind, api_version, namespace, name), origin.source))
            return True
        return False

    def is_changing(self) -> bool:
        """Whether what is read now changes objects that were read before, or elsewhere."""
        return self._all_texts or self._origins.first_argument < self._origins.argument

    def _note_touched(self, document: Any, kind: str, api_version: str) -> None:
        """Note an object of a change that may let the API server admit what it refused."""
        touched = of_workloads.seen_failures.Touched(kind, api_version.rpartition("/")[0], "", "")
        if (self._arguments > 1 or self._all_texts) and touched.may_admit:
            meta = of_workloads.custom_objects.metadata_of(document) or ObjectMeta()
            self.touched.append(touched._replace(namespace=meta.namespace, name=meta.name))

    def _note_releases(
        self, document: Any, kind: tuple[str, str], source: str, at: int, differs: bool
    ) -> None:
        """Note an object in a version that ended, or with fields about which releases differ; it is the last
        one that was stored, unless as many are as before."""
        ended = ended_version(*kind)
        if ended is None and not differs:
            return
        _, namespace, name = _identity(document, kind[0])
        argument, stored = self._origins.argument, self.origins[at] if len(self.objects) > at else None
        if ended is not None:
            obj, is_manifest = EndedObject(ended, namespace, name, source), not _is_of_server(document)
            self.ended.append(ReadEnded(obj, argument, stored, is_manifest))
        if differs:
            read = ReadFields(document, (*kind, namespace, name), source, argument, stored)
            self.fields.of_some_releases.append(read)

    def _read_snapshot(self, document: Any, origin: Origin) -> list[tuple[Any, str, Origin]]:
        """Return the objects of a snapshot of another tool, in reverse order."""
        snapshot = room.snapshots.read_snapshot(document)
        if snapshot is None and (version := room.snapshots.read_server_version(document)):
            self.server_version = version
            return []
        if snapshot is None:
            raise NoManifestError(f"no kind{_what_it_is(decode(document, dict[str, Any]), origin.source)}")
        lists, left_out = snapshot
        self.skipped.update(left_out)
        items = [(item, kind) for kind, listed in lists for item in listed]
        return [(item, kind, origin._replace(item=at)) for at, (item, kind) in enumerate(items)][::-1]

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


def _what_it_is(document: Mapping[str, Any], source: str) -> str:
    """Return what an error adds about a map that is no object."""
    if "events" in document:
        return ": a trace, not a dump of objects"
    if {"clientVersion", "Client Version"} & document.keys():
        hint = "use kubectl get -A -o json nodes,pods"
        return f": what kubectl version prints, without a cluster's version; {hint}"
    if is_chart(source) or PurePath(source).name.startswith("values"):
        return f"; {RENDERS}"
    return ""


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
    if is_json(document) and bytes(memoryview(document)[:PEEK]).lstrip()[:1] == b"[":
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


def in_namespace(objects: Iterable[Object], namespace: str) -> Iterator[Object]:
    """Iterate over objects, those put into a namespace that need one and name none."""
    for obj in objects:
        if namespace != "default" and not obj.namespace and default_namespace(obj):
            obj = replace(obj, metadata=replace(obj.metadata, namespace=namespace))
        yield obj
