"""What one pod spec has that another lacks or has otherwise, and the same difference in a third one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import structs

from moorage._core.base.quantity import Quantity

from ..model.meta import Struct
from ..plain import plain

_AMOUNTS = frozenset({"requests", "limits", "overhead"})
"""Fields with quantities by resource, of which several texts are equal."""
_WHOLE = frozenset({"node_selector_terms"})
"""Lists that are replaced as a whole: one more of these terms would let a pod go to more nodes."""


class Change(NamedTuple):
    """A field that differs.

    Attributes
    ----------
    field : str
        Its path, for example ``spec.containers[istio-proxy]``.
    before, after : object
        JSON values; None where the field is missing.
    """

    field: str
    before: Any
    after: Any

    @property
    def text(self) -> str:
        """The change in a few words."""
        name = self.field.removeprefix("spec.").replace("].resources.", "].")
        if isinstance(self.after, dict):
            requests = self.after.get("resources", {}).get("requests") or {}
            amounts = ", ".join(f"{key} {amount}" for key, amount in requests.items())
            return f"{name} ({amounts})" if amounts else name
        if isinstance(self.after, list):
            return name
        instead = "" if self.before in (None, "") else f" instead of {self.before}"
        return f"{name} {self.after}{instead}"


def changes(before: Any, after: Any, path: str, parent: str = "") -> Iterator[Change]:
    """Yield what differs between two structs, items of lists by their names.

    Parameters
    ----------
    before, after : Struct
        Or the field of a path in them.
    parent : str
        The name of the field that has this one.
    """
    if _lacks(before, after, parent):
        return
    old, new = _parts(before), _parts(after)
    if old is not None and new is not None:
        field = path.rpartition(".")[2]
        for step in new:
            yield from changes(old.get(step), new[step], path + step, field)
    else:
        yield Change(path, plain(before), plain(after))


def _lacks(before: Any, after: Any, parent: str) -> bool:
    """Whether a field has nothing that the one before lacks."""
    if before == after or after in (None, "", (), False):
        return True
    if isinstance(after, tuple) and isinstance(before, tuple) and _named(after) is None:
        return all(item in before for item in after)
    return parent in _AMOUNTS and before is not None and bool(Quantity(before) == Quantity(after))


def _parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value by the step that leads to them; None for a value without parts."""
    if isinstance(value, Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {f".{step}": getattr(value, name) for name, step in names}
    if isinstance(value, dict):
        return {f".{name}": item for name, item in value.items()}
    named = _named(value) if isinstance(value, tuple) else None
    return None if named is None else {f"[{name}]": item for name, item in named.items()}


def _named(items: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return items by their names; None if one has none."""
    named = {getattr(item, "name", ""): item for item in items}
    return None if "" in named else named


def with_difference(before: Any, after: Any, value: Any, field: str = "", parent: str = "") -> Any:
    """Return a value with what `after` has and `before` lacks, or has otherwise. Nothing is removed.

    Doing it twice is doing it once. Where the value has changed too, `after` counts; but a container keeps
    its image, and an item that is not in `before` stays as it is.

    Parameters
    ----------
    before, after, value : object
        Structs of one type, or fields of one name.
    field, parent : str
        This name, and that of the field that has it.
    """
    if _lacks(before, after, parent) or (field == "image" and value != before):
        return value
    if isinstance(after, Struct):
        before, value = (type(after)() if part is None else part for part in (before, value))
        parts = {
            name: with_difference(getattr(before, name), item, getattr(value, name), name, field)
            for name, item in structs.asdict(after).items()
        }
        return structs.replace(value, **parts)
    if isinstance(after, dict):
        old, own = before or {}, value or {}
        return own | {
            name: with_difference(old.get(name), item, own.get(name), name, field)
            for name, item in after.items()
            if not _lacks(old.get(name), item, field)
        }
    if isinstance(after, tuple) and field not in _WHOLE:
        return _with_items(before or (), after, value or ())
    return after


def _with_items(before: tuple[Any, ...], after: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list with the items that were added; those that precede all others come first."""
    old, new, own = _named(before), _named(after), _named(value)
    if old is None or new is None or own is None:
        return (*value, *(item for item in after if item not in before and item not in value))
    kept = [
        with_difference(old[name], new[name], item) if name in old and name in new else item
        for name, item in own.items()
    ]
    names = list(new)
    common = next((at for at, name in enumerate(names) if name in old), 0)
    first, last = (
        [new[name] for name in part if name not in old and name not in own]
        for part in (names[:common], names[common:])
    )
    return (*first, *kept, *last)
