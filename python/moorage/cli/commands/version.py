"""``moorage version``."""

from __future__ import annotations

import click

from moorage._version import __version__


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"moorage {__version__}")
