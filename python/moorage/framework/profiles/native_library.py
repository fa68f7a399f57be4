"""Plugins in C, or in what can make C functions and structs: see moorage/plugin.h in `include_dir()`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
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
    """The plugin in a capsule named ``moorage_plugin``, which is kept; InputError as `load_native_plugin`."""
    source = "plugin in a capsule"
    return _plugin(capsule_address(capsule, source), source, capsule)


def from_address(address: int, keep: object = None) -> Plugin:
    """The plugin whose ``struct moorage_plugin`` is at an address, as ctypes, cffi, numba or Cython know it.

    The struct is copied; the functions, strings and lists that it points to must stay. `keep` is an object
    that sees to that. Nothing can tell a wrong address from a right one. InputError as `load_native_plugin`.
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
    """The Error status of a cycle in which a plugin failed (kube-scheduler v1.36, runtime/framework.go)."""
    return StatusError(_STATUSES[what](name, text, node, value))


def _said(name: str, function: str, text: str, value: int) -> Status:
    error = PluginError(text or f'{function} of plugin "{name}" answered {value}')
    return Status(Code.ERROR, err=error)


def _filter_failed(name: str, text: str, node: str, value: int) -> Status:
    return error_status(f'running "{name}" filter plugin', _said(name, "filter", text, value), name)


def _wrong_code(name: str, text: str, node: str, value: int) -> Status:
    wrong = f'filter of plugin "{name}" answered code {value} for node {node}, none of 0, 2 and 3'
    return error_status(f'running "{name}" filter plugin', Status(Code.ERROR, err=PluginError(wrong)), name)


def _scoring_failed(error: str, function: str, name: str, text: str, node: str, value: int) -> Status:
    return error_status(error.format(name), _said(name, function, text, value))


def _out_of_range(name: str, text: str, node: str, value: int) -> Status:
    return Status(Code.ERROR, err=PluginError(f"{invalid_score(name, value)} (node {node})"))


_STATUSES: dict[str, Callable[[str, str, str, int], Status]] = {
    "filter": _filter_failed,
    "code": _wrong_code,
    "score": partial(_scoring_failed, SCORE_ERROR, "score"),
    "normalize": partial(_scoring_failed, NORMALIZE_ERROR, "normalize"),
    "range": _out_of_range,
}
