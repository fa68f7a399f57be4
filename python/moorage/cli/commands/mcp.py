"""``moorage mcp``: tools for agents, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from moorage.errors import MoorageError, located, missing

from ..options.decorators import is_given
from ..options.inputs import input_options, scheduler_options
from ..options.logs import logging_to_stderr, verbosity_option
from ..options.new_node_options import node_source_options
from ..options.number_ranges import WholeNumber
from ..options.option_groups import GroupedCommand
from ..twin.serve_twin import limit_options

OF_TWIN = ("address", "token_file", "certificate_authority", "port", "verbose")
"""Parameters that count where a twin elsewhere is asked."""


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage mcp --context prod",
        "moorage mcp --twin http://127.0.0.1:8899",
    ),
)
@input_options
@scheduler_options
@node_source_options
@click.option(
    "--twin", "address", metavar="URL", help="Ask a twin (`moorage serve twin`) in place of a cluster."
)
@click.option("--token-file", metavar="FILE", help="The bearer token for --twin.")
@click.option("--certificate-authority", metavar="FILE", help="The authority of the certificate of --twin.")
@click.option(
    "--port",
    type=WholeNumber(1, 65535),
    help="Serve streamable HTTP at http://127.0.0.1:PORT/mcp; default: standard input and output.",
)
@limit_options
@verbosity_option
def mcp(verbose: int, address: str | None, port: int | None, **options: Any) -> int:
    """Serve the questions of check, explain, capacity, plan and others as tools for agents.

    The cluster (--kubeconfig, --in-cluster) is followed by watches; files (-f) are read for each question.
    Nothing is written. Answers are short; the whole document of -o json comes on request. This needs the
    extra mcp.

    Exit codes: 0 the input has ended, or it was stopped; 2 bad input.
    """
    from contextlib import ExitStack
    from threading import Event

    if find_spec("mcp") is None:
        raise MoorageError(missing("mcp", "mcp"))
    from ..options.process import ending_on_signals
    from ..twin.mcp_server import McpServer, serve_streams
    from ..twin.remote_twin import RemoteTwin
    from ..twin.serve_twin import asked_twin

    if address is not None:
        _refuse_others()
    if address is None and (options["token_file"] or options["certificate_authority"]):
        raise click.UsageError("--token-file and --certificate-authority need --twin")
    stop = Event()
    with logging_to_stderr(verbose), ExitStack() as stack:
        if address is not None:
            remote = RemoteTwin(address, options["token_file"], options["certificate_authority"])
            ask: Any = remote.reply
        else:
            ask = asked_twin(options, stop, stack)[0].reply
        if port is None:
            serve_streams(ask)
            return 0
        with located(OSError, source=f"--port {port}"):
            server = McpServer(("127.0.0.1", port), ask)
        stack.callback(server.close)
        with ending_on_signals(stop.set):
            click.echo(f"http://127.0.0.1:{server.port}/mcp", err=True)
            stop.wait()
    return 0


def _refuse_others() -> None:
    """Refuse options that a twin elsewhere has of its own."""
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if name not in OF_TWIN and is_given(name):
            raise click.UsageError(
                f"--twin cannot be combined with {parameter.opts[0]}, which the twin is given"
            )
