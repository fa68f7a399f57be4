"""``moorage scheduler``: schedules the pods of a real cluster."""

from __future__ import annotations

from typing import Any

import click

from moorage.cli.options.inputs import (
    GATE_OPTIONS,
    connected,
    connection_options,
    seed_option,
)
from moorage.cli.options.serving import serving_options


@click.command()
@connection_options
@click.option("--config", metavar="FILE", help="A KubeSchedulerConfiguration, as for kube-scheduler.")
@click.option(
    "--plugins",
    metavar="FILE",
    help="A Python file whose variable `registry` has plugins; without --config all of them take part.",
)
@GATE_OPTIONS[0]
@GATE_OPTIONS[1]
@click.option(
    "--tie-break",
    type=click.Choice(["go-heap", "first", "random"]),
    help="Choice among nodes of equal score; default: that of the release.",
)
@seed_option
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether to hold a Lease before the first pod is tried; default: what the configuration says.",
)
@serving_options
def scheduler(leader_elect: bool | None, **options: Any) -> int:
    """Schedule the pods of a cluster until SIGTERM or SIGINT, in place of kube-scheduler.

    --kubeconfig may be left out where the configuration has clientConnection.kubeconfig. The user needs the
    rights of system:kube-scheduler and of system:volume-scheduler. At the end bindings in flight are
    finished, events written, and the Lease is given up.

    Exit codes: 0 it was stopped; 1 the Lease was lost; 2 bad input, or the server has refused at the start.
    """
    import signal
    from threading import Event

    from moorage.cli.options.serving import live_scheduler, live_settings, serving, with_connection
    from moorage.serve.live_scheduler import LostLeaseError

    stop = Event()
    settings = live_settings(options)
    server = with_connection(options, settings["config"].client_connection)
    with connected(server) as client, connected(server) as events:
        live = live_scheduler(client, events, settings, leader_elect)

        def end(*_: object) -> None:
            stop.set()
            client.arrivals.wake()

        before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            with serving(options, live):
                live.work(stop)
        except LostLeaseError as error:
            click.echo(f"error: {error}", err=True)
            return 1
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
    return 0
