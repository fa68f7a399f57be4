"""``moorage version``."""

from __future__ import annotations

import click

from moorage._version import __version__

from ..options.option_groups import GroupedCommand


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage version",
        "moorage --version",
    ),
)
def version() -> None:
    """Print the version."""
    click.echo(f"moorage {__version__}")
