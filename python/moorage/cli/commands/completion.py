"""``moorage completion``: prints click's script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..options.option_groups import GroupedCommand


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
    found = get_completion_class(shell)
    assert found is not None
    root = context.find_root()
    click.echo(found(root.command, {}, "moorage", "_MOORAGE_COMPLETE").source())
