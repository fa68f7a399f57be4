"""Versions of APIs that a release of Kubernetes has ended, and what to write instead.

``ended_versions.txt`` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .release import RELEASES
from .versions import parse_version


class EndedVersion(NamedTuple):
    """A version of a kind that is not served any more.

    Attributes
    ----------
    kind, api_version : str
    release : str
        The first release without it, for example "1.25".
    instead : str
        The version to write; "" where the kind has ended.
    """

    kind: str
    api_version: str
    release: str
    instead: str

    def is_served(self, release: str) -> bool:
        """Whether a release serves it still."""
        last, first = parse_version(release), parse_version(self.release)
        return last is not None and first is not None and last < first

    @property
    def depends_on_release(self) -> bool:
        """Whether any release that moorage has serves it."""
        return any(map(self.is_served, RELEASES))

    @property
    def text(self) -> str:
        """The text of kubectl, and what to write instead."""
        instead = f"write {self.instead}" if self.instead else f"{self.kind} has ended with this version"
        return f'no matches for kind "{self.kind}" in version "{self.api_version}"; {instead}'


def ended_version(kind: str, api_version: str) -> EndedVersion | None:
    """Return when a version of a kind ended; None for one that has not."""
    return _table().get((kind, api_version))


@cache
def _table() -> Mapping[tuple[str, str], EndedVersion]:
    found = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if not line.startswith("#"):
            release, version, instead, *kinds = line.split()
            for kind in kinds:
                ended = EndedVersion(kind, version, release, "" if instead == "-" else instead)
                found[kind, version] = ended
    return found
