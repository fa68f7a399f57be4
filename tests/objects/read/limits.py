"""Limits of what is read, so low that a small file reaches them."""

from __future__ import annotations

import pytest


def lower_limits(monkeypatch: pytest.MonkeyPatch, most: int, *names: str) -> None:
    """Lower constants of modules that read."""
    for name in names:
        monkeypatch.setattr(f"moorage.kube.read.{name}", most)
