"""A dump has the texts that scheduling reads, and no others; numbers stand for these."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import count
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec.structs import fields
from tests.doors.kube import _KINDS, Struct, hide, unknown_fields

from moorage.kube import Object, decode_object, dump

LIST = Path(__file__).with_name("dumped_texts.txt")
OF_NODES = (
    "amiFamily",
    "context",
    "instanceProfile",
    "metadata",
    "role",
    "serviceAccount",
    "tags",
    "userData",
)


class Marked:
    """Makes objects with all of their fields, and a word of its own in each text."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}  # by word
        self._numbers = count(1)

    def word(self, field: str) -> str:
        word = f"word{next(self._numbers):05d}"
        self.fields[word] = field
        return word

    def struct(self, model: type[Struct] | None, name: str, above: tuple[Any, ...] = ()) -> dict[str, Any]:
        """Make what a struct of the model and one of the table of fields have together."""
        if (model, name) in above:
            return {}
        above = (*above, (model, name))
        short = name.rpartition(".")[2] if name else model.__name__ if model else ""
        types = {info.encode_name: info.type for info in fields(model)} if model else {}
        made: dict[str, Any] = {}
        parts = unknown_fields.fields_of(name) if name else {}
        for field in dict.fromkeys((*types, *parts)):
            if field.startswith("$"):
                continue
            part = parts.get(field, "")
            inner = part.rstrip("[]{}")
            if field in types:
                made[field] = self.value(types[field], f"{short}.{field}", inner, above)
            elif inner:
                one = self.struct(None, inner, above)
                made[field] = [one] if part.endswith("[]") else {"key": one} if part.endswith("{}") else one
            else:
                made[field] = self.word(f"{short}.{field}")
        return {field: item for field, item in made.items() if item is not None}

    def value(self, kind: Any, field: str, inner: str, above: tuple[Any, ...]) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.value(args[0], field, inner, above)
        if origin in (Union, UnionType):
            made = (self.value(each, field, inner, above) for each in args)
            return next((item for item in made if item is not None), None)
        if kind is str:
            return self.word(field)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self.struct(kind, inner, above)
        if origin is tuple:
            return [item] if (item := self.value(args[0], field, inner, above)) is not None else None
        if kind is Any or origin is dict:
            item = self.value(args[1], field, inner, above) if origin is dict and args[1] is not Any else None
            return {"key": item or self.word(field)}
        return None

    def object(self, kind: type[Object]) -> dict[str, Any]:
        """Make an object of a kind."""
        names = {"apiVersion": kind().api_version, "kind": kind.__name__}
        made = self.struct(kind, unknown_fields.struct_of(kind.__name__, kind().api_version)) | names
        if kind.__name__.endswith("NodeClass"):
            made["spec"] = {field: self.word(f"{kind.__name__}Spec.{field}") for field in OF_NODES}
        if kind.__name__ == "ControllerRevision":
            owner = {"kind": "DaemonSet", "name": "d", "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
            made["data"] = {"spec": {"template": self.object(_KINDS["DaemonSet"])["spec"]["template"]}}
        return made


def test_a_dump_has_these_texts_and_no_others() -> None:
    """The list says of each struct which texts are written as they are."""
    marked, found = Marked(), defaultdict[str, set[str]](set)
    objects = [decode_object(marked.object(kind)) for kind in _KINDS.values()]
    for word in {*re.findall(r"word\d{5}", dump(hide(objects)))}:
        struct, _, name = marked.fields[word].partition(".")
        found[struct].add(name)
    page = "".join(f"{struct}: {' '.join(sorted(names))}\n" for struct, names in sorted(found.items()))
    assert LIST.read_text() == page
