"""The base image is pinned by digest, or nothing is changed."""

from __future__ import annotations

from urllib.error import URLError

import pytest

from tests.package import image_digest

DIGEST = f"sha256:{'a' * 64}"


def test_each_base_image_is_pinned_and_pinned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_digest, "digest_of", lambda name, tag: DIGEST)
    texts = [file.read_text() for file in image_digest.FILES]
    pinned = image_digest.pinned(texts)
    assert [text.count(f"python:3.12-slim@{DIGEST}") for text in pinned] == [2, 1]
    assert [text.replace(f"@{DIGEST}", "") for text in pinned] == [
        image_digest.IMAGE.sub(r"\1:\2", text) for text in texts
    ]
    assert image_digest.pinned(pinned) == pinned


def test_a_registry_that_cannot_be_reached_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [file.read_text() for file in image_digest.FILES]

    def fail(*_: object, **__: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr(image_digest, "urlopen", fail)
    assert image_digest.main() == 1
    error = capsys.readouterr().err
    assert error.startswith("the digest of the base image could not be resolved; nothing is changed: ")
    assert error.count("\n") == 1
    assert [file.read_text() for file in image_digest.FILES] == before
