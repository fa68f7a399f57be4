"""What commands that do not end share: plugins of a file, servers, signals, logs."""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import resource
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from moorage._version import __version__
from moorage.errors import InputError, located, printable

from .inputs import (
    asked_scheduler,
    connected,
    load_input,
    names_server,
    print_notes,
    scheduler_settings,
)
from .option_types import Decorator, Number, WholeNumber, all_of, answer_option, server_option

if TYPE_CHECKING:
    from threading import Event

    from moorage.engine.framework.configuration.types import (
        ClientConnectionConfiguration,
        LeaderElectionConfiguration,
    )
    from moorage.live.client import ApiClient, Connection
    from moorage.live.extender_service import ExtenderService
    from moorage.live.health import DelegatedAuthorization, LiveMetrics
    from moorage.live.leader_lease import Election
    from moorage.live.live_scheduler import LiveScheduler


# ---- serving -----------------------------------------------------------------------------------------------

logger = logging.getLogger("moorage.serve")

SECOND = 1e9
"""Nanoseconds."""
FOLLOW = 1.0
"""Seconds between two looks at the cluster where an extender is not asked."""
JSON = "application/json"
UPSTREAMS_DEFAULT = "application/vnd.kubernetes.protobuf"

certificate_options = all_of(
    server_option(
        "--tls-cert-file",
        metavar="FILE",
        help="The certificate for HTTPS, followed by those of its authorities.",
    ),
    server_option("--tls-private-key-file", metavar="FILE", help="The key of --tls-cert-file."),
)


def port_option(default: int) -> Decorator:
    """Return the option of the port of a server."""
    return server_option(
        "--port",
        type=WholeNumber(0, 65535),
        default=default,
        show_default=True,
        help="The port to listen on; 0 takes any free one.",
    )


def loopback_option(text: str) -> Decorator:
    """Return the option of the address of a server that is on loopback by default."""
    return server_option(
        "--bind-address", metavar="ADDRESS", default="127.0.0.1", show_default=True, help=text
    )


def review_options(authentication: str, authorization: str) -> Decorator:
    """Return the options of the servers that review requests."""
    return all_of(
        server_option("--authentication-kubeconfig", metavar="FILE", help=authentication),
        server_option("--authorization-kubeconfig", metavar="FILE", help=authorization),
    )


def max_body_option(mebibytes: int) -> Decorator:
    """Return the option of how large requests may be."""
    return server_option(
        "--max-body",
        type=WholeNumber(1),
        default=mebibytes << 20,
        show_default=True,
        help="Maximum size of a request in bytes.",
    )


serving_options = all_of(
    server_option(
        "--secure-port",
        type=WholeNumber(0, 65535),
        default=0,
        show_default=True,
        help="The HTTPS port for /healthz, /livez, /readyz and /metrics; 0 turns it off.",
    ),
    server_option(
        "--bind-address",
        metavar="ADDRESS",
        help="The address on which --secure-port listens; default: 0.0.0.0.",
    ),
    certificate_options,
    review_options(
        "The API server that checks the tokens of requests for /metrics; default: that of --in-cluster. "
        "Without one, requests are anonymous.",
        "The API server that decides who may read /metrics; default: that of --in-cluster. Without one, all "
        "requests are denied.",
    ),
)
extender_options = all_of(
    loopback_option("The address to listen on."),
    port_option(8888),
    server_option(
        "--path", metavar="PATH", default="", help="The path in urlPrefix, which precedes the verbs."
    ),
    certificate_options,
    server_option(
        "--client-ca-file",
        metavar="FILE",
        help="Serve only clients with a certificate that this authority has signed.",
    ),
    max_body_option(128),
    server_option(
        "--timeout",
        type=Number(0, 3600, min_open=True),
        default=30.0,
        show_default=True,
        help="Maximum number of seconds for the head of a request to arrive, and for its body.",
    ),
)
_OF_PORT = (
    "bind_address",
    "tls_cert_file",
    "tls_private_key_file",
    "authentication_kubeconfig",
    "authorization_kubeconfig",
)


def serve_extender(options: Mapping[str, Any], stop: Event) -> None:
    """Serve the verbs of an extender until an event is set; prints the value of ``urlPrefix`` first.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`, `scheduler_options` and `extender_options`.

    Raises
    ------
    UsageError, InputError
        Options contradict each other, a file is wrong, or the address cannot be used.
    ApiError
        The server has refused, and the event is set.
    """
    from moorage.answers.scheduler import Scheduler
    from moorage.live.extender_service import ExtenderServer, ExtenderService
    from moorage.live.health import LiveMetrics, follower_checks, readiness_checks
    from moorage.store import UnreachableError

    _check_extender(options)
    if names_server(options):
        options = {**options, "version": release_of_server(options, stop)}
    settings = scheduler_settings(options)
    if settings["config"] is not None and settings["config"].extenders:
        raise InputError("an extender calls no extenders", source=options["config"], path="extenders")
    with ExitStack() as stack:
        alive = ready = metrics = arrivals = None
        if names_server(options):
            client = stack.enter_context(connected(options))
            metrics, arrivals = LiveMetrics(client), client.arrivals
            scheduler = Scheduler(client, clock=time.monotonic, synced=False, **settings)
            if not client.await_lists(stop):
                raise UnreachableError("stopped before the cluster was listed")
            scheduler.sync()
            metrics.has_stepped()
            alive = follower_checks(client, metrics)
            ready = {**alive, **readiness_checks(metrics)}
        else:
            cluster = load_input(options)
            print_notes((), cluster)
            scheduler = Scheduler(cluster, **scheduler_settings(options, cluster))
        service = ExtenderService(scheduler, arrivals)
        files, address = certificate_files(options), options["bind_address"]
        certificate, key = files or (None, None)
        tls = f"--tls-cert-file {certificate}, " if certificate else ""
        with located(OSError, source=f"{tls}--bind-address {address}, --port {options['port']}"):
            server = ExtenderServer(
                (address, options["port"]),
                service.answer,
                certificate=certificate,
                key=key,
                client_authorities=options["client_ca_file"],
                prefix=options["path"],
                max_body=options["max_body"],
                timeout=options["timeout"],
                health=alive,
                ready=ready,
                metrics=metrics.text if metrics is not None else None,
            )
        stack.callback(server.close)
        path = "/" + options["path"].strip("/") if options["path"].strip("/") else ""
        click.echo(f"urlPrefix: {base_url(files, address, server.port)}{path}", err=True)
        _follow(service, metrics, stop)


def certificate_files(options: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return certificate and key; None without them. One of them alone is a UsageError."""
    certificate, key = options["tls_cert_file"], options["tls_private_key_file"]
    if bool(certificate) != bool(key):
        raise click.UsageError("give both --tls-cert-file and --tls-private-key-file, or neither")
    return (certificate, key) if certificate else None


def base_url(files: tuple[str, str] | None, address: str, port: int) -> str:
    """Return where a server is reached."""
    return f"{'https' if files else 'http'}://{f'[{address}]' if ':' in address else address}:{port}"


def _check_extender(options: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other; warn of a port that everybody may use."""
    from moorage.live.web_server import LOOPBACK

    files = certificate_files(options)
    if options["client_ca_file"] and not files:
        raise click.UsageError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
    if not names_server(options):
        return
    if not options["client_ca_file"] and options["bind_address"] not in LOOPBACK:
        logger.warning(
            "whoever reaches the port can read the cluster and bind pods; --client-ca-file prevents it: "
            "address=%s port=%s",
            options["bind_address"],
            options["port"],
        )
    if options["files"] or options["synthetic"] or options["namespace"]:
        raise click.UsageError("-f, --synthetic and -n cannot be combined with --kubeconfig or --in-cluster")


def _follow(service: ExtenderService, metrics: LiveMetrics | None, stop: Event) -> None:
    """Follow the cluster until an event is set, whether requests come or not."""
    from moorage.store import ApiError

    while not stop.wait(FOLLOW):
        try:
            service.follow()
            if metrics is not None:
                metrics.has_stepped()
        except ApiError as error:
            if metrics is not None:
                metrics.failed_steps += 1
            logger.warning("the cluster is not followed now: error=%s", error)


@contextmanager
def serving(options: Mapping[str, Any], live: LiveScheduler) -> Iterator[None]:
    """Serve health checks and metrics over HTTPS in the block, if options name a port.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options` and `serving_options`.

    Raises
    ------
    InputError
        Certificate or key is wrong, or the address cannot be used.
    """
    from moorage.live.health import SecureServer

    port, files = options["secure_port"], (options["tls_cert_file"], options["tls_private_key_file"])
    if not port:
        yield
        return
    metrics = live.run.metrics
    metrics.text()
    with ExitStack() as stack:
        authorization = delegated_authorization(options, stack)
        address = options["bind_address"] or "0.0.0.0", port
        source = f"--bind-address {address[0]}, --secure-port {port}, --tls-cert-file {files[0]}"
        with located(OSError, source=f"{source}, --tls-private-key-file {files[1]}"):
            server = SecureServer(address, *files, authorization, metrics.text, live.ready, live.health)
        stack.callback(server.close)
        yield


def delegated_authorization(
    options: Mapping[str, Any], stack: ExitStack, asks_own: bool = False
) -> DelegatedAuthorization:
    """Return what decides on requests, with connections that a stack closes.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options` and of the kubeconfigs of `serving_options`.
    asks_own : bool, optional
        Whether the server of `connection_options` is asked also outside of a cluster.
    """
    from moorage.live.client import connect
    from moorage.live.health import DelegatedAuthorization

    def server_of(path: str | None) -> Connection | None:
        if path or options["in_cluster"]:
            return stack.enter_context(connect(path, in_cluster=not path)).connection
        return stack.enter_context(connected(options)).connection if asks_own else None

    return DelegatedAuthorization(
        server_of(options["authentication_kubeconfig"]), server_of(options["authorization_kubeconfig"])
    )


def release_of_server(options: Mapping[str, Any], stop: Event) -> str:
    """Return the release that decides: that of ``--kubernetes-version``, else that of the API server.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options`, and ``version``.
    stop : threading.Event
        Ends the attempts to reach the server.

    Raises
    ------
    ApiError
        The server has not answered, and the event is set.
    """
    from moorage.kube import Cluster

    cluster = Cluster()
    if options["version"] is None:
        with connected(options) as client:
            cluster.server_version = _awaited_version(client, stop)
    from moorage.kube.read.deciding_release import deciding_release

    release = deciding_release(cluster, options["version"])
    for warning in cluster.warnings:
        logger.warning("%s", warning)
    logger.info("release: version=%s reason=%s", release.version, release.reason)
    return release.version


def settings_and_server(options: Mapping[str, Any], stop: Event) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the keyword arguments of a `Scheduler`, and the options that name its API server.

    The release of the server tells what a configuration may have, and the configuration may name the server:
    it is read as the default release does, and again if the server is of another one.

    Parameters
    ----------
    options : mapping of str to object
        See `live_settings`, `with_connection` and `serving`.
    stop : threading.Event
        Ends the attempts to reach the server.

    Returns
    -------
    settings : dict of str to object
        See `live_settings`.
    server : mapping of str to object
        See `with_connection`.

    Raises
    ------
    UsageError
        Options of the port for metrics lack each other.
    InputError
        See `live_settings` and `with_connection`.
    ApiError
        The server has not answered, and the event is set.
    """
    given = [name for name in _OF_PORT if options[name]]
    if given and not options["secure_port"]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --secure-port")
    if options["secure_port"] and not (options["tls_cert_file"] and options["tls_private_key_file"]):
        raise click.UsageError("--secure-port needs --tls-cert-file and --tls-private-key-file")
    server, settings = options, dict[str, Any]()
    try:
        settings = live_settings(options)
    except (InputError, click.UsageError):  # perhaps of a gate or a field that the release of the server has
        if options["version"] is not None or not names_server(options):
            raise
    else:
        server = with_connection(options, settings["config"].client_connection)
    release = release_of_server(server, stop)
    if not settings or release != settings["feature_gates"].release.version:
        settings = live_settings({**options, "version": release})
        server = with_connection(options, settings["config"].client_connection)
    return settings, server


def live_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a `Scheduler` of a real cluster; a configuration is always among them.

    Parameters
    ----------
    options : mapping of str to object
        See `scheduler_settings`.
    """
    from msgspec.structs import replace

    from moorage.sim.plugin_file import configuration_with

    settings = asked_scheduler({**options, "percentage": None})
    return (replace(settings, config=configuration_with({})) if settings.config is None else settings).of()


def with_connection(
    options: Mapping[str, Any], connection: ClientConnectionConfiguration
) -> Mapping[str, Any]:
    """Return the options of `connected` with the kubeconfig of a configuration.

    Parameters
    ----------
    options : mapping of str to object
        The values of `connection_options`.

    Raises
    ------
    InputError
        Options name another API server than the configuration, or it asks for another type than JSON.
    """

    def refuse(field: str, text: str) -> InputError:
        return InputError(text, source=options["config"] or "", path=f"clientConnection.{field}")

    if connection.content_type not in (JSON, UPSTREAMS_DEFAULT):
        raise refuse("contentType", f"not supported: {connection.content_type!r}; use {JSON}")
    accepted = [media_type.split(";")[0].strip() for media_type in connection.accept_content_types.split(",")]
    if connection.accept_content_types and not {JSON, "application/*", "*/*"} & set(accepted):
        text = f"not supported: {connection.accept_content_types!r}; use {JSON}"
        raise refuse("acceptContentTypes", text)
    kubeconfig = connection.kubeconfig
    if not kubeconfig or options["kubeconfig"] == kubeconfig:
        return options
    if options["in_cluster"] or options["kubeconfig"]:
        other = "--in-cluster" if options["in_cluster"] else f"--kubeconfig {options['kubeconfig']}"
        raise refuse("kubeconfig", f"{kubeconfig!r} and {other} differ: leave one of them out")
    return {**options, "kubeconfig": kubeconfig}


def live_scheduler(
    clients: tuple[ApiClient, ApiClient, ApiClient], settings: dict[str, Any], leader_elect: bool | None
) -> LiveScheduler:
    """Return a scheduler with the leader election and the limits of requests of a configuration.

    Parameters
    ----------
    clients : (ApiClient, ApiClient, ApiClient)
        For objects, for events, and for the Lease.
    settings : dict of str to object
        See `live_settings`.
    leader_elect : bool or None
        In place of what the configuration says.
    """
    from moorage.live.client.connection import RateLimit
    from moorage.live.live_scheduler import LiveScheduler

    config = settings["config"]
    limits = config.client_connection
    client, events, lease = clients
    for api_client in (client, events):
        api_client.connection.limit = RateLimit(limits.qps, limits.burst, api_client.connection.clock)
    leader = config.leader_election
    is_elected = leader.leader_elect if leader_elect is None else leader_elect
    election = _election(lease, leader) if is_elected else None
    profiles = ",".join(profile.scheduler_name for profile in config.profiles)
    logger.info("starting: version=%s profiles=%s", __version__, profiles)

    return LiveScheduler(client, events.connection, election=election, **settings)


def _awaited_version(client: ApiClient, stop: Event) -> str:
    """Return the version of a server, asked until it answers; ApiError if the event is set before."""
    from moorage.live.client.cluster_objects import asked_version
    from moorage.live.live_scheduler import RETRY
    from moorage.store import ApiError

    while True:
        try:
            return asked_version(client)
        except ApiError as error:
            logger.warning("start has failed, and is repeated: seconds=%s error=%s", RETRY, error)
            if stop.wait(RETRY):
                raise


def _election(lease: ApiClient, leader: LeaderElectionConfiguration) -> Election:
    from moorage.live.leader_lease import Election, LeaderLease

    lease.connection.repeats = False  # the next attempt is one of `retryPeriod`
    candidate = LeaderLease(
        lease.connection,
        f"{socket.gethostname()}_{uuid.uuid4()}",
        namespace=leader.resource_namespace,
        name=leader.resource_name,
        duration=leader.lease_duration / SECOND,
        clock=time.monotonic,
        now=lease.now,
    )
    return Election(candidate, leader.renew_deadline / SECOND, leader.retry_period / SECOND, time.monotonic)


# ---- process -----------------------------------------------------------------------------------------------
#
# What a command that does not end asks of its process: signals, and room for connections.

ENDS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
DUMPS = {signal.SIGUSR1: False, signal.SIGQUIT: True}
"""Signals at which the stacks of all threads are written, and whether the process ends then."""
IN_A_HURRY = 1
"""The exit code after a second signal (apiserver v0.36, server/signal.go)."""


@contextmanager
def ending_on_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call a function at the first of `ENDS`, and end the process at the second one, during the block.

    A thread of its own calls it: a handler of signals interrupts the main thread anywhere, and would wait
    for ever for a lock that this one holds, as that of an Event on which it waits.

    SIGUSR1 writes the stacks of all threads to stderr, and SIGQUIT as well before it ends the process, as
    with programs in Go. SIGUSR2 is ignored. (kube-scheduler handles only SIGTERM and SIGINT; the others end
    it.)
    """
    from queue import SimpleQueue
    from threading import Thread

    calls, signals = 0, SimpleQueue[bool]()

    def handle(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            os._exit(IN_A_HURRY)
        signals.put(True)

    def call() -> None:
        if signals.get():
            end()

    caller = Thread(target=call, name="end on signals", daemon=True)
    caller.start()
    handlers = dict.fromkeys(ENDS, handle) | {signal.SIGUSR2: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    if (stderr := sys.__stderr__) is not None:
        for number, chain in DUMPS.items():
            with suppress(OSError, ValueError):  # stderr is closed
                faulthandler.register(number, stderr, all_threads=True, chain=chain)
    try:
        yield
    finally:
        for number in DUMPS:
            faulthandler.unregister(number)
        for number, handler in before.items():
            signal.signal(number, handler)
        signals.put(False)
        caller.join()


def allow_many_connections() -> None:
    """Raise the limit of open files as far as the process may, as programs in Go do: a write that hangs keeps
    its connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# ---- logs --------------------------------------------------------------------------------------------------
#
# The log of commands that do not end, on stderr.

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
"""Time in UTC, level, text; the text ends with what it is about, as ``key=value``."""
_PLACEHOLDER = re.compile(r"(=?)%[-.\d]*[a-z]")
LOST = 1
"""The exit code after the Lease was lost."""


class LineFormatter(logging.Formatter):
    """Writes a line for a record, whatever it quotes of others: nothing of that begins a line of its own, or
    reaches the terminal as a control character. A value that is not one word is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.args, tuple):
            equals = [match[1] for match in _PLACEHOLDER.finditer(str(record.msg))]
            args = tuple(
                _quoted(str(value)) if equal and isinstance(value, str | Exception) else value
                for value, equal in zip(record.args, equals, strict=False)
            )
            record = logging.makeLogRecord({**record.__dict__, "args": args})
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(f"\t{printable(line)}" for line in super().formatException(ei).split("\n"))


def _quoted(text: str) -> str:
    """Return a text between quotation marks, unless it is one word without any."""
    if re.fullmatch(r'[^\s"=]+', text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def verbosity_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with ``-v``."""
    return answer_option("-v", "verbose", count=True, help="Also log each pod that is bound.")(command)


@contextmanager
def logging_to_stderr(verbose: int) -> Iterator[None]:
    """Write the log of a live scheduler to stderr during the block. After it, threads that still end have
    nowhere to write to, as stderr may be closed.

    Parameters
    ----------
    verbose : int
        0 for start, end, Lease and failures; 1 for pods as well.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(FORMAT, "%Y-%m-%dT%H:%M:%S"))
    handler.formatter.converter = time.gmtime  # type: ignore[union-attr]
    logger = logging.getLogger("moorage")
    before = logger.handlers, logger.level
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.handlers, level = before
        logger.setLevel(level)


def end_at_once() -> None:
    """End the process: another scheduler may lead now, so nothing is sent or waited for any more."""
    click.echo("error: leaderelection lost", err=True)
    os._exit(LOST)
