"""Numbers as the values of options, with errors that say which ones are taken."""

from __future__ import annotations

import math
from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; see `click.ParamType`."""
        return _converted(super().convert, "whole number", self, value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what ``--help`` shows; see `click.ParamType`."""
        return "N"


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; see `click.ParamType`."""
        return _converted(super().convert, "number", self, value, param, ctx)


def _converted(
    convert: Any,
    noun: str,
    bounds: WholeNumber | Number,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    """Return the number, or fail with a text that names the bounds."""
    try:
        number = convert(value, param, ctx)
        if math.isnan(number):  # it is neither below nor above a bound
            raise click.BadParameter("")
        return number
    except click.BadParameter:
        first = "" if bounds.min is None else f" {'above' if bounds.min_open else 'from'} {bounds.min}"
        last = " on" * (not bounds.min_open) if bounds.max is None else f" to {bounds.max}"
        raise click.BadParameter(f"{value!r} is not a {noun}{first}{last}.", ctx, param) from None
