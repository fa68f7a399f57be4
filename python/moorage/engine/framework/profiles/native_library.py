"""Plugins behind the C interface of moorage/plugin.h, which is in `include_dir()`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from moorage._core.decide.native_plugin import NativeExternal, capsule_address
from moorage._core.state.pod_class import Shape
from moorage.errors import InputError, PluginError, printable

from ..plugin.interface import FilterPlugin, Plugin, ScorePlugin
from ..plugin.status import Code, Status, error_status
from ..runtime.call import StatusError
from ..runtime.scoring import NORMALIZE_ERROR, SCORE_ERROR, invalid_score
from .in_core import NativePlugin

SYMBOL = "moorage_plugin"


class LoadedPlugin(NativePlugin):
    """A plugin behind the C interface.

    Each plugin has a class of its own, which extends FilterPlugin, ScorePlugin or both.

    Attributes
    ----------
    external : NativeExternal
        The object that a plan calls.
    """

    external: NativeExternal

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return (self.external.reason,)


def include_dir() -> Path:
    """Return the include directory with ``moorage/plugin.h``."""
    return Path(__file__).parents[3] / "include"


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
    fields = {"name": external.name, "default_weight": external.weight, "external": external}
    plugin: Plugin = type(external.name, tuple(bases), fields)(args)
    return plugin


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
