"""What `moorage serve twin` does with its options."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import located
from moorage.live.shares import Limits

from .options.inputs import connected, load_input, names_server, scheduler_settings
from .options.option_types import Number, WholeNumber, all_of, is_given, server_option
from .options.serving import (
    base_url,
    certificate_files,
    certificate_options,
    delegated_authorization,
    loopback_option,
    max_body_option,
    port_option,
    release_of_server,
    review_options,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from moorage.live.followed_cluster import FollowedCluster
    from moorage.live.web_server import Reply

    from .asked_twin import AskedTwin, StandingAnswers


MIB = 1 << 20
LIMITS = Limits()
limit_options = all_of(
    server_option(
        "--answer-seconds",
        type=Number(0, 3600, min_open=True),
        default=LIMITS.seconds,
        show_default=True,
        help="How long an answer may take.",
    ),
    server_option(
        "--answer-memory",
        type=WholeNumber(64),
        default=LIMITS.memory // MIB,
        show_default=True,
        help="How many MiB an answer may take up.",
    ),
    server_option(
        "--at-once",
        type=WholeNumber(1, 256),
        default=LIMITS.at_once,
        show_default=True,
        help="How many questions are answered at the same time; others wait for their turn.",
    ),
    server_option(
        "--max-age",
        type=Number(0, 3600),
        default=30.0,
        show_default=True,
        help="How many seconds old the state may be that questions are answered on, while it changes.",
    ),
)
"""What an answer may take up."""
twin_options = all_of(
    loopback_option(
        "The address to listen on; another one than that of loopback needs TLS, and reviews tokens."
    ),
    port_option(8899),
    certificate_options,
    review_options(
        "The API server that checks the tokens of requests; default: the one that is followed.",
        "The API server that decides who may ask; default: the one that is followed.",
    ),
    limit_options,
    click.option(
        "--predict/--no-predict",
        "predicts",
        default=True,
        show_default=True,
        help="Whether each binding of the cluster's scheduler is compared with what this one would decide.",
    ),
    click.option(
        "--questions",
        "standing",
        metavar="FILE",
        help="Questions that the twin asks itself again and again, whose answers are in /metrics.",
    ),
    max_body_option(16),
)
OF_SERVER = frozenset(("at_once", "verbose"))
"""Parameters of the server that a question has, too, and means something else by."""
_FILES_OF_QUESTIONS = ("config", "plugins", "instance_types", "node_groups")


def serve_twin(options: Mapping[str, Any], stop: Event) -> None:
    """Answer questions until an event is set; prints where to ask first.

    Parameters
    ----------
    options : mapping of str to object
        The values of `input_options`, `scheduler_options`, `node_source_options` and `twin_options`.

    Raises
    ------
    UsageError, InputError
        Options contradict each other, a file is wrong, or the address cannot be used.
    ApiError
        The server has refused, and the event is set.
    """
    from prometheus_client import generate_latest

    from moorage.live.twin_server import TwinServer
    from moorage.live.web_server import LOOPBACK, Check

    address, files = options["bind_address"], certificate_files(options)
    is_open = address not in LOOPBACK
    if is_open and not files:
        raise click.UsageError(
            f"--bind-address {address} needs --tls-cert-file and --tls-private-key-file: it takes tokens"
        )
    if is_open and not names_server(options) and not options["authorization_kubeconfig"]:
        raise click.UsageError(
            f"--bind-address {address} needs --authorization-kubeconfig: an API server decides who may ask"
        )
    reviews = "authentication_kubeconfig", "authorization_kubeconfig"
    if not is_open and any(options[name] for name in reviews):
        raise click.UsageError(
            f"on {address} no token is reviewed: leave out --authentication-kubeconfig "
            "and --authorization-kubeconfig"
        )
    with ExitStack() as stack:
        twin, cluster = asked_twin(options, stop, stack)
        alive: dict[str, Check] = {}
        ready: dict[str, Check] = {}
        if cluster is not None:
            alive, ready = ({**checks} for checks in cluster.checks())
        reader = Thread(target=twin.overview.keep_reading, args=(stop,), name="overview", daemon=True)
        alive["overview"] = reader.is_alive
        metrics = _metrics(cluster)
        if options["standing"] is not None:
            answers, asker = _standing_answers(options["standing"], twin, stop, stack)
            metrics.register(answers)
            alive["questions"], ready["questions"] = asker.is_alive, answers.age
        review = delegated_authorization(options, stack, names_server(options)) if is_open else None
        with located(OSError, source=f"--bind-address {address}, --port {options['port']}, --tls-cert-file"):
            server = TwinServer(
                (address, options["port"]),
                twin.reply,
                files=files,
                authorization=review,
                page=page_files(),
                alive=alive,
                ready=ready,
                metrics=partial(generate_latest, metrics),
                max_body=options["max_body"],
            )
        stack.callback(server.close)
        reader.start()
        stack.callback(reader.join)
        stack.callback(twin.end)
        stack.callback(stop.set)
        url = base_url(files, address, server.port)
        click.echo(f"{url}/ (questions: {url}/v1/)", err=True)
        stop.wait()


def asked_twin(
    options: Mapping[str, Any], stop: Event, stack: ExitStack
) -> tuple[AskedTwin, FollowedCluster | None]:
    """Return what answers questions about the cluster of options, and the cluster if it is followed.

    Parameters
    ----------
    options : mapping of str to object
        See `serve_twin`.
    stop : threading.Event
        Ends the attempts to reach the server, and the following.
    """
    from .asked_twin import AskedTwin

    defaults = [*_defaults(options)]
    seconds, memory = options["answer_seconds"], options["answer_memory"] * MIB
    limits = Limits(seconds, memory, at_once=options["at_once"])
    if not names_server(options):
        if is_given("predicts"):
            raise click.UsageError("--predict needs a cluster that is followed: files have no bindings")
        if is_given("max_age"):
            raise click.UsageError(
                "--max-age needs a cluster that is followed: files are read again when they change"
            )
        load_input(options)
        files = options["files"]
        if "-" in files:
            raise click.UsageError("standard input can be read once only: give -f a file")
        return AskedTwin(
            None, files, is_recursive=options["recursive"], defaults=defaults, limits=limits
        ), None
    if options["files"] or options["synthetic"]:
        raise click.UsageError("-f and --synthetic cannot be combined with --kubeconfig or --in-cluster")
    from moorage.answers.scheduler import Scheduler
    from moorage.live.followed_cluster import FollowedCluster, PredictedBindings  # needs the extra kube
    from moorage.store import UnreachableError

    release = release_of_server(options, stop)
    if options["version"] is None:
        defaults.append(("kubernetes-version", release))
    client = stack.enter_context(connected(options))
    bindings = None
    if options.get("predicts"):
        settings = scheduler_settings({**options, "version": release})
        if settings["config"] is not None and settings["config"].extenders:
            raise click.UsageError(
                "bindings of a scheduler with extenders are not predicted: give --no-predict"
            )
        scheduler = Scheduler(client, clock=time.monotonic, synced=False, **settings)
        bindings = PredictedBindings(scheduler)
    cluster = FollowedCluster(client, bindings)
    twin = AskedTwin(cluster, defaults=defaults, limits=limits, max_age=options["max_age"])
    if not cluster.await_lists(stop):
        raise UnreachableError("stopped before the cluster was listed")
    stack.callback(cluster.start(stop).join)
    stack.callback(stop.set)
    stack.callback(client.arrivals.wake)
    return twin, cluster


def _metrics(cluster: FollowedCluster | None) -> CollectorRegistry:
    """Return what has the metrics of a cluster that is followed."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    if cluster is not None:
        registry.register(cluster.metrics)
        if cluster.bindings is not None:
            registry.register(cluster.bindings)
    return registry


def _standing_answers(
    file: str, twin: AskedTwin, stop: Event, stack: ExitStack
) -> tuple[StandingAnswers, Thread]:
    """Begin to ask the standing questions of a file; also return the thread that asks them."""
    from .asked_twin import StandingAnswers, read_questions

    alone = twin.alone()
    answers = StandingAnswers(alone, read_questions(file))
    asker = Thread(target=answers.keep_asking, args=(stop,), name="questions", daemon=True)
    asker.start()
    stack.callback(asker.join)
    stack.callback(alone.forks.end)
    stack.callback(stop.set)
    return answers, asker


def _defaults(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that are given to every question, as it would name them: those on the command line
    that questions have, too."""
    from .questions import long_name, named_questions, parameters_of

    of_questions = {
        parameter.name for _, command in named_questions() for parameter in parameters_of(command).values()
    }
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if name not in of_questions - OF_SERVER or not is_given(name):
            continue
        value, option = options[name], long_name(parameter)
        if isinstance(value, bool):
            option, value = (parameter.opts if value else parameter.secondary_opts)[0], "true"
        several = value if parameter.multiple else (value,)
        for given in several:
            text = ",".join(given) if isinstance(given, tuple) else str(given)
            if name in _FILES_OF_QUESTIONS and os.path.exists(text):
                text = os.path.abspath(text)  # an answer is worked out in another folder
            yield option.lstrip("-"), text


# ---- page files --------------------------------------------------------------------------------------------
#
# The page of a twin: files that a browser gets without a token, as they say nothing about the cluster.

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do for the page: run and load these files, and ask the twin."""


def page_files() -> Mapping[str, Reply]:
    """Return the answers by path: the page at ``/``, and what it loads."""
    from msgspec import json

    from moorage.cluster.verbs import VERBS
    from moorage.live.web_server import Reply

    headers = (
        ("Content-Security-Policy", POLICY),
        ("Cache-Control", "no-cache"),
        ("Referrer-Policy", "no-referrer"),
    )
    own = [file for file in (files(__package__) / "page").iterdir() if file.name.rpartition(".")[2] in TYPES]
    replies = {
        f"/page/{file.name}": Reply(
            200, file.read_bytes(), f"{TYPES[file.name.rpartition('.')[2]]}; charset=utf-8", headers
        )
        for file in (*own, files("moorage.answers") / "assets/page.css")
    }
    helps = json.encode({verb.name: verb.help for verb in VERBS})
    script = b"export const HELP = " + helps + b";\n"
    replies["/page/verbs.js"] = Reply(200, script, f"{TYPES['js']}; charset=utf-8", headers)
    return {"/": replies.pop("/page/index.html"), **replies}
