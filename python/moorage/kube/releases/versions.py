"""Versions of Kubernetes as clusters tell them, and the release that decides for each."""

from __future__ import annotations

import re
from typing import NamedTuple

from .release import RELEASES, Release

_FORM = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
_WHOLE = re.compile(_FORM.pattern + r"([-+]\S*)?")


class Version(NamedTuple):
    """A version, in the order of versions.

    Attributes
    ----------
    major, minor, patch : int
    """

    major: int
    minor: int
    patch: int


def parse_version(text: str) -> Version | None:
    """Return the version at the beginning of a text; None if there is none.

    Parameters
    ----------
    text : str
        For example "v1.36.2", "v1.31.2+k3s1" or "1.37".
    """
    match = _FORM.match(text)
    return None if match is None else Version(int(match[1]), int(match[2]), int(match[3] or 0))


def nearest_release(version: Version) -> tuple[Release, bool]:
    """Return the release that decides for a version.

    Returns
    -------
    release : Release
        That of the minor version, or the nearest one.
    is_its_own : bool
        Whether the release is that of the version.
    """
    by_minor = {(int(major), int(minor)): name for name in RELEASES for major, minor in [name.split(".")]}
    wanted = (version.major, version.minor)
    nearest = min(max(wanted, min(by_minor)), max(by_minor))
    return RELEASES[by_minor[nearest]], nearest == wanted


def release_named(text: str) -> Release:
    """Return the release of a version that a user names. A release is a minor version: patches and what
    distributions add do not matter.

    Parameters
    ----------
    text : str
        For example "1.36", "v1.36", "1.36.2" or "v1.36.2-eks-1-1".

    Raises
    ------
    ValueError
        It is not one of `RELEASES`.
    """
    version = parse_version(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    found = None if version is None else RELEASES.get(f"{version.major}.{version.minor}")
    if found is None:
        raise ValueError(f"kubernetes_version must be one of {', '.join(RELEASES)}, not {text!r}")
    return found
