"""Splits texts into documents: those of YAML, and JSON texts; says what a text is that is neither.

YAML is read as Kubernetes does, to one JSON value per document. The rules are those of sigs.k8s.io/yaml:
scalar keys become strings, duplicate keys are an error. Texts in block style have a reader of their own;
PyYAML, which takes long to import, reads the others.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from moorage.errors import InputError, NoManifestError, shorten

from .. import read as room
from ..apiserver.decode import UNREADABLE, is_json
from .files import YAML_SUFFIXES, has_suffix

if TYPE_CHECKING:
    from .yaml_events import DuplicateKey

TABLE = "a table that kubectl get prints; use kubectl get -o json or -o yaml"
PEEK = 4096
_TABLE = r"(NAMESPACE +)?NAME +[A-Z]{2}"
_LOGS = re.compile(
    rb"^==== START logs for container .*?^==== END logs for container [^\n]*\n?", re.DOTALL | re.MULTILINE
)
_OPEN = "{{"
TEMPLATE_HINT = "; for a template of Helm, use helm template"
KIND = b"kind"
"""A broken file without this word is no manifest, and may be left out of an archive."""


def read_yaml(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    """Read the documents of a YAML text, without empty ones.

    Parameters
    ----------
    source : str
        Name of the file, for errors.
    duplicates : list of DuplicateKey, optional
        Gets the duplicate keys, of which the last value counts; without a list they are an error.

    Yields
    ------
    object
        One JSON value per document.

    Raises
    ------
    InputError
        The text is not YAML, or has duplicate keys, tags, alias loops or bombs, or deep nesting; names
        `source` and the line.
    """
    try:
        values: Iterable[Any] | None = room.block_yaml.read_block_style(
            text, room.block_yaml.resolve_plain, room.block_yaml.MAX_DEPTH
        )
    except room.block_yaml.UnplacedError:
        values = None
    if values is None:
        from .yaml_events import documents

        values = documents(text, source, duplicates)
    return (document for document in values if document is not None)


def read_first(text: str, source: str) -> tuple[Any, list[DuplicateKey]]:
    """Read the first document of a YAML text, None if it is empty.

    Duplicate keys are not an error. They are returned in the order in which Go's strict decoding reports
    them, and the last value counts.

    Parameters
    ----------
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The text is not YAML; see `read_yaml`.
    """
    from .yaml_events import documents

    duplicates: list[DuplicateKey] = []
    return next(documents(text, source, duplicates), None), duplicates


# ---- texts of files ----------------------------------------------------------------------------------------


def without_logs(data: bytes) -> bytes:
    """Return the output of ``kubectl cluster-info dump`` without the logs between its lists."""
    return _LOGS.sub(b"", data) if b"==== START logs for container " in data else data


def utf8_of(opened: BinaryIO) -> bytes | None:
    """Return the text of a file that is UTF-16 with a byte order mark, as UTF-8; None for another file."""
    head = opened.read(2)
    opened.seek(0)
    if head not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return None
    return opened.read().decode("utf-16", errors="replace").encode(errors="replace")


def split_documents(data: bytes, source: str, read: Callable[[str, str], Iterable[Any]]) -> Iterable[Any]:
    """Split the text of a file into documents.

    Parameters
    ----------
    read : callable
        Reads a YAML text; gets it and the name of the file.

    Returns
    -------
    iterable
        JSON texts; values of YAML documents that are no maps.

    Raises
    ------
    NoManifestError
        The file is something else than a dump or a manifest, or broken without a sign of being one.
    InputError
        The text is neither JSON nor YAML.
    """
    if data[:PEEK].lstrip()[:1] in (b"{", b"["):
        try:
            return json_documents(data, source, 0)
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
    if re.match(_TABLE, text):
        raise NoManifestError(TABLE, source=source)
    documents = read(text, source)
    if _OPEN not in text and KIND in data:
        return map(_as_json, documents)
    is_template = _OPEN in text  # of Helm; else it is no manifest at all
    try:
        listed = list(documents)
    except InputError as error:
        raise no_manifest(error, TEMPLATE_HINT if is_template else "") from None
    for document in listed if is_template else ():
        _refuse_template(document, source)
    return map(_as_json, listed)


def json_documents(data: bytes, source: str, lines: int) -> list[msgspec.Raw]:
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
                invalid = InputError(f"invalid JSON: {reason_of(error)}", source=f"{source}:{line}")
                raise (invalid if KIND in data else no_manifest(invalid)) from None
            document = msgspec.Raw(data[start:end])
        documents.append(document)
        start = end
    return documents


def _as_json(document: Any) -> Any:
    """Return a YAML document as JSON text, whose objects are read in a fifth of the time (see `PartsReader`);
    the value itself where it is no map."""
    return msgspec.json.encode(document) if isinstance(document, dict) else document


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


def is_template(document: Any, path: str) -> bool:
    """Whether the value of a document at the path of an error has the braces of a template."""
    with suppress(*UNREADABLE, LookupError, TypeError):
        value = msgspec.json.decode(document) if is_json(document) else document
        for key, index in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", path):
            value = value[int(index)] if index else value[key]
        return isinstance(value, str) and _OPEN in value
    return False


def no_manifest(error: InputError, hint: str = "") -> NoManifestError:
    return NoManifestError(error.message + hint, source=error.source, obj=error.obj, path=error.path)


def reason_of(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if "truncated" in text else text.partition(" (byte")[0]
