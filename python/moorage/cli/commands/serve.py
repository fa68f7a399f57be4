"""``moorage serve``: a scheduler, an extender or a twin of a cluster; ``moorage mcp``: tools for agents."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import MoorageError, located, missing

from ..options.inputs import (
    connected,
    connection_options,
    gate_options,
    input_options,
    plugins_option,
    scheduler_options,
    seed_option,
)
from ..options.new_node_options import node_source_options
from ..options.option_types import (
    CommandGroup,
    GroupedCommand,
    WholeNumber,
    is_given,
    scheduler_option,
    tie_break_option,
)
from ..options.serving import (
    SECOND,
    allow_many_connections,
    end_at_once,
    ending_on_signals,
    extender_options,
    live_scheduler,
    logging_to_stderr,
    serve_extender,
    serving,
    serving_options,
    settings_and_server,
    verbosity_option,
)
from ..serve_twin import asked_twin, limit_options, serve_twin, twin_options

if TYPE_CHECKING:
    from moorage.live.client import ApiClient


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage serve scheduler --kubeconfig ~/.kube/config",
        "moorage serve scheduler --in-cluster --config scheduler.yaml",
    ),
)
@connection_options
@scheduler_option("--config", metavar="FILE", help="A KubeSchedulerConfiguration, as for kube-scheduler.")
@plugins_option("; without --config, all of them are enabled")
@gate_options
@tie_break_option("as the release does.")
@seed_option
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether to acquire a Lease before scheduling any pod; default: as the configuration says.",
)
@verbosity_option
@serving_options
def scheduler(leader_elect: bool | None, verbose: int, **options: Any) -> int:
    """Schedule the pods of a cluster until SIGTERM, SIGINT or SIGHUP, in place of kube-scheduler.

    --kubeconfig may be left out where the configuration has clientConnection.kubeconfig. The user needs the
    rights of system:kube-scheduler and of system:volume-scheduler. At the end bindings in flight are
    finished, events written, and the Lease is given up; a second signal ends at once. SIGUSR1 writes the
    stacks of all threads to stderr.

    Exit codes: 0 it was stopped; 1 the Lease was lost; 2 bad input, or stopped before the server was read.
    """
    from threading import Event

    from moorage.live.leader_lease import LostLeaseError

    stop = Event()
    clients: list[ApiClient] = []

    def end() -> None:
        stop.set()
        for client in clients:
            client.arrivals.wake()

    allow_many_connections()
    try:
        with ending_on_signals(end), logging_to_stderr(verbose):
            settings, server = settings_and_server(options, stop)
            # Half of it leaves time for another try, as with client-go.
            half = settings["config"].leader_election.renew_deadline / SECOND / 2
            with (
                connected(server) as client,
                connected(server) as events,
                connected(server, half) as lease,
            ):
                clients.append(client)
                live = live_scheduler((client, events, lease), settings, leader_elect)
                live.on_lost = end_at_once
                with serving(options, live):
                    live.work(stop)
    except LostLeaseError:
        end_at_once()
    return 0


@click.group(cls=CommandGroup)
def serve() -> None:
    """Schedule the pods of a real cluster, answer its kube-scheduler, or answer questions about it.

    Exit codes: 0 it was stopped; 1 the Lease was lost; 2 bad input, or the server has refused at the start.
    """


serve.add_command(scheduler)


@serve.command(
    cls=GroupedCommand,
    examples=(
        "moorage serve extender --kubeconfig ~/.kube/config",
        "moorage serve extender -f examples --port 8888",
    ),
)
@input_options
@scheduler_options
@verbosity_option
@extender_options
def extender(verbose: int, **options: Any) -> int:
    """Serve filter, prioritize, preempt and bind to kube-scheduler until SIGTERM, SIGINT or SIGHUP.

    The state is that of the cluster (--kubeconfig, --in-cluster), followed by watches, or that of files (-f).
    The answers are those of the profile of the pod's schedulerName, else of the first profile of --config,
    with its plugins in Python. Scores are 0 to 10.

    A server that refuses or is away is tried again. GET /healthz, /livez and /readyz tell whether the cluster
    is followed, also without a client certificate.

    Exit codes: 0 it was stopped; 2 bad input, or stopped before the server was read.
    """
    from threading import Event

    stop = Event()
    with ending_on_signals(stop.set), logging_to_stderr(verbose):
        serve_extender(options, stop)
    return 0


@serve.command(
    cls=GroupedCommand,
    examples=(
        "moorage serve twin --kubeconfig ~/.kube/config",
        "moorage serve twin -f examples/shop/cluster.yaml --port 8899",
    ),
)
@input_options
@scheduler_options
@node_source_options
@verbosity_option
@twin_options
def twin(verbose: int, **options: Any) -> int:
    """Answer the questions of commands about a cluster until SIGTERM, SIGINT or SIGHUP.

    The cluster (--kubeconfig, --in-cluster) is followed by watches; files (-f) are read for each question.
    POST /v1/check, /v1/explain, /v1/capacity, /v1/nodes, /v1/plan/…, /v1/compare and /v1/simulate take the
    options of the commands in the query, and manifests as the body. The answer is what the command prints,
    by default with -o json; its headers name the command that prints it for a dump of that moment. At / is a
    page that asks.

    Beyond loopback it serves TLS only, and an API server decides who may ask.

    Exit codes: 0 it was stopped; 2 bad input, or stopped before the server was read.
    """
    from threading import Event

    stop = Event()
    with ending_on_signals(stop.set), logging_to_stderr(verbose):
        serve_twin(options, stop)
    return 0


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
    from ..mcp_server import McpServer, RemoteTwin, serve_streams

    if address is not None:
        for parameter in click.get_current_context().command.params:
            name = parameter.name or ""
            if name not in OF_TWIN and is_given(name):
                raise click.UsageError(
                    f"--twin cannot be combined with {parameter.opts[0]}, which the twin is given"
                )
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
