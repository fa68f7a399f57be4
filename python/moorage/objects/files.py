"""The bytes of the files that a user names: directories, standard input, compressed files."""

from __future__ import annotations

import gzip
import sys
import zlib
from io import BytesIO
from pathlib import Path

from ..errors import InputError

STDIN = "-"
MAX_UNPACKED = 1 << 30
"""How many bytes a compressed file may unpack to: a small one can stand for more than fits into memory."""

YAML_SUFFIXES = (".yaml", ".yml")
_SUFFIXES = (".json", *YAML_SUFFIXES)
_GZIP = b"\x1f\x8b"


def list_files(path: str | Path) -> list[str]:
    """The files that a path stands for: those of a directory, in the order of their names, or itself."""
    path = Path(path)
    if not path.is_dir():
        return [str(path)]
    found = sorted(file for file in path.iterdir() if has_suffix(file.name, _SUFFIXES) and file.is_file())
    if not found:
        raise InputError("no .json, .yaml or .yml file in this directory", source=str(path))
    return [str(file) for file in found]


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file name ends so, compressed or not."""
    return name.removesuffix(".gz").endswith(suffixes)


def source_name(file: str) -> str:
    """What a file is called in errors."""
    return "stdin" if file == STDIN else file


def read_file(file: str) -> bytes:
    """The content of a file or (``-``) of standard input, unpacked.

    Raises
    ------
    InputError
        If it cannot be read, is broken, or unpacks to more than `MAX_UNPACKED` bytes.
    """
    source = source_name(file)
    try:
        data = _read_stdin() if file == STDIN else Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", source=source) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from None
    return _unpack(data, source) if data.startswith(_GZIP) else data


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise InputError("cannot be read: it is closed", source=source_name(STDIN))
    return sys.stdin.buffer.read()


def _unpack(data: bytes, source: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            unpacked = file.read(MAX_UNPACKED + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError("broken gzip data", source=source) from None
    if len(unpacked) > MAX_UNPACKED:
        raise InputError(f"unpacks to more than {MAX_UNPACKED} bytes", source=source)
    return unpacked
