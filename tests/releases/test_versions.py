"""Versions of Kubernetes as clusters tell them."""

from __future__ import annotations

import pytest

from moorage.kube.releases import RELEASES, Version, nearest_release, parse_version, release_named


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.36.2", (1, 36, 2)),
        ("1.37", (1, 37, 0)),
        ("v1.31.2+k3s1", (1, 31, 2)),
        ("v1.34.4-eks-1a2b3c4", (1, 34, 4)),
        ("v1.35.0-alpha.1", (1, 35, 0)),
        ("kwok-v0.6.0", None),
        ("fake", None),
        ("", None),
        ("v1", None),
        ("2024.10.26.1", None),
    ],
)
def test_a_version_is_read_from_the_beginning_of_a_text(
    text: str, version: tuple[int, int, int] | None
) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("version", "release", "is_its_own"),
    [
        ((1, 34, 9), "1.34", True),
        ((1, 37, 0), "1.37", True),
        ((1, 33, 0), "1.34", False),
        ((1, 39, 1), "1.38", False),
        ((0, 99, 0), "1.34", False),
        ((2, 0, 0), "1.38", False),
    ],
)
def test_the_release_of_a_version_is_its_own_or_the_nearest(
    version: tuple[int, int, int], release: str, is_its_own: bool
) -> None:
    assert nearest_release(Version(*version)) == (RELEASES[release], is_its_own)


@pytest.mark.parametrize(
    "text", ["1.37", "v1.37", "1.37.2", "v1.37.2", "v1.37.2+k3s1", "v1.37.0-eks-1-2", "v1.37.0-gke.1"]
)
def test_a_release_is_named_by_any_version_of_it(text: str) -> None:
    assert release_named(text) is RELEASES["1.37"]


@pytest.mark.parametrize("text", ["1.33", "1", "", "x1.37", "1.37 x", "1.37.2.1", "1.37x", "1.370"])
def test_what_is_no_version_of_a_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"one of 1\.34, 1\.35, 1\.36, 1\.37"):
        release_named(text)
