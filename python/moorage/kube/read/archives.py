"""Reads the members of tar and zip archives one after another, with limits on their size."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple, cast

from moorage.errors import InputError

from .files import STDIN, SUFFIXES, has_suffix, source_name
from .unpacking import GZIP, MAX_SIZE, Packing, broken, packing_of, too_large, unpack

_ZIP = b"PK\x03\x04", b"PK\x05\x06"
"""With which a zip archive begins, and one without a file."""
_TAR, _TAR_AT = b"ustar", 257
_RECORD = 10_240
"""Size in bytes of a tar archive without a file, which is all zeros."""
_HEAD = _RECORD + 1
MAX_MEMBERS = 1_000_000
"""Maximum number of files in an archive, since empty ones take no space in it."""


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
            raise too_large(self._most, self._source)
        return data


def read_archive(file: str) -> Generator[Member] | None:
    """Return the JSON and YAML files of an archive: tar, also compressed, or zip.

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Returns
    -------
    generator of Member or None
        In the order of a tar archive, and sorted by name of a zip archive; None for a file that is no
        archive. It raises InputError if the archive is broken, or unpacks to too much (see `Packing`).
    """
    opened = _open(file)
    if opened is None:
        return None
    try:
        head = opened.read(_HEAD)
        opened.seek(0)
    except OSError:  # whoever reads it as a file says why
        opened.close()
        return None
    packing = packing_of(head)
    if head.startswith(_ZIP) or _is_tar(head) or (packing is not None and _is_packed_tar(opened, packing)):
        return _members(opened, head, source_name(file))
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


def _broken() -> tuple[type[Exception], ...]:
    import tarfile
    import zipfile

    return *broken(), tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError


def _is_tar(head: bytes) -> bool:
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR or (0 < len(head) <= _RECORD and not any(head))


def _is_packed_tar(opened: BinaryIO, packing: Packing) -> bool:
    try:
        return _is_tar(packing.open(opened, "").read(_HEAD))
    except InputError:  # reading the file reports it
        return False
    except _broken():
        return False
    finally:
        opened.seek(0)


def _members(opened: BinaryIO, head: bytes, source: str) -> Generator[Member]:
    with opened:
        size, packing = os.fstat(opened.fileno()).st_size, packing_of(head)
        try:
            if head.startswith(_ZIP):
                yield from _of_zip(opened, GZIP.most(size), source)
            elif packing is not None:
                yield from _of_tar(packing.open(opened, source), packing.most(size), source)
            else:
                yield from _of_tar(opened, MAX_SIZE, source)
        except _broken() as error:
            raise InputError(f"a broken archive: {error}", source=source) from None


def _of_tar(stream: BinaryIO, most: int, source: str) -> Iterator[Member]:
    import tarfile  # takes long to import, and most input is no archive

    limited = cast(BinaryIO, _LimitedReader(stream, most, source))
    with tarfile.open(fileobj=limited, mode="r|") as archive:
        for number, member in enumerate(archive):
            _check_number(number, source)
            archive.members = []  # type: ignore[attr-defined]  # they would be kept
            if member.isreg() and has_suffix(member.name, SUFFIXES):
                data = archive.extractfile(member)
                assert data is not None
                yield _unpacked(member.name, data.read(), source)


def _of_zip(opened: BinaryIO, most: int, source: str) -> Iterator[Member]:
    import zipfile

    with zipfile.ZipFile(opened) as archive:
        _check_number(len(archive.filelist) - 1, source)
        left = most
        for member in sorted(archive.infolist(), key=lambda one: one.filename):
            if not has_suffix(member.filename, SUFFIXES):  # which no folder has
                continue
            with archive.open(member) as file:  # a lie about the size does not help: zipfile reads no more
                left -= member.file_size
                if left < 0:
                    raise too_large(most, source)
                data = file.read(member.file_size)
            yield _unpacked(member.filename, data, source)


def _check_number(number: int, source: str) -> None:
    if number >= MAX_MEMBERS:
        raise InputError(f"more than {MAX_MEMBERS} files", source=source)


def _unpacked(name: str, data: bytes, source: str) -> Member:
    return Member(name, unpack(data, member_source(source, name)))


def member_source(source: str, name: str) -> str:
    """Return the name of a member in errors.

    Parameters
    ----------
    source, name : str
        Names of the archive and of the member.
    """
    return f"{source}!{source_name(name)}"
