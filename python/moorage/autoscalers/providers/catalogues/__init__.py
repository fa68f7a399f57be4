"""What providers sell: public tables as data. ``README.md`` says where each comes from."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_catalogue(name: str, kind: type[T]) -> T:
    """Return a catalogue."""
    file = Path(__file__).parent / f"{name}.json.gz"
    return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=kind)
