"""Reading vectors: strict JSON lines."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LINES, RECORD = (".jsonl", ".jsonl.gz"), ".json.gz"
"""Endings of files of vectors, a line each, and of a file with one record of a control plane."""


class MalformedError(Exception):
    """A file or a line that is no vector."""


def files(paths: list[str]) -> list[Path]:
    """The given files, and the vectors and records in the given directories, sorted."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found += sorted(one for one in path.iterdir() if one.name.endswith((*LINES, RECORD)))
        else:
            found.append(path)
    return found


def is_record(path: Path) -> bool:
    """Whether a file is one record of a control plane."""
    return path.name.endswith(RECORD)


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that may be compressed; raises MalformedError if it cannot be read or is empty."""
    opener = gzip.open if path.name.endswith(".gz") else open
    empty = True
    try:
        with opener(path, "rb") as file:
            for line in file:
                empty = False
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedError(f"cannot be read: {error}") from error
    if empty:
        raise MalformedError("no scenario in this file")


def decode(line: bytes) -> dict[str, Any]:
    """One line as an object; duplicate keys and non-standard numbers are refused."""
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"malformed line: {error}") from error
    if not isinstance(value, dict):
        raise MalformedError("malformed line: not an object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key in an object")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
