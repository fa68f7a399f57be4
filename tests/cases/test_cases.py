"""Cases as text: each file in a folder of this one is run, and prints what it shows. See README.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage import __version__
from tests.cases import changes
from tests.cases.console import Printed, blocks, commands, run
from tests.house.source import ROOT

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.md"))
COLUMNS = 80
ERR = "stderr: "
# What an output may not have, since a case could not be told from it.
UNCLEAR = re.compile(r"\$ |stderr: |\[exit \d+\]$|…$")


class Mask(NamedTuple):
    """A name that stands in a case for what is not the same on each machine."""

    name: str
    hides: str


def masks(folder: Path) -> list[Mask]:
    """The masks of a case; a path ends where its last name ends."""
    paths = [("<folder>", folder), ("<repository>", ROOT)]
    return [
        *(Mask(name, rf"(?<![\w/.-]){re.escape(str(path))}(?![\w.-])") for name, path in paths),
        Mask("<version>", rf"(?<=\bmoorage[ /]){re.escape(__version__)}(?![\w.])"),
        Mask("<seconds>", r"(?<= in )\d+\.\d{3}(?= s\b)"),
    ]


def masked(text: str, folder: Path) -> str:
    """A text with its masks. A mask hides what its rule says and nothing else: where it would not be clear
    what it stands for, the case is refused."""
    for mask in masks(folder):
        if mask.name in text:
            raise ValueError(f"the output itself has {mask.name}, the name of a mask")
    for mask in masks(folder):
        text = re.sub(mask.hides, mask.name, text)
    for path in (folder, ROOT):
        if str(path) in text:
            raise ValueError(f"{path} stands within a longer name, which no mask may hide")
    return text


def lines_of(printed: Printed, folder: Path) -> list[str]:
    """What a command printed as a case shows it: stdout, then stderr, then the exit code."""
    out = masked(printed.out, folder).splitlines()
    err = masked(printed.err, folder).splitlines()
    for line in out:
        if UNCLEAR.match(line):
            raise ValueError(f"a case cannot show the line {line!r}")
    code = [f"[exit {printed.code}]"] if printed.code else []
    return [*out, *(f"{ERR}{line}".rstrip() for line in err), *code]


def place_inputs(case: Path, page: str, folder: Path) -> None:
    """Put the inputs of a case into a folder: its blocks with a file name, and the files that it links."""
    for block in blocks(page):
        if len(block.info) == 2 and block.info[0] != "changes":
            file = folder / block.info[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body)
    for name, target in re.findall(r"\[([^]\n]+)\]\(([^)\s[]+)\)", page):
        linked = (case.parent / target).resolve()
        if not linked.exists():
            raise ValueError(f"{target}: no such file")
        (folder / name).symlink_to(linked)


def played(case: Path, folder: Path) -> str:
    """The text of a case with what its commands print now."""
    page = case.read_text()
    if not re.match(r"# .+\n\n(?!```).", page):
        raise ValueError("a case begins with a title and a sentence that says why it exists")
    place_inputs(case, page, folder)
    given = re.search(r"^columns: (\d+)$", page, re.M)
    columns = int(given[1]) if given else COLUMNS
    for block, body in reversed([*_outputs(page, folder, columns)]):
        page = page[: block[0]] + body + page[block[1] :]
    return page


def _outputs(page: str, folder: Path, columns: int) -> Iterator[tuple[tuple[int, int], str]]:
    """Where the text of each console block stands, and what it should be; commands run from first to last."""
    for block in blocks(page):
        if block.info == ["console"]:
            if re.search(r"^…$", block.body, re.M):
                raise ValueError("a case shows whole outputs, without …")
            lines: list[str] = []
            for shown in commands(block.body):
                lines += [f"$ {shown.command}", *lines_of(run(shown.command, folder, columns), folder)]
            yield (block.start, block.end), "".join(f"{line}\n" for line in lines)
        elif block.info[:1] == ["changes"]:
            yield (block.start, block.end), masked(changes.played(block.info, block.body, folder), folder)


def parameters() -> Iterator[Any]:
    """The cases; ``nightly: WHY`` in the text of one leaves it out by day."""
    for case in CASES:
        is_nightly = re.search(r"^nightly: \S", case.read_text(), re.M) is not None
        name = case.relative_to(HERE).with_suffix("").as_posix()
        yield pytest.param(case, id=name, marks=pytest.mark.nightly if is_nightly else ())


@pytest.mark.parametrize("case", [*parameters()])
def test_a_case_prints_what_it_shows(case: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    page = played(case, tmp_path)
    if pytestconfig.getoption("--accept"):
        case.write_text(page)
    assert page.splitlines() == case.read_text().splitlines()
