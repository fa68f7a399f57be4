"""Numbers as the values of options, with errors that say which ones are taken."""

from __future__ import annotations

import math
from typing import Any

import click

MANY = 2**31
"""A bound of a whole number that nobody meets."""


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; see `click.ParamType`."""
        return _converted(super().convert, "whole number", self, value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what ``--help`` shows; see `click.ParamType`."""
        return "N"

    def _describe_range(self) -> str:
        """Return what ``--help`` adds; bounds that nobody meets say nothing."""
        return "" if self.max is not None and self.max >= MANY else _range(self).removeprefix(" of").strip()


class Number(click.FloatRange):
    """A number within bounds."""

    def _describe_range(self) -> str:
        """Return what ``--help`` adds."""
        return _range(self).removeprefix(" of").strip()

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
        raise click.BadParameter(f"must be a {noun}{_range(bounds)}, not {value!r}.", ctx, param) from None


def _range(bounds: WholeNumber | Number) -> str:
    """Return what an error says about the bounds of numbers."""
    if bounds.min is None:
        return "" if bounds.max is None else f" of at most {bounds.max}"
    if bounds.max is None:
        return f" above {bounds.min}" if bounds.min_open else f" of at least {bounds.min}"
    return (
        f" {'above' if bounds.min_open else 'from'} {bounds.min}{' and up' * bounds.min_open} to {bounds.max}"
    )
