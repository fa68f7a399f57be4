"""Named tuples that cost little to make are those of `typing`."""

from __future__ import annotations

import pickle
from types import new_class
from typing import Any, get_type_hints

import pytest

from moorage.lazy import NamedTuple


class Share(NamedTuple):
    """A part of a whole."""

    part: int
    whole: int = 100

    @property
    def text(self) -> str:
        return f"{self.part} of {self.whole}"


def test_a_class_has_fields_defaults_types_methods_and_a_text() -> None:
    share = Share(3)
    assert (share, share.text, repr(share)) == ((3, 100), "3 of 100", "Share(part=3, whole=100)")
    assert get_type_hints(Share) == {"part": int, "whole": int}
    assert (Share.__doc__, type(pickle.loads(pickle.dumps(share)))) == ("A part of a whole.", Share)


def test_a_field_without_a_default_does_not_follow_one_that_has_a_default() -> None:
    members: dict[str, Any] = {"__annotations__": {"whole": "int", "part": "int"}, "whole": 100}
    with pytest.raises(TypeError, match="Share: a field without a default follows one that has a default"):
        new_class("Share", (NamedTuple,), exec_body=lambda namespace: namespace.update(members))
