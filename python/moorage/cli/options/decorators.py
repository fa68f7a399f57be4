"""Options that commands have in common, as decorators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order in its help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def is_given(name: str) -> bool:
    """Whether the option of a parameter is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def output_option(forms: Sequence[str], text: str | None = None) -> Decorator:
    """Return the option ``-o`` of a command that writes these formats, the first one by default; and
    ``--title`` of one that writes pages."""
    output = click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=text
    )
    return all_of(output, _title_option) if "html" in forms else output


def _keep_title(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[TITLE] = value


TITLE = "moorage.title"
"""Where a context keeps the title of a page."""
_title_option = click.option(
    "--title", expose_value=False, callback=_keep_title, help="The title of a page of -o html."
)


def tie_break_option(text: str) -> Decorator:
    """Return the option ``--tie-break``, with a help that ends with what the default is."""
    choice = click.Choice(["go-heap", "first", "random"])
    question = "How to choose among nodes with equal scores"
    return click.option("--tie-break", type=choice, help=f"{question}; default: {text}")


def some_of(names: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Return a callback that parses a list of some of these names, between commas."""

    def parse(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
        given = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in given:
            if name not in names:
                raise click.BadParameter(f"must be some of {', '.join(names)}, not {name!r}", context, option)
        return given

    return parse
