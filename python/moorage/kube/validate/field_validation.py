"""Field validation as ``kubectl apply --validate`` does it: unknown and duplicate fields."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec

from moorage.errors import InputError, shorten

from ..model.meta import ObjectMeta
from ..read.decode import decode, is_json
from ..read.origins import Origin, label
from .unknown_fields import Path, has_only_known_fields, path_text, struct_of, unknown_fields

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
    """

    def __init__(self, mode: ValidationMode) -> None:
        if mode not in MODES:
            raise InputError(f"must be one of {', '.join(MODES)}, not {mode!r}", source="validate")
        self.mode = mode
        self._found: dict[tuple[str, str, str], str] = {}

    def is_sound(self, document: bytes | msgspec.Raw, kind: str) -> bool:
        """Whether `check` would find no problem in a manifest of the core's v1; manifests that differ in
        names alone are looked at once."""
        skeleton = kind, _skeleton(document)
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
    ) -> None:
        """Check the fields of an object of a built-in kind; other kinds are not checked.

        Parameters
        ----------
        document : dict or bytes
            The object as a JSON value, or its JSON text.
        kind, api_version : str
            Kind of the object.
        source : str
            File of the object, for warnings.
        meta : ObjectMeta, optional
            Its metadata, where they are decoded.

        Raises
        ------
        InputError
            The object is a manifest, the mode is ``strict``, and there are unknown or duplicate fields.
        """
        struct = "" if self.mode == "ignore" else struct_of(kind, api_version)
        if not struct:
            return
        meta = _metadata(document) if meta is None else meta
        is_manifest = not (meta.uid or meta.resource_version)
        if not is_manifest and kind != "Pod" and meta.controller() is not None:
            return  # a copy of its owner's template
        problems = [(path, "unknown") for path in _unknown(document, struct)]
        if is_manifest and is_json(document):
            problems += [(path, "duplicate") for path in _duplicates(document)]
        if not problems:
            return
        problems.sort()
        if is_manifest and self.mode == "strict":
            texts = [_text(path, what) for path, what in problems[:_SHOWN]]
            more = [f"and {len(problems) - _SHOWN} more"] * (len(problems) > _SHOWN)
            raise InputError(", ".join(texts + more))
        for path, what in problems:
            self._warn(kind, path, what, f"{source}: {label(kind, meta.namespace, meta.name, Origin())}")

    def check_spec(self, spec: bytes, kind: str, metadata: bytes, source: str) -> None:
        """Check the spec of a pod or node, unless it is a manifest.

        Parameters
        ----------
        spec, metadata : bytes
            JSON texts.
        kind : str
            Kind of the object.
        source : str
            File of the object, for warnings.
        """
        if self.mode == "ignore" or has_only_known_fields(spec, f"core.v1.{kind}Spec"):
            return
        meta = decode(metadata, ObjectMeta)
        if meta.uid or meta.resource_version:
            self.check({"spec": _decoded(spec)}, kind, "v1", source, meta)

    def add_duplicate(self, line: int, path: Path, source: str) -> None:
        """Record a duplicate field of a YAML document.

        Parameters
        ----------
        line : int
            Its line.
        path : Path
            The field.
        source : str
            File of the document.
        """
        if self.mode == "warn":
            self._warn("", path, "duplicate", f"{source}:{line}")

    def _warn(self, kind: str, path: Path, what: str, place: str) -> None:
        """Record a warning, one for each kind and path without its indices."""
        names = path_text(part for part in path if isinstance(part, str))
        self._found.setdefault((kind, what, names), f"{place}: {_text(path, what)}.")

    def warnings(self) -> list[str]:
        """Return one warning for each kind and field, about the first object that has it."""
        return list(self._found.values())


def _skeleton(text: bytes | msgspec.Raw) -> tuple[bytes, ...]:
    """A JSON text without its names, by which no field is known, unknown or duplicate."""
    return tuple(_NAMES.split(bytes(text)))


class _Named(msgspec.Struct):
    """The metadata of an object."""

    metadata: ObjectMeta = ObjectMeta()


def _metadata(document: Any) -> ObjectMeta:
    try:
        return decode(document, _Named).metadata
    except InputError:
        return ObjectMeta()


def _unknown(document: Any, struct: str) -> list[Path]:
    if not is_json(document):
        return unknown_fields(document, struct)
    return [] if has_only_known_fields(document, struct) else unknown_fields(_decoded(document), struct)


def _decoded(text: bytes | msgspec.Raw) -> Any:
    """The value of a JSON text; integers beyond 64 bits are strings."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        return json.loads(bytes(text), parse_int=str)


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
    found: list[Path] = []
    pending: list[tuple[Path, Any]] = [((), json.loads(bytes(text), parse_int=str, object_pairs_hook=_map))]
    while pending:
        path, item = pending.pop()
        if isinstance(item, _Map):
            found += [(*path, key) for key in item.duplicates]
            pending += [((*path, key), part) for key, part in item.items()]
        elif isinstance(item, list):
            pending += [((*path, at), part) for at, part in enumerate(item)]
    return found


def _map(pairs: list[tuple[str, Any]]) -> _Map:
    members = _Map(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        members.duplicates = tuple([key for key in members if keys.count(key) > 1])
    return members
