"""Objects as values of Python and as text: input in place of files, and what is written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard

from moorage import kube as everything
from moorage.errors import InputError, shorten

from ..model.cluster import Cluster
from ..model.meta import Object
from .files import YAML_SUFFIXES, has_suffix

# ---- write -------------------------------------------------------------------------------------------------
#
# Writes objects as Kubernetes JSON and YAML.


def dump_yaml(value: Any) -> str:
    """Format a value as one YAML document; the order of keys is unchanged."""
    import yaml  # takes long to import

    text: str = yaml.dump(
        value, Dumper=_dumper(), default_flow_style=False, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return text


@cache
def _dumper() -> Any:
    """Return the class of YAML dumpers, without anchors.

    They quote strings that YAML 1.1 or Kubernetes would read as another type.
    """
    import yaml

    from .block_yaml import is_text

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
            is_plain = kind is yaml.ScalarNode and implicit[0] and tag == "tag:yaml.org,2002:str"
            return None if is_plain and not is_text(value) else tag  # None: the emitter quotes it

    return Dumper


def dump(objects: Iterable[Object], format: Literal["json", "yaml"] = "json") -> str:
    """Format objects as text for `load` and ``kubectl apply -f``.

    Parameters
    ----------
    objects : iterable of Object
        Objects in the order of the output.
    format : {"json", "yaml"}
        ``json``: a single object, or a ``List`` with one item per line. ``yaml``: one document per object.

    Returns
    -------
    str
        JSON or YAML text.
    """
    return b"".join(_FORMATS[format](objects)).decode()


def write(path: str | Path, objects: Iterable[Object]) -> None:
    """Write objects to a file; equal objects give equal bytes.

    The suffix of the name decides the format: YAML for ``.yaml`` and ``.yml``, JSON otherwise, compressed if
    ``.gz`` follows.

    Parameters
    ----------
    path : str or Path
        Path of the file.
    objects : iterable of Object
        Objects in the order of the file.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    path = Path(path)
    parts = _FORMATS["yaml" if has_suffix(path.name, YAML_SUFFIXES) else "json"](objects)
    with path.open("wb") as file:
        if path.suffix != ".gz":
            file.writelines(parts)
            return
        import gzip  # most commands write none

        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            packed.writelines(parts)


def write_cluster(path: str | Path, cluster: Cluster) -> None:
    """Write all objects of a cluster (see `write`); `load` returns an equal cluster.

    Objects that the reader skipped and warnings are not written.

    Parameters
    ----------
    path : str or Path
        Path of the file; its suffix decides the format.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    write(path, chain(cluster.namespaces, cluster.nodes, cluster.others, cluster.pods, cluster.finished))


def _json(objects: Iterable[Object]) -> Iterator[bytes]:
    rest = iter(objects)
    first = list(islice(rest, 2))
    if len(first) == 1:
        yield everything.plain.encode_object(first[0]) + b"\n"
        return
    yield b'{"apiVersion":"v1","kind":"List","items":['
    separator = b"\n"
    for obj in chain(first, rest):
        yield separator + everything.plain.encode_object(obj)
        separator = b",\n"
    yield b"\n]}\n"


def _yaml(objects: Iterable[Object]) -> Iterator[bytes]:
    for number, obj in enumerate(objects):
        yield ("---\n" * bool(number) + dump_yaml(everything.plain.object_to_dict(obj))).encode()


_FORMATS: dict[str, Callable[[Iterable[Object]], Iterator[bytes]]] = {"json": _json, "yaml": _yaml}


# ---- python values -----------------------------------------------------------------------------------------
#
# Input from Python in place of files: texts, file objects, dicts, and objects of Kubernetes clients.
#
# Everything becomes the text of a manifest, which is read as that of a file is. So it is validated alike, and
# its errors are the same.

_PREFIX = r"V\d+((alpha|beta)\d+)?(?=[A-Z])"
"""What the official client puts before a kind: ``V1Pod``, ``V1beta1PodGroup``."""


class Readable(Protocol):
    """An open file, or anything else that is read at once."""

    def read(self) -> str | bytes:
        """Return the whole content."""


class ToDict(Protocol):
    """An object of the official client or of lightkube, or a result of moorage that has objects."""

    def to_dict(self) -> Any:
        """Return the object as a manifest."""


class HasManifest(Protocol):
    """An object of pykube."""

    @property
    def obj(self) -> Any:
        """The object as a manifest."""


Value = Mapping[str, Any] | Object | ToDict | HasManifest
"""One object, or a list of them (``kind: List``): a dict with the field names of manifests, one of moorage's
objects, or an object of a Kubernetes client."""

Source = str | os.PathLike[str] | bytes | Readable | Value | Iterable[Value]
"""What `load` reads: a path, the text of a manifest, a file object, or values."""


def is_path(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a source is the path of a file or directory.

    Parameters
    ----------
    source : object
        A `Source`. A text has a line break, or begins with ``{`` or ``[``; any other string is a path.
    """
    if isinstance(source, str):
        return "\n" not in source and source.lstrip()[:1] not in ("{", "[")
    return isinstance(source, os.PathLike)


def file_named(name: str) -> str | Path:
    """Return the name of a file as `load` takes it: never as the text of a manifest."""
    return name if is_path(name) else Path(name)


def is_single(source: object) -> bool:
    """Whether a source is one thing to read, and not several of them.

    Parameters
    ----------
    source : object
        A `Source`, or an iterable of them.
    """
    single = isinstance(source, str | bytes | os.PathLike | Mapping | Object)
    return single or _is_readable(source) or _is_of_client(source) or not isinstance(source, Iterable)


def is_manifest(source: object) -> bool:
    """Whether a source is one value of Python, of which `text_of` makes one JSON text."""
    return isinstance(source, Mapping | Object) or _is_of_client(source)


def is_listed(source: object) -> bool:
    """Whether a source is values of Python, and neither a text nor a file."""
    return not (isinstance(source, str | bytes | bytearray | memoryview) or _is_readable(source))


def text_of(source: object, name: str) -> tuple[bytes, str]:
    """Return the text of a source that is no path.

    Parameters
    ----------
    source : object
        A `Source`.
    name : str
        What errors call it. A file object that has a name of its own keeps that.

    Returns
    -------
    text : bytes
        JSON or YAML, which may be compressed.

    Raises
    ------
    InputError
        A value cannot be written as JSON.
    TypeError
        It is no `Source`.
    """
    if _is_readable(source):
        own = getattr(source, "name", None)
        name = shorten(own) if isinstance(own, str) else name
        source = source.read()
    if isinstance(source, str):
        return source.encode(errors="surrogatepass"), name
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), name
    if not is_manifest(source):
        source = {"apiVersion": "v1", "kind": "List", "items": _listed(source)}
    try:
        return _TO_JSON(_manifest(source)).encode(), name
    except (TypeError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(reason, source=name, obj=_label(source)) from None


def _listed(source: object) -> list[Any]:
    """Return the values of an iterable.

    Raises
    ------
    TypeError
        It is none, or has something else.
    """
    if not isinstance(source, Iterable):
        wanted = "a path, text, file object, dict or object of Kubernetes"
        raise TypeError(f"must be {wanted}, not {type(source).__name__}")
    items = list(source)
    for item in items:
        if not is_manifest(item):
            hint = "paths and texts are arguments of their own"
            raise TypeError(f"a list holds dicts and objects, not {type(item).__name__}: {hint}")
    return items


def _is_readable(value: object) -> TypeGuard[Readable]:
    return callable(getattr(value, "read", None)) and not isinstance(value, type)


def _is_of_client(value: object) -> bool:
    """Whether a value has the conversion of a Kubernetes client."""
    return not isinstance(value, type) and (
        callable(getattr(value, "to_dict", None)) or isinstance(getattr(value, "obj", None), Mapping)
    )


def _manifest(value: Any) -> Any:
    """Return what JSON can write in place of a value that it cannot.

    The official client has the names of its fields in a table of each class, which its own conversion reads;
    lightkube and pykube give whole manifests.
    """
    if isinstance(value, Object):
        return everything.plain.object_to_dict(value)
    if isinstance(value, datetime):
        value = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    names = getattr(type(value), "attribute_map", None)
    if isinstance(names, Mapping):
        fields = {wire: getattr(value, name) for name, wire in names.items()}
        return _with_kind(value, {wire: item for wire, item in fields.items() if item is not None})
    if isinstance(getattr(value, "obj", None), Mapping):
        return _with_kind(value, dict(value.obj))
    if callable(getattr(value, "to_dict", None)):
        return _with_kind(value, dict(value.to_dict()))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple | str | int | float | None):
        return value
    raise TypeError(f"a value of type {type(value).__name__} is not a JSON value")


_TO_JSON = json.JSONEncoder(default=_manifest, allow_nan=False).encode


def _with_kind(value: Any, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a client's manifest with the kind and version that its class tells.

    Clients leave both out of objects that were read in a list.
    """
    if hasattr(value, "metadata") and hasattr(value, "kind"):
        resource = getattr(getattr(value, "_api_info", None), "resource", None)  # of lightkube
        group, version = getattr(resource, "group", ""), getattr(resource, "version", "")
        version = f"{group}/{version}" if group else version or getattr(type(value), "version", "")
        if not manifest.get("apiVersion") and isinstance(version, str) and version:
            manifest["apiVersion"] = version
        if not manifest.get("kind"):
            manifest["kind"] = re.sub(_PREFIX, "", type(value).__name__)
    return manifest


def _label(source: object) -> str:
    """Return the name of a dict in errors; "" for anything else."""
    if not isinstance(source, Mapping) or not isinstance(meta := source.get("metadata"), Mapping):
        return ""
    key = "/".join(str(meta[part]) for part in ("namespace", "name") if meta.get(part))
    return shorten(f"{source.get('kind', '')} {key}".strip())
