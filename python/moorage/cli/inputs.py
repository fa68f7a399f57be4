"""Options for the cluster and the scheduler; the engine is imported when a command runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, located

if TYPE_CHECKING:
    from moorage.objects import Cluster


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options ``-f`` and ``--synthetic``, for `load_input`.

    Parameters
    ----------
    command : callable
        The command.

    Returns
    -------
    callable
        The command with the options.
    """
    files = click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE|DIR|-",
        help="Manifests or kubectl dumps, gzip or not; repeatable; - is standard input.",
    )
    synthetic = click.option(
        "--synthetic", metavar="nodes=N,pods=N[,zones=N]", help="A made-up cluster instead of files."
    )
    return files(synthetic(command))


def load_input(files: tuple[str, ...], synthetic: str | None, seed: int) -> Cluster:
    """Load the cluster of ``-f`` or ``--synthetic``, of which exactly one is required.

    Parameters
    ----------
    files : tuple of str
        Paths of ``-f``.
    synthetic : str or None
        Sizes of a synthetic cluster, ``nodes=5000,pods=100``.
    seed : int
        Seed of the synthetic cluster.

    Returns
    -------
    Cluster
        The cluster.
    """
    if bool(files) == bool(synthetic):
        raise click.UsageError("give either -f or --synthetic")
    if synthetic is None:
        from moorage.objects import load

        return load(*files)
    from moorage.sim.synthetic import synthetic as make

    return make(**_sizes(synthetic), seed=seed)


gates_option = click.option(
    "--feature-gates",
    "gates",
    metavar="A=true,B=false",
    default="",
    help="Feature gates of kube-scheduler v1.36 that differ from their defaults.",
)


def scheduler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options ``--config`` and ``--feature-gates``.

    Parameters
    ----------
    command : callable
        The command.

    Returns
    -------
    callable
        The command with the options.
    """
    config = click.option(
        "--config",
        metavar="FILE|-",
        help="A KubeSchedulerConfiguration; default: kube-scheduler's own profile.",
    )
    return config(gates_option(command))


def feature_gates(text: str) -> dict[str, bool]:
    """Parse ``A=true,B=false``; an unknown gate is an error.

    Parameters
    ----------
    text : str
        Value of the option.

    Returns
    -------
    dict of str to bool
        Value by gate.
    """
    from moorage.framework.configuration import feature_gates as all_gates

    changes: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if value not in ("true", "false"):
            raise InputError(f"neither true nor false: {value!r}", source="--feature-gates", path=name)
        changes[name] = value == "true"
    with located(ValueError, source="--feature-gates"):
        all_gates(changes)
    return changes


def _sizes(text: str) -> dict[str, int]:
    """Parse ``nodes=5000,pods=100``."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in ("nodes", "pods", "zones"):
            raise InputError(
                "unknown; nodes, pods and zones are known", source="--synthetic", path=repr(name)
            )
        if not re.fullmatch("[0-9]{1,9}", value):
            raise InputError(f"not a whole number below 10^9: {value!r}", source="--synthetic", path=name)
        sizes[name] = int(value)
    return sizes
