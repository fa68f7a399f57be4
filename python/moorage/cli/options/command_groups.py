"""A command with subcommands, which says what they are where none or an unknown one is given."""

from __future__ import annotations

import click

from moorage.errors import nearest

from .option_groups import WithExamples

PLUGIN = "kubectl moorage"
"""The name of the program as a plugin of kubectl: commands then read the cluster of the current context."""


class CommandGroup(WithExamples, click.Group):
    """A group whose errors have one line, and whose help has the whole texts of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command`."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            ctx.fail(f"give a command of {ctx.command_path}: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; see `click.Group`."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            near = nearest(name, names) or f"; known are {', '.join(names)}"
            ctx.fail(f"there is no command {name!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands; see `click.Group`."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        texts = [(name, one.get_short_help_str(200)) for name, one in commands.items() if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(texts)
