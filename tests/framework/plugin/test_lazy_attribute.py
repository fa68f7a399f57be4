"""Attributes that are computed at their first use."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.lazy import lazy_attribute


@dataclass(frozen=True)
class Square:
    side: int
    calls: list[int] = field(default_factory=list)

    @lazy_attribute
    def area(self) -> int:
        """Side by side."""
        self.calls.append(self.side)
        return self.side**2


def test_each_object_computes_its_value_once() -> None:
    two, three = Square(2), Square(3)
    assert (two.area, three.area, two.area) == (4, 9, 4)
    assert (two.calls, three.calls) == ([2], [3])


def test_the_class_has_the_documentation() -> None:
    assert Square.area.__doc__ == "Side by side."
