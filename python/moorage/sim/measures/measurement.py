"""Measurement: what a measure has found in a history; and the measures by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from moorage.errors import InputError, located
from moorage.lazy import NamedTuple
from moorage.table import Table

from ..replay import History


class Measurement(NamedTuple):
    """What a measure has found.

    Attributes
    ----------
    numbers : dict of str to float
        For the whole history.
    over_time : Table or None
        The column ``time`` in seconds, ascending, and numbers that hold from that time on.
    """

    numbers: dict[str, float]
    over_time: Table | None = None


Measured = Mapping[str, float] | Table | Measurement
Measure = Callable[..., Measured]
Request = str | dict[str, dict[str, Any]]
"""A measure by its name, or by ``module:function``; or one of these with its options."""

MEASURES: dict[str, Measure] = {}
"""The measures by name."""

F = TypeVar("F", bound=Measure)


def measure(name: str) -> Callable[[F], F]:
    """Register a function as a measure: a decorator.

    The function takes a `History`, and keyword arguments as options. It returns numbers by name; or a table
    with the column ``time``, whose numbers for the whole history are the means of its columns, weighted by
    time; or a `Measurement`, which has both.

    Parameters
    ----------
    name : str
        By which files and `evaluate` ask for it.

    Raises
    ------
    InputError
        Another function has the name, or it has a colon.
    """

    def register(function: F) -> F:
        if ":" in name or MEASURES.setdefault(name, function) is not function:
            raise InputError(f'measure "{name}": the name is taken, or has a colon')
        return function

    return register


def evaluate(history: History, *requests: Request) -> dict[str, Measurement]:
    """Evaluate measures (docs/measures.md).

    Parameters
    ----------
    *requests : Request
        By default the measures of the timeline.

    Returns
    -------
    dict of str to Measurement
        By the name of the measure.

    Raises
    ------
    InputError
        There is no such measure, or an option is missing, unknown or wrong; names the measure.
    """
    out: dict[str, Measurement] = {}
    for name, function in measures_of(requests or history.timeline.measures).items():
        with located(path=f"measures.{name}"):
            measured = function(history)
            if isinstance(measured, Table):
                measured = Measurement(means(measured, history.end), measured)
            out[name] = measured if isinstance(measured, Measurement) else Measurement(dict(measured))
    return out


def measures_of(requests: Iterable[Request]) -> dict[str, Measure]:
    """Return the measures that are asked for, with their options, by name.

    Raises
    ------
    InputError
        See `evaluate`.
    """
    out: dict[str, Measure] = {}
    for request in requests:
        name, options = parse_request(request)
        with located(path=f"measures.{name}"):
            if name in out:
                raise InputError("asked for twice")
            function = _find(name)
            _check_options(function, options)
            out[name] = partial(function, **options)
    return out


def parse_request(request: Request) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a measure that is asked for.

    Raises
    ------
    InputError
        It is neither a name nor a name with its options.
    """
    if isinstance(request, str):
        return request, {}
    if len(request) != 1:
        raise InputError(f"a measure has one name, not {len(request)}", path="measures")
    ((name, options),) = request.items()
    return name, dict(options or {})


def _find(name: str) -> Measure:
    """Return a measure by its name, or a function by its module."""
    if name in MEASURES:
        return MEASURES[name]
    module, _, function = name.partition(":")
    if not function:
        raise InputError(f'no measure "{name}": one of {", ".join(MEASURES)}, or module:function')
    try:
        registered: Measure = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(str(error)) from error
    return registered


def _check_options(function: Measure, options: Mapping[str, Any]) -> None:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = {parameter.name: parameter.default is parameter.empty for parameter in parameters}
    if unknown := options.keys() - known.keys():
        raise InputError(f"unknown option: one of {', '.join(known) or 'none'}", path=min(unknown))
    if missing := {name for name, is_required in known.items() if is_required} - options.keys():
        raise InputError("required", path=min(missing))


def means(over_time: Table, end: float) -> dict[str, float]:
    """Return the means of columns, weighted by time.

    Parameters
    ----------
    over_time : Table
        With the column ``time``.
    end : float
        Until when the last row holds. Columns without duration have the values of their end.
    """
    times = np.asarray(over_time.columns["time"], np.float64)
    others = {name: column for name, column in over_time.columns.items() if name != "time"}
    if not len(times):
        return dict.fromkeys(others, 0.0)
    spans = np.diff(times, append=max(end, times[-1]))
    if not spans.sum():
        spans[-1] = 1
    return {name: float(np.asarray(column) @ spans / spans.sum()) for name, column in others.items()}
