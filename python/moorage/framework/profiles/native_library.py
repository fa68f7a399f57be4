"""Plugins in C, or in what can make C functions and structs: see moorage/plugin.h in `include_dir()`."""

from __future__ import annotations

import ctypes
from os import PathLike
from pathlib import Path

from moorage._core.decide.native_plugin import NativeExternal, capsule_address
from moorage._core.state.pod_class import Shape
from moorage.errors import InputError, PluginError, printable
from moorage.framework.plugin.interface import FilterPlugin, Plugin, ScorePlugin
from moorage.framework.plugin.status import Code, Status, error_status
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.scoring import NORMALIZE_ERROR, SCORE_ERROR, invalid_score

from .in_core import NativePlugin

SYMBOL = "moorage_plugin"


class LoadedPlugin(NativePlugin):
    """A plugin behind the C ABI. Each one has a class of its own, which extends Filter, Score or both.

    Attributes
    ----------
    external : NativeExternal
        What a plan calls.
    """

    external: NativeExternal

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return (self.external.reason,)


def include_dir() -> Path:
    """The directory that a C compiler is to search for ``moorage/plugin.h``."""
    return Path(__file__).parents[2] / "include"


def load_native_plugin(path: str | PathLike[str], symbol: str = SYMBOL) -> Plugin:
    """The plugin in a shared library.

    Parameters
    ----------
    path : path
        Of the library. One plugin belongs to one scheduler: load it again for another.
    symbol : str
        The global ``struct moorage_plugin`` in it.

    Returns
    -------
    Plugin

    Raises
    ------
    InputError
        No such path or file, or it is no shared library, or has no plugin of this ABI at the symbol.
    """
    source = printable(str(path) or "''")
    try:
        file = Path(path).resolve()
        if not file.is_file():
            raise InputError("no such file", source=source)
    except (OSError, RuntimeError, ValueError) as error:  # too long, a circle of links, with a NUL
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
    return _plugin(address, source, library)


def from_capsule(capsule: object) -> Plugin:
    """The plugin in a PyCapsule.

    Parameters
    ----------
    capsule : PyCapsule
        Named ``moorage_plugin``, of a ``struct moorage_plugin``. The plugin holds a reference to it.

    Returns
    -------
    Plugin

    Raises
    ------
    InputError
        As `load_native_plugin`.
    """
    source = "plugin in a capsule"
    return _plugin(capsule_address(capsule, source), source, capsule)


def from_address(address: int, keep: object = None) -> Plugin:
    """The plugin at an address, as ctypes, cffi, numba or Cython give it.

    Parameters
    ----------
    address : int
        Of a ``struct moorage_plugin``; a wrong address is undefined behaviour. The struct is copied; the
        functions, strings and lists that it points to must live as long as the plugin.
    keep : object, optional
        The plugin holds a reference to it.

    Returns
    -------
    Plugin

    Raises
    ------
    InputError
        As `load_native_plugin`.
    """
    return _plugin(address, "plugin at an address", keep)


def _plugin(address: int, source: str, keep: object) -> Plugin:
    external = NativeExternal(address, source, keep, explain_failure)
    bases: list[type[Plugin]] = [LoadedPlugin]
    if external.filters:
        bases.append(FilterPlugin)
    if external.scores:
        bases.append(ScorePlugin)
    fields = {"name": external.name, "default_weight": external.weight, "external": external}
    made: Plugin = type(external.name, tuple(bases), fields)()
    return made


# ---- failures ----------------------------------------------------------------------------------------------


def explain_failure(name: str, what: str, text: str, node: str, value: int) -> StatusError:
    """The Error of a cycle in which a plugin failed (kube-scheduler v1.36, runtime/framework.go).

    Parameters
    ----------
    name : str
        The plugin's.
    what : {"filter", "code", "score", "normalize", "range"}
        The function that failed; or "code" or "range" for a value that it must not answer.
    text : str
        The plugin's own words; "" for none.
    node : str
    value : int
        What the function returned.

    Returns
    -------
    StatusError
    """
    filtering = f'running "{name}" filter plugin'
    failed = Status(Code.ERROR, err=PluginError(text or f'{what} of plugin "{name}" answered {value}'))
    match what:
        case "filter":
            return StatusError(error_status(filtering, failed, name))
        case "code":
            wrong = f'filter of plugin "{name}" answered code {value} for node {node}, none of 0, 2 and 3'
            return StatusError(error_status(filtering, Status(Code.ERROR, err=PluginError(wrong)), name))
        case "range":
            wrong = f"{invalid_score(name, value)} (node {node})"
            return StatusError(Status(Code.ERROR, err=PluginError(wrong)))
        case _:
            failing = SCORE_ERROR if what == "score" else NORMALIZE_ERROR
            return StatusError(error_status(failing.format(name), failed))
