"""Console blocks of Markdown: the commands that they show, and the same commands run in this process."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from moorage import cli
from tests.doors.cli import messages

_FENCED = re.compile(r"^(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.S | re.M)


class Block(NamedTuple):
    """A fenced block: the words after its fence, its text, and where this text begins and ends."""

    info: list[str]
    body: str
    start: int
    end: int


class Shown(NamedTuple):
    """A command of a console block, and the lines that the block shows below it."""

    command: str
    lines: list[str]


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


class Stream(TextIOWrapper):
    """A file in memory; as a terminal, if it has columns."""

    def __init__(self, content: bytes = b"", columns: int = 0) -> None:
        super().__init__(BytesIO(content), "utf-8", write_through=True)
        self.columns = columns

    def isatty(self) -> bool:
        return self.columns > 0

    def text(self) -> str:
        content = self.buffer
        assert isinstance(content, BytesIO)
        return content.getvalue().decode()


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, from its beginning to its end."""
    for match in _FENCED.finditer(page):
        yield Block(match["info"].split(), match["body"], *match.span("body"))


def commands(body: str) -> list[Shown]:
    """The commands of a console block, each after "$ ", and what stands below each."""
    parts = re.split(r"^\$ ", body, flags=re.M)
    if parts[0]:
        raise ValueError(f"no command stands above {parts[0].splitlines()[0]!r}")
    return [Shown(lines[0], lines[1:]) for lines in map(str.splitlines, parts[1:])]


def run(command: str, folder: Path, columns: int = 0) -> Printed:
    """Run ``moorage …`` or ``cat FILE`` in a folder; ``< FILE`` at the end gives a command its input.

    Parameters
    ----------
    columns : int, optional
        Width of the terminal that stdout is; by default it is none.
    """
    words = shlex.split(command)
    given = b""
    if words[-2:-1] == ["<"]:
        given = (folder / words[-1]).read_bytes()
        words = words[:-2]
    if words[0] == "cat":
        return Printed("".join((folder / name).read_text() for name in words[1:]), "", 0)
    if words[0] != "moorage":
        raise ValueError(f"a case runs moorage and cat alone, not {words[0]}")
    out, err = Stream(columns=columns), Stream()
    environment = {"COLUMNS": str(columns or 80), "KUBECONFIG": "kubeconfig"}
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "stdin", Stream(given)),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(messages, "FIRST_OF_A_LOG", 3600.0),  # on a slow machine, too
    ):
        code = cli.main(words[1:])
    return Printed(out.text(), err.text(), code)
