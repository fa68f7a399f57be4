"""A release of Kubernetes as the value of an option."""

from __future__ import annotations

from typing import Any

import click

from moorage.kube.releases import RELEASES, release_named


class ReleaseChoice(click.Choice[str]):
    """One of the releases, also by a version of it: ``1.37``, ``v1.37``, ``1.37.2``."""

    def __init__(self) -> None:
        super().__init__(tuple(RELEASES))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the minor version; see `click.ParamType`."""
        try:
            return release_named(value).version
        except ValueError:
            return super().convert(value, param, ctx)
