"""Commands that import no engine: ``moorage version``, and ``moorage completion``, a script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from moorage._version import __version__

from ..options.option_types import GroupedCommand


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage completion bash",
        "moorage completion zsh",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    For bash: moorage completion bash > ~/.local/share/bash-completion/completions/moorage; for zsh or fish,
    source the output.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    root = context.find_root()
    click.echo(shell_class(root.command, {}, "moorage", "_MOORAGE_COMPLETE").source())


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
