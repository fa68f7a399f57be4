"""Methods of plugins whose names are misspelt, so that nobody calls them."""

from __future__ import annotations

from typing import Any

from ..plugin.interface import BASES, EnqueueExtensions, Plugin, SignPlugin

_ALIKE = 0.8


def misspelt_method(kind: type[Plugin]) -> str:
    """Return what is wrong with the name of a method of a plugin's class: it is that of a method of an
    extension point but for capitals and underscores, or is like one that the class lacks.

    Returns
    -------
    str
        "" if nothing is wrong.
    """
    points: list[type[Any]] = [Plugin, EnqueueExtensions, SignPlugin, *BASES]
    bases = [base for base in points if issubclass(kind, base)]
    known = {name: base for base in bases for name in vars(base) if not name.startswith("_")}
    own = [name for name in dir(kind) if name not in known and callable(getattr(kind, name, None))]
    own = [name for name in own if not name.startswith("_")]
    from difflib import get_close_matches  # few plugins need it

    for name, base in known.items():
        is_missing = getattr(kind, name) is vars(base)[name]
        for written in own if is_missing else ():
            is_same = _without_underscores(written) == _without_underscores(name)
            if is_same or (_is_open(vars(base)[name]) and get_close_matches(name, [written], 1, _ALIKE)):
                return f"has a method {written}, which nobody calls; did you mean {name}?"
    return ""


def _without_underscores(name: str) -> str:
    return name.replace("_", "").lower()


def _is_open(method: object) -> bool:
    """Whether a method of a base class only says that subclasses have it."""
    code = getattr(method, "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names
