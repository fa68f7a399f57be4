"""Where the commands get their cluster from; the engine is imported only when a command runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from moorage.errors import InputError

if TYPE_CHECKING:
    from moorage.objects import Cluster


def load_input(files: tuple[str, ...], synthetic: str | None, seed: int) -> Cluster:
    """The cluster of ``-f`` or of ``--synthetic``, of which one has to be given."""
    if bool(files) == bool(synthetic):
        raise click.UsageError("give either -f or --synthetic")
    if synthetic is None:
        from moorage.objects import load

        return load(*files)
    from moorage.sim.synthetic import synthetic as make

    return make(**_sizes(synthetic), seed=seed)


def _sizes(text: str) -> dict[str, int]:
    """``nodes=5000,pods=100`` as numbers."""
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
