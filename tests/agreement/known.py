"""The differences that the docs state."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Known(NamedTuple):
    """A rule by which two answers differ: the page and the words that state it, and why it is so."""

    stated: list[str]
    why: str


_LINES = tomllib.loads((Path(__file__).parent / "known.toml").read_text())
KNOWN = {name: Known(**line) for name, line in _LINES.items()}
MOST = 2
"""How many there are at most. The number only falls."""
