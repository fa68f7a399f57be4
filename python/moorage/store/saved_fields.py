"""State that can be saved, restored any number of times, and taken over by a fork."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self


class SavedFields:
    """An object whose state is in some of its fields.

    Attributes
    ----------
    fields : tuple of str
        Their names. A field that is such an object saves and restores itself; a list, a map or a set is
        copied, and what it holds stays the same.
    """

    fields: ClassVar[tuple[str, ...]]

    def save(self) -> object:
        """Return the state, for `undo`."""
        values = [getattr(self, name) for name in self.fields]
        return [value.save() if isinstance(value, SavedFields) else copy(value) for value in values]

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        for name, value in zip(self.fields, saved, strict=True):
            if isinstance(part := getattr(self, name), SavedFields):
                part.undo(value)
            else:
                setattr(self, name, copy(value))

    def copy_from(self, other: Self) -> None:
        """Take the state of another one, of whose store this one's is a clone."""
        self.undo(other.save())
