"""Reads the members of tar and zip archives one after another, with limits on their size."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple, cast

from moorage.errors import InputError

from .files import (
    ALWAYS_UNPACKED,
    GZIP,
    MAX_RATIO,
    MAX_STREAMED,
    MAX_UNPACKED,
    STDIN,
    SUFFIXES,
    has_suffix,
    source_name,
    unpack,
)

_ZIP = b"PK\x03\x04"
_TAR, _TAR_AT = b"ustar", 257
_HEAD = 512
MAX_MEMBERS = 1_000_000
"""Maximum number of files in an archive, since empty ones take no space in it."""
_BROKEN = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, NotImplementedError)


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    data: bytes


class _LimitedReader:
    """A stream that refuses to give more than a number of bytes."""

    def __init__(self, stream: BinaryIO, most: int, source: str) -> None:
        self._stream = stream
        self._most = self._left = most
        self._source = source

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"unpacks to more than {self._most} bytes", source=self._source)
        return data


def read_archive(file: str) -> Generator[Member] | None:
    """Return the JSON and YAML files of an archive: tar, also compressed with gzip, or zip.

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Returns
    -------
    generator of Member or None
        In the order of a tar archive, and sorted by name of a zip archive; None for a file that is no
        archive. It raises InputError if the archive is broken, or unpacks to more than `MAX_RATIO` times its
        size, `MAX_STREAMED` bytes, or `MAX_UNPACKED` bytes in one file.
    """
    opened = _open(file)
    if opened is None:
        return None
    kind = _kind(opened)
    if kind:
        return _members(opened, kind, source_name(file))
    opened.close()
    return None


def _open(file: str) -> BinaryIO | None:
    """Open a regular file; None for any other, and for one that cannot be opened."""
    try:
        if file != STDIN and stat.S_ISREG(os.stat(file).st_mode):
            return open(file, "rb")
    except (OSError, ValueError):
        pass
    return None


def _kind(opened: BinaryIO) -> str:
    """The mode by which `tarfile` reads a file, ``zip``, or "" for a file that is no archive."""
    head = opened.read(_HEAD)
    opened.seek(0)
    if head.startswith(_ZIP):
        return "zip"
    if head.startswith(GZIP):
        try:
            with gzip.GzipFile(fileobj=opened) as packed:
                head, mode = packed.read(_HEAD), "gz"
        except (*_BROKEN, OSError):
            return ""
        finally:
            opened.seek(0)
    else:
        mode = "tar"
    return mode if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR else ""


def _members(opened: BinaryIO, kind: str, source: str) -> Generator[Member]:
    with opened:
        packed_size = os.fstat(opened.fileno()).st_size
        most = min(MAX_STREAMED, max(ALWAYS_UNPACKED, MAX_RATIO * packed_size))
        try:
            if kind == "zip":
                yield from _of_zip(opened, most, source)
            elif kind == "gz":
                yield from _of_tar(cast(BinaryIO, gzip.GzipFile(fileobj=opened)), most, source)
            else:
                yield from _of_tar(opened, most, source)
        except (*_BROKEN, OSError, ValueError, RuntimeError) as error:
            raise InputError(f"a broken archive: {error}", source=source) from None


def _of_tar(stream: BinaryIO, most: int, source: str) -> Iterator[Member]:
    limited = cast(BinaryIO, _LimitedReader(stream, most, source))
    with tarfile.open(fileobj=limited, mode="r|") as archive:
        for number, member in enumerate(archive):
            _check_number(number, source)
            archive.members = []  # type: ignore[attr-defined]  # they would be kept
            if member.isreg() and has_suffix(member.name, SUFFIXES):
                _check_size(member.size, member.name, source)
                data = archive.extractfile(member)
                assert data is not None
                yield _unpacked(member.name, data.read(), source)


def _of_zip(opened: BinaryIO, most: int, source: str) -> Iterator[Member]:
    with zipfile.ZipFile(opened) as archive:
        _check_number(len(archive.filelist) - 1, source)
        left = most
        for member in sorted(archive.infolist(), key=lambda one: one.filename):
            if not has_suffix(member.filename, SUFFIXES):  # which no folder has
                continue
            with archive.open(member) as file:  # a lie about the size does not help: zipfile reads no more
                _check_size(member.file_size, member.filename, source)
                left -= member.file_size
                if left < 0:
                    raise InputError(f"unpacks to more than {most} bytes", source=source)
                data = file.read(member.file_size)
            yield _unpacked(member.filename, data, source)


def _check_number(number: int, source: str) -> None:
    if number >= MAX_MEMBERS:
        raise InputError(f"more than {MAX_MEMBERS} files", source=source)


def _check_size(size: int, name: str, source: str) -> None:
    if size > MAX_UNPACKED:
        raise InputError(f"more than {MAX_UNPACKED} bytes", source=member_source(source, name))


def _unpacked(name: str, data: bytes, source: str) -> Member:
    named = member_source(source, name)
    return Member(name, unpack(data, named) if data.startswith(GZIP) else data)


def member_source(source: str, name: str) -> str:
    """Return the name of a member in errors.

    Parameters
    ----------
    source, name : str
        Names of the archive and of the member.

    Returns
    -------
    str
    """
    return f"{source}!{source_name(name)}"
