"""Loads files into a cluster: JSON and YAML, lists and directories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from moorage.errors import InputError, shorten
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import Object

from .cluster_builder import Origin, Origins, build_cluster, label
from .decode import Head, decode, decode_kind, is_json, is_known
from .files import YAML_SUFFIXES, has_suffix, list_files, open_regular, read_file, source_name
from .parts_reader import PartsReader
from .yaml_reader import read_yaml

_PEEK = 4096
_PIECE = 1 << 20
"""Number of bytes that are read at once, whose lines are decoded at once."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_BOM = b"\xef\xbb\xbf"


def load(*paths: str | Path) -> Cluster:
    """Read a cluster and its workloads from files and directories.

    Supported are the output of ``kubectl get -o json`` and ``-o yaml``, single objects, lists, multi-document
    YAML and concatenated JSON, each optionally compressed with gzip (up to 1 GiB unpacked). Of a directory
    the ``.json``, ``.yaml`` and ``.yml`` files, also with ``.gz`` appended, are read in the order of their
    names.

    The objects are validated and get the API server's defaults, workloads are expanded to their missing pods,
    and disruption budgets without a status get one (see `build_cluster`). Kinds that scheduling does not read
    are counted in `Cluster.skipped` and named in a warning.

    Parameters
    ----------
    *paths : str or Path
        Files and directories, read in this order; ``"-"`` is standard input.

    Returns
    -------
    Cluster
        The cluster.

    Raises
    ------
    InputError
        The input is invalid; names file, object and field of the first error.
    """
    reader = _Reader()
    for path in paths:
        for file in list_files(path):
            reader.read(file)
    return build_cluster(reader.objects, origins=reader.origins, skipped=reader.skipped)


class _Reader:
    """Collects the objects of all files, in reading order."""

    def __init__(self) -> None:
        self.objects: list[Object] = []
        self.origins = Origins()
        self.skipped: Counter[str] = Counter()
        self._parts = PartsReader()

    def read(self, file: str) -> None:
        source = source_name(file)
        number, rest, lines = 0, b"", 0
        with open_regular(file) or BytesIO(read_file(file)) as opened:
            try:
                if not has_suffix(source, YAML_SUFFIXES):  # in YAML lines like JSON may be something else
                    number, rest, lines = self._read_lines(opened, source)
                if not number:
                    opened.seek(0)
                    rest = opened.read().removeprefix(_BOM)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", source=source) from None
        if not number and self._read_parts(rest, Origin(source, 1)):
            return
        for document in _json_documents(rest, source, lines) if number else _documents(rest, source):
            number += 1
            self._read_whole(document, Origin(source, number))
        if not number:
            raise InputError("empty: there is no object in this file", source=source)

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
            whole: list[msgspec.Raw] = []
            for at, parts in enumerate(objects):
                number += 1
                if not self._store(self._parts.read(parts, ""), source, number, None):
                    whole = whole or _RAW.decode_lines(piece)
                    try:
                        self._read_whole(whole[at], Origin(source, number))
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
            self._read_document(document, "", origin)

    def _read_parts(self, document: bytes | msgspec.Raw, origin: Origin) -> bool:
        """Read an object or a list by its parts (see `PartsReader`), and other items of the list as a whole.

        Returns
        -------
        bool
            False if nothing was read, because the document is to be read as a whole.
        """
        parts = self._parts.split(document)
        if parts is None or parts.items is None:
            return parts is not None and self._store(self._parts.read(parts, ""), *origin)
        if not str(parts.kind).endswith("List") or "/" in str(parts.api_version):
            return False
        kind, whole = str(parts.kind).removesuffix("List"), None
        for at, item in enumerate(parts.items):
            if not self._store(self._parts.read(item, kind), origin.source, origin.document, at):
                whole = whole or decode(document, Head[msgspec.Raw]).items or []
                self._read_document(whole[at], kind, origin._replace(item=at))
        return True

    def _store(self, obj: Object | None, source: str, document: int, item: int | None) -> bool:
        """Store an object, unless there is none."""
        if obj is None:
            return False
        self.objects.append(obj)
        self.origins.add(source, document, item)
        return True

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
                raise InputError(error.message, source=origin.source, obj=obj, path=path) from None
            except RecursionError:
                raise InputError("nested too deeply", source=origin.source) from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(f"invalid JSON: {_reason(error)}", source=origin.source) from None

    def _read_one(self, document: Any, kind: str, origin: Origin) -> list[tuple[Any, str, Origin]]:
        """Store or count one object; items of a list are returned in reverse order."""
        head = decode(document, Head[msgspec.Raw] if is_json(document) else Head[Any])
        kind = head.kind or kind
        if head.api_version.startswith("audit.k8s.io/"):
            raise InputError("an audit log, not a dump of objects")
        if not kind:
            is_trace = "events" in decode(document, dict[str, Any])
            raise InputError("no kind: a trace, not a dump of objects" if is_trace else "no kind")
        if kind == "List" or (kind.endswith("List") and head.items is not None):
            item_kind = kind.removesuffix("List")
            items = [(item, item_kind, origin._replace(item=i)) for i, item in enumerate(head.items or ())]
            return items[::-1]
        if is_known(kind, head.api_version):
            self._store(decode_kind(document, kind), *origin)
        else:
            self.skipped[kind] += 1
        return []


def _documents(data: bytes, source: str) -> Iterable[Any]:
    """Split a file into documents: JSON texts, or values of YAML documents."""
    if data[:_PEEK].lstrip()[:1] in (b"{", b"["):
        try:
            return _json_documents(data, source, 0)
        except InputError:
            if not has_suffix(source, YAML_SUFFIXES):  # in YAML a flow map may look like JSON
                raise
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError("not a text file", source=source)
    return read_yaml(text, source)


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
                raise InputError(f"invalid JSON: {_reason(error)}", source=f"{source}:{line}") from None
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
