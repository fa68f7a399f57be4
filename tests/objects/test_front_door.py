"""Whatever a manifest can hold is imported from `moorage.kube`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from msgspec.structs import fields
from tests.doors.kube import _KINDS, Struct

from moorage import kube as objects


def parts(type_: Any, seen: set[type[Struct]]) -> Iterator[type[Struct]]:
    """A struct with the structs in its fields, each once."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        if type_ not in seen:
            seen.add(type_)
            yield type_
            for field in fields(type_):
                yield from parts(field.type, seen)
        return
    for inner in get_args(type_):
        yield from parts(inner, seen)


def test_every_model_of_a_manifest_is_public() -> None:
    seen: set[type[Struct]] = set()
    found = [part for kind in _KINDS.values() for part in parts(kind, seen)]
    assert len(found) > 190
    assert [part.__name__ for part in found if getattr(objects, part.__name__, None) is not part] == []
