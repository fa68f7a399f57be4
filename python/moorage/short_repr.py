"""What a `repr` says of an object that has no short form of its own."""

from __future__ import annotations

from collections.abc import Sized
from typing import ClassVar


class ShortRepr:
    """An object that shows what it holds, in a few words.

    Attributes
    ----------
    shows : str
        The words, for `str.format`: ``{0}`` is the object, ``{1}`` the number of its items.
    """

    shows: ClassVar[str]

    def __repr__(self) -> str:
        items = len(self) if isinstance(self, Sized) else 0
        return f"<{type(self).__name__}: {self.shows.format(self, items)}>"
