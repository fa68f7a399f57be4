"""The command ``moorage`` and its subcommands; the engine is imported when one of them runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from os.path import splitext
from typing import TYPE_CHECKING

import click

from moorage._version import __version__
from moorage.errors import MoorageError, first_of, with_hint

from .options.option_types import PLUGIN, CommandGroup, GroupedCommand

if TYPE_CHECKING:
    from moorage.answers.runs.loaded_cluster import PreparedInput

COMMANDS = {
    "capacity": "Count how many replicas of a pod or workload fit, and say what stops the next one.",
    "check": "Check that every pod has a node, also after a change, a restart, or the loss of a node.",
    "compare": "Compare configurations, clusters, changes of a cluster, or Kubernetes releases.",
    "completion": "Print a script with which a shell completes commands.",
    "config": "Check a scheduler configuration, and print its effective form.",
    "demo": "Show what moorage does, in a tour on a small cluster that ends with an HTML page.",
    "dump": "Write what scheduling needs to know of a cluster to a file.",
    "explain": "Explain where pods would be placed, or why they fit nowhere.",
    "lint": "List what is wrong in a cluster, the worst first.",
    "mcp": "Serve the questions of check, lint, explain, capacity and plan as tools for agents.",
    "nodes": "Show what is free on each node, or in each zone, pool or other group of nodes.",
    "plan": "Plan how many nodes are needed, how to drain nodes, and how to free some.",
    "replay": "Replay a trace or a scenario in virtual time.",
    "scheduler": "Another name for serve scheduler.",
    "serve": "Schedule the pods of a real cluster, extend its kube-scheduler, or answer questions about it.",
    "simulate": "Schedule all pending pods, and show where they are placed.",
    "sweep": "Replay configurations, timelines, changes and seeds, and compare them.",
    "version": "Print the version.",
}
"""The commands and what ``--help`` says of them. Version and completion are here; each other one is in the
module of its name, which is imported when the command runs."""
_MODULES = {
    "compare": "simulate",
    "mcp": "serve",
    "nodes": "capacity",
    "scheduler": "serve",
    "sweep": "replay",
}
"""Modules of commands whose name another module has."""
_USE = (
    "-f takes metrics, too, and then a column USE stands beside what is requested: "
    "kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes"
)
_ELSEWHERE = {
    "--pods": "nodes -l NODE -o wide shows the pods of a node, explain node/NODE where they would go",
    "--util": _USE,
    "--utilization": _USE,
    "--ignore-daemonsets": "A drain always leaves pods of DaemonSets",
    "--delete-emptydir-data": "A drain evicts pods with an emptyDir, too",
}
"""What stands for options that other tools have."""


def run(
    arguments: list[str] | None, as_plugin: bool = False, held: Mapping[str, PreparedInput] | None = None
) -> int:
    """Parse the arguments and run a command; an error becomes one line on stderr and an exit code.

    Parameters
    ----------
    arguments : list of str or None
        Arguments of the command; by default those of the process.
    held : mapping of str to PreparedInput, optional
        Objects by the name of the file that would have them, for a caller that has read them.
    """
    try:
        name = PLUGIN if as_plugin else "moorage"
        code = app.main(arguments, prog_name=name, standalone_mode=False, obj=held)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (click.NoSuchOption, click.BadOptionUsage) as error:
        return _fail(_about_option(error))
    except click.MissingParameter as error:
        option = error.param
        is_option = isinstance(option, click.Option) and option.metavar
        form = f" Give {option.opts[0]} {option.metavar}" if option and is_option else ""
        return _fail(error.format_message() + form)
    except click.UsageError as error:
        return _fail(error.format_message() + _about_argument(error, arguments or sys.argv[1:]))
    except click.ClickException as error:
        return _fail(error.format_message())
    except MoorageError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:  # an error of stdout: readers raise errors of their own
        from .commands.printing import discard_output

        discard_output()
        return _fail(f"cannot write: {error.strerror}")
    return int(code or 0)


def _about_option(error: click.NoSuchOption | click.BadOptionUsage) -> str:
    """Return the error with the form of an option; of one that does not exist, which option has it as a part,
    or else which commands have it."""
    context, name = error.ctx, error.option_name
    options = [] if context is None else [each for each in context.command.params if each.opts]
    if name in _ELSEWHERE and isinstance(error, click.NoSuchOption):
        return f"{error.message} {_ELSEWHERE[name]}"
    part = f"{name.lstrip('-')}="
    for option in options:
        form = option.metavar or ""
        if name in option.opts:
            return f"{error.message.rstrip('.')}: {name} {form}".rstrip(": ")
        if part in form:
            return f"{error.message} It is a part of {option.opts[0]} {form}"
    if context is None or isinstance(error, click.BadOptionUsage):
        return error.format_message()
    commands = [
        path for path, command in _all_commands(context.find_root(), app) if name in _options(command)
    ]
    has = "has" if len(commands) == 1 else "have"
    return f"{error.message} {first_of(commands, 5)} {has} it" if commands else error.format_message()


def _options(command: click.Command) -> list[str]:
    return [name for option in command.params for name in option.opts]


def _all_commands(context: click.Context, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Yield commands and those of groups, by what a user types."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {under}", each) for under, each in _all_commands(context, command))
        elif command is not None:
            yield name, command


def _about_argument(error: click.UsageError, arguments: Sequence[str]) -> str:
    """Return what an error adds about an argument that a command does not take: for which option it may be
    meant."""
    extra = re.match(r"Got unexpected extra arguments? \(([^ ]+?)[ )]", error.message)
    if extra is None or error.ctx is None or extra[1] not in arguments:
        return ""
    word, command, at = extra[1], error.ctx.command, [*arguments].index(extra[1])
    is_file, is_repeated = bool(splitext(word)[1]), False
    for option in command.params:
        start = arguments[max(0, at - option.nargs - 1) : at]
        if isinstance(option, click.Option) and len(start) == option.nargs + 1 and start[0] in option.opts:
            whole, form = " ".join(start), option.metavar or ""
            if "=N" in form and option.nargs == 1 and word.rstrip("%").isdecimal():
                return f"; write {whole}={word}"
            if form == "FILE" and not is_file:
                return f"; {start[0]} takes a file"
            if option.nargs > 1:
                return f"; {start[0]} takes {form}"
            if option.name != "files":
                return f"; repeat it: {whole} {start[0]} {word}" if option.multiple else ""
            is_repeated = True
    if error.ctx.command_path.split()[1:] == ["nodes"] and not is_file:
        return f"; -l {word} shows it alone"
    if is_file or is_repeated:
        return "; each file is given by an -f of its own" if "-f" in _options(command) else ""
    return "; give one at a time" if any(isinstance(each, click.Argument) for each in command.params) else ""


def _fail(message: str) -> int:
    from .messages import print_message

    print_message("error", with_hint(message))
    return 2


class Commands(CommandGroup):
    """The commands, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for an unknown name."""
        if cmd_name in self.commands or cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"moorage.cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given:
        context.invoke(version)
        context.exit()


@click.group(
    cls=Commands,
    examples=("moorage demo", "moorage check -f examples/shop/cluster.yaml --drain pool=old"),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Schedule Kubernetes pods as kube-scheduler does, without a cluster.

    Exit codes: check, explain, replay --verify and --gate 0 yes, 1 no; all other commands 0 when they ran, 1
    if the API server would refuse an object of the change; 2 bad input. Results are on stdout, the same
    bytes for the same input; progress, timings and warnings on stderr.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@app.command(cls=GroupedCommand, examples=("moorage version", "moorage --version"))
def version() -> None:
    """Print the version."""
    click.echo(f"moorage {__version__}")


@app.command(cls=GroupedCommand, examples=("moorage completion bash", "moorage completion zsh"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    For bash: moorage completion bash > ~/.local/share/bash-completion/completions/moorage; for zsh or fish,
    source the output.
    """
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(shell_class(context.find_root().command, {}, "moorage", "_MOORAGE_COMPLETE").source())
