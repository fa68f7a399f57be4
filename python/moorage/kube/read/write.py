"""Writes objects as Kubernetes JSON and YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..model.cluster import Cluster
from ..model.meta import Object
from ..model.policy import NO_STATUS, PodDisruptionBudget
from ..plain import plain
from .files import YAML_SUFFIXES, has_suffix


def object_to_dict(obj: Object) -> dict[str, Any]:
    """Convert an object to a JSON value, ``apiVersion`` and ``kind`` first; empty fields are omitted.

    Returns
    -------
    dict
        JSON object.
    """
    value: dict[str, Any] = plain(obj)
    if isinstance(obj, PodDisruptionBudget) and obj.status is not NO_STATUS:
        value.setdefault("status", {})  # an empty status differs from a missing one: see `with_statuses`
    if managers := obj.metadata.managed_fields:
        value["metadata"]["managedFields"] = msgspec.json.decode(managers)
    return {"apiVersion": obj.api_version, "kind": obj.kind} | value


def encode_object(obj: Object) -> bytes:
    """Encode an object as JSON text; the spelling of quantities is unchanged.

    Returns
    -------
    bytes
        JSON text.
    """
    return msgspec.json.encode(object_to_dict(obj))


def dump_yaml(value: Any) -> str:
    """Format a value as one YAML document; the order of keys is unchanged.

    Parameters
    ----------
    value : object
        A JSON value.

    Returns
    -------
    str
        YAML text.
    """
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

    from .plain_scalars import is_text

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
        yield encode_object(first[0]) + b"\n"
        return
    yield b'{"apiVersion":"v1","kind":"List","items":['
    separator = b"\n"
    for obj in chain(first, rest):
        yield separator + encode_object(obj)
        separator = b",\n"
    yield b"\n]}\n"


def _yaml(objects: Iterable[Object]) -> Iterator[bytes]:
    for number, obj in enumerate(objects):
        yield ("---\n" * bool(number) + dump_yaml(object_to_dict(obj))).encode()


_FORMATS: dict[str, Callable[[Iterable[Object]], Iterator[bytes]]] = {"json": _json, "yaml": _yaml}
