"""The command ``moorage`` and its subcommands; the engine is imported when one of them runs."""

from __future__ import annotations

import click

from moorage.cli.config import config
from moorage.cli.explain import explain
from moorage.cli.messages import print_message
from moorage.cli.perf import perf
from moorage.cli.simulate import simulate
from moorage.errors import MoorageError


def run(arguments: list[str] | None) -> int:
    """Parse the arguments and run a command; an error becomes one line on stderr and an exit code.

    Parameters
    ----------
    arguments : list of str or None
        Arguments of the command; by default those of the process.

    Returns
    -------
    int
        Exit code.
    """
    try:
        code = app.main(arguments, prog_name="moorage", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        return _fail(error.format_message())
    except MoorageError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:  # an error of stdout: readers raise errors of their own
        from moorage.cli.output import discard_output

        discard_output()
        return _fail(f"cannot write: {error.strerror}")
    return int(code or 0)


def _fail(message: str) -> int:
    print_message("error", message)
    return 2


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def app(context: click.Context) -> None:
    """Schedule Kubernetes pods as kube-scheduler does, without a cluster."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@app.command()
def version() -> None:
    """Print the version."""
    from moorage import __version__

    click.echo(f"moorage {__version__}")


for command in (config, explain, perf, simulate):
    app.add_command(command)
