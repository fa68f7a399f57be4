"""Compressed data: gzip, bzip2, xz, and zstd where the standard library has it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import BinaryIO, NamedTuple, cast

from moorage.errors import InputError

MAX_SIZE = 4 << 30
"""Maximum number of bytes in a file, packed or not: a device may have no end, and a small file may unpack to
more than fits into memory."""
ALWAYS_UNPACKED = 16 << 20
"""Size in bytes to which any file is unpacked, whatever its ratio."""
_PIECE = 1 << 20


class Packing(NamedTuple):
    """A form of compressed data.

    Attributes
    ----------
    name, tool : str
        The name, and the command that unpacks it.
    magic : bytes
        With which data begin.
    module : str
        Module of the standard library whose `open` reads a file.
    max_ratio : int
        Maximum compression ratio beyond `ALWAYS_UNPACKED`: dumps of clusters have 10 to 100 with gzip, and up
        to 1,000 with forms that look at more of the file at once; zeros have more.
    """

    name: str
    tool: str
    magic: bytes
    module: str
    max_ratio: int

    def open(self, packed: BinaryIO, source: str) -> BinaryIO:
        """Open a file of this form.

        Parameters
        ----------
        source : str
            Its name, for errors.

        Raises
        ------
        InputError
            This Python cannot read it.
        """
        try:
            module = import_module(self.module)
        except ImportError:
            since = " before 3.14" if self.name == "zstd" else ""
            message = (
                f"compressed with {self.name}, which Python{since} does not read; unpack it: {self.tool}"
            )
            raise InputError(message, source=source) from None
        return cast(BinaryIO, module.open(packed))

    def most(self, size: int) -> int:
        """Return to how many bytes a file may unpack.

        Parameters
        ----------
        size : int
            Its size in bytes.
        """
        return min(MAX_SIZE, max(ALWAYS_UNPACKED, self.max_ratio * size))


GZIP = Packing("gzip", "gunzip", b"\x1f\x8b", "gzip", 250)
PACKINGS = (
    GZIP,
    Packing("bzip2", "bunzip2", b"BZh", "bz2", 2500),
    Packing("xz", "unxz", b"\xfd7zXZ\x00", "lzma", 2500),
    Packing("zstd", "unzstd", b"\x28\xb5\x2f\xfd", "compression.zstd", 2500),
)
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def packing_of(head: bytes) -> Packing | None:
    """Return the form of compressed data, None for other data.

    Parameters
    ----------
    head : bytes
        With which the data begin.
    """
    return next((one for one in PACKINGS if head.startswith(one.magic)), None)


def broken() -> tuple[type[Exception], ...]:
    """Return what readers raise for broken data."""
    found: list[type[Exception]] = [EOFError, OSError, ValueError]
    for module, name in (("zlib", "error"), ("lzma", "LZMAError"), ("compression.zstd", "ZstdError")):
        try:
            found.append(getattr(import_module(module), name))
        except ImportError:
            continue
    return tuple(found)


def too_large(most: int, source: str) -> InputError:
    """Return the error about a file that is, or unpacks to, more than a number of bytes.

    Parameters
    ----------
    source : str
        Name of the file.
    """
    if most < MAX_SIZE:
        return InputError(f"unpacks to more than {most} bytes", source=source)
    way_out = "write JSON without indentation (jq -c), or only what moorage reads (moorage dump)"
    return InputError(f"more than {most} bytes; {way_out}", source=source)


def unpack(data: bytes, source: str) -> bytes:
    """Decompress data; other data are returned as they are.

    Parameters
    ----------
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The data are broken, unpack to too much, or this Python cannot read their form.
    """
    packing = packing_of(data)
    return data if packing is None else b"".join(_pieces(packing, data, source))


def _pieces(packing: Packing, data: bytes, source: str) -> Iterator[bytes]:
    most, size = packing.most(len(data)), 0
    try:
        with packing.open(BytesIO(data), source) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > most:
                    raise too_large(most, source)
                yield piece
    except broken():
        raise InputError(f"broken {packing.name} data", source=source) from None
