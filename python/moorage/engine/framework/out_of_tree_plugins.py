"""Plugins that are not in-tree: plugins of rows, which the core's loop calls, in Python and behind the C
interface of moorage/plugin.h, which is in `include_dir()`; both get rows, and answer codes and scores. Also
what is wrong with the methods of a plugin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from moorage._core.base.buffers import Journal
from moorage._core.decide.native_plugin import NativeExternal, capsule_address
from moorage._core.state.pod_class import Shape
from moorage.errors import InputError, PluginError, printable

from .extension_points import NORMALIZE_ERROR, SCORE_ERROR, StatusError, invalid_score
from .in_tree_plugins import NativePlugin
from .interface import (
    BASES,
    NOT_SATISFIED,
    EnqueueExtensions,
    FilterPlugin,
    Plugin,
    ScorePlugin,
    SignPlugin,
    is_open,
)
from .nodes_view import NodesView
from .status import Code, Status, error_status

# ---- row plugin --------------------------------------------------------------------------------------------

Rows = npt.NDArray[np.int32]
Scores = npt.NDArray[np.int64]


class RowPlugin(NativePlugin):
    """A plugin whose answers depend on the class of the pod, on the nodes and on what it has noted of them.

    The core places pods of its profiles in one loop and calls these methods with arrays of rows, without a
    cycle state. What a plugin notes of pods on nodes it derives from the cluster in `begin` and `follow`, and
    changes through the journal of the cluster's state, so that a rollback undoes it.

    Attributes
    ----------
    shape : Shape
        Requests and constraints of the pods that the search is for.
    filter_reason : str
        Why the filter rejects nodes; by default the text names the plugin.
    """

    by_class = True
    shape: Shape
    filter_reason: ClassVar[str] = ""

    def begin(self) -> None:
        """Prepare for a search for pods of `shape`."""

    def follow(self) -> None:
        """Follow a change of the pods on nodes. With this method the core calls it after each pod that it has
        placed, and places the pods of a group one by one."""

    def filter_rows(self, rows: Rows) -> npt.ArrayLike:
        """Return whether the pods fit nodes.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) array of bool or int
            True where they fit; or `Code` values, 0 for Success.
        """
        raise NotImplementedError

    def score_rows(self, rows: Rows) -> npt.ArrayLike:
        """Return the scores of all feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) array of int
        """
        raise NotImplementedError

    def normalize_rows(self, scores: Scores) -> npt.ArrayLike:
        """Return scores from 0 to 100; by default those of `score_rows`.

        Parameters
        ----------
        scores : (n,) int64 array

        Returns
        -------
        (n,) array of int
        """
        return scores

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return (self.filter_reason or NOT_SATISFIED.format(self.name),)

    def clone(self) -> Self:
        """Return a plugin for another scheduler."""
        return self.another()

    def nodes(self, rows: Rows) -> NodesView:
        """Return rows as columns.

        Parameters
        ----------
        rows : (n,) int32 array
        """
        nodes: NodesView = self._framework().nodes(rows)
        return nodes

    @property
    def journal(self) -> Journal:
        """The journal of the cluster's state."""
        return self.required_handle().cache.state.journal


# ---- native library ----------------------------------------------------------------------------------------
# Plugins behind the C interface of moorage/plugin.h, which is in `include_dir()`.

SYMBOL = "moorage_plugin"


class LoadedPlugin(RowPlugin):
    """A plugin of rows behind the C interface.

    Each plugin has a class of its own, which extends FilterPlugin, ScorePlugin or both, with the functions of
    the library in place of the methods.

    Attributes
    ----------
    external : NativeExternal
        What the core calls in place of methods.
    """

    external: ClassVar[NativeExternal]


def include_dir() -> Path:
    """Return the include directory with ``moorage/plugin.h``."""
    return Path(__file__).parents[2] / "include"


def load_native_plugin(
    path: str | PathLike[str], symbol: str = SYMBOL, args: Mapping[str, Any] | None = None
) -> Plugin:
    """Load the plugin in a shared library.

    Parameters
    ----------
    path : path
        Path of the library. Schedulers that use the same plugin share its `state`; where it must not be
        shared, load the library once for each.
    symbol : str
        Name of the global ``struct moorage_plugin``.
    args : mapping of str to object, optional
        The arguments that a configuration gives the plugin, as JSON values.

    Raises
    ------
    InputError
        There is no such file, it is not a shared library, or it has no plugin of this ABI at the symbol, or
        the plugin does not declare an argument.
    """
    source = printable(str(path) or "''")
    try:
        file = Path(path).resolve()
        if not file.is_file():
            raise InputError("no such file", source=source)
    except (OSError, RuntimeError, ValueError) as error:  # name too long, symlink loop, or NUL byte
        raise InputError(f"not a path: {getattr(error, 'strerror', None) or error}", source=source) from error
    if not (symbol.isidentifier() and symbol.isascii()):
        raise InputError(f"{symbol!r} is not the name of a symbol", source=source)
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise InputError(f"not a shared library: {error}", source=source) from error
    try:
        address = ctypes.addressof(ctypes.c_char.in_dll(library, symbol))
    except ValueError as error:
        raise InputError(f"no symbol {symbol}", source=source) from error
    return _plugin(address, source, library, args)


def from_capsule(capsule: object, args: Mapping[str, Any] | None = None) -> Plugin:
    """Make a plugin of a PyCapsule.

    Parameters
    ----------
    capsule : PyCapsule
        A capsule named ``moorage_plugin`` with a ``struct moorage_plugin``. The plugin holds a reference to
        it.
    args : mapping of str to object, optional
        See `load_native_plugin`.

    Raises
    ------
    InputError
        There is no valid plugin of this ABI.
    """
    source = "plugin in a capsule"
    return _plugin(capsule_address(capsule, source), source, capsule, args)


def from_address(address: int, keep: object = None, args: Mapping[str, Any] | None = None) -> Plugin:
    """Make a plugin of a struct at an address, as ctypes, cffi, numba or Cython provide it.

    Parameters
    ----------
    address : int
        Address of a ``struct moorage_plugin``; a wrong address is undefined behaviour. The struct is copied;
        the functions, strings and lists that it points to must live as long as the plugin.
    keep : object, optional
        An object to which the plugin holds a reference.
    args : mapping of str to object, optional
        See `load_native_plugin`.

    Raises
    ------
    InputError
        There is no valid plugin of this ABI.
    """
    return _plugin(address, "plugin at an address", keep, args)


def _plugin(address: int, source: str, keep: object, args: Mapping[str, Any] | None) -> Plugin:
    external = NativeExternal(address, source, keep, explain_failure, dict(args or {}))
    bases: list[type[Plugin]] = [LoadedPlugin]
    if external.filters:
        bases.append(FilterPlugin)
    if external.scores:
        bases.append(ScorePlugin)
    fields = {
        "name": external.name,
        "default_weight": external.weight,
        "filter_reason": external.reason,
        "external": external,
    }
    plugin: Plugin = type(external.name, tuple(bases), fields)(args)
    return plugin


# ---- methods -----------------------------------------------------------------------------------------------
# Methods of plugins whose names are misspelt, so that nobody calls them, and those that are missing.

_ALIKE = 0.8
_FORMS: Mapping[type[Any], str] = {FilterPlugin: "filter", ScorePlugin: "score"}


@cache
def wrong_method(kind: type[Plugin]) -> str:
    """Return what is wrong with the methods of a plugin's class. The name of one is that of a method of an
    extension point but for capitals and underscores, or is like one that the class lacks, or is that of one
    whose base the class does not extend; or the class lacks the method that filters or scores.

    Returns
    -------
    str
        "" if nothing is wrong.
    """
    points: list[type[Any]] = [Plugin, EnqueueExtensions, SignPlugin, RowPlugin, *BASES]
    bases = [base for base in points if issubclass(kind, base)]
    known = {name: base for base in bases for name in vars(base) if not name.startswith("_")}
    theirs = [each for each in kind.__mro__ if not each.__module__.startswith("moorage.")]
    own = sorted(
        {name for each in theirs for name in vars(each) if not name.startswith("_")}.difference(known)
    )
    own = [name for name in own if callable(getattr(kind, name))]
    for base in points:
        for name in own if base not in bases else ():
            # Other methods of a RowPlugin, such as `begin`, have names that a plugin may use by itself.
            if name in vars(base) and (base is not RowPlugin or name.endswith("_rows")):
                return f"has a method {name}, which nobody calls; it must extend {base.__name__}"
    for name, base in known.items():
        is_missing = getattr(kind, name) is vars(base)[name]
        # An adapter around the method for all nodes, which is missing too.
        other = vars(base).get(f"{name}_all")
        is_needed = is_open(vars(base)[name]) or (other and getattr(kind, f"{name}_all") is other)
        for written in own if is_missing else ():
            is_same = _without_underscores(written) == _without_underscores(name)
            if is_same or (is_needed and get_close_matches(name, [written], 1, _ALIKE)):
                return f"has a method {written}, which nobody calls; did you mean {name}?"
    return _lacking_method(kind)


def _lacking_method(kind: type[Plugin]) -> str:
    """Return which method a class lacks to filter or score, or which base, so that its method is called."""
    by_rows = issubclass(kind, RowPlugin)
    for base, name in _FORMS.items():
        forms = (f"{name}_rows",) if by_rows else (name, f"{name}_all")
        giver = RowPlugin if by_rows else base
        is_lacking = all(getattr(kind, form, None) is vars(giver)[form] for form in forms)
        if issubclass(kind, base) and is_lacking:
            return f"has no method {' or '.join(forms)}, which {base.__name__} needs"
        if by_rows and not (is_lacking or issubclass(kind, base)):
            return f"has a method {forms[0]}, which nobody calls; it must extend {base.__name__}"
    return ""


def _without_underscores(name: str) -> str:
    return name.replace("_", "").lower()


# ---- failures ----------------------------------------------------------------------------------------------


def explain_failure(name: str, what: str, text: str, node: str, value: int) -> StatusError:
    """Return the Error of a cycle in which a native plugin failed.

    The messages are those of kube-scheduler v1.36, runtime/framework.go.

    Parameters
    ----------
    what : {"filter", "code", "score", "normalize", "range"}
        The function that failed; "code" or "range" for a return value that is not allowed.
    text : str
        The plugin's own message; "" for none.
    value : int
        Return value of the function.
    """
    filtering = f'running "{name}" filter plugin'
    failed = Status(Code.ERROR, err=PluginError(text or f'{what} of plugin "{name}" answered {value}'))
    match what:
        case "filter":
            return StatusError(error_status(filtering, failed, name), name)
        case "code":
            wrong = f'filter of plugin "{name}" answered code {value} for node {node}, none of 0, 2 and 3'
            failed = Status(Code.ERROR, err=PluginError(wrong))
            return StatusError(error_status(filtering, failed, name), name)
        case "range":
            wrong = f"{invalid_score(name, value)} (node {node})"
            return StatusError(Status(Code.ERROR, err=PluginError(wrong)), name)
        case _:
            failing = SCORE_ERROR if what == "score" else NORMALIZE_ERROR
            return StatusError(error_status(failing.format(name), failed), name)
