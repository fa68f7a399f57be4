"""Lines of C and Cython that ran: `python -m tests.campaign.line_counts FOLDER [FILE]`.

The folder is that of a build with --coverage. gcov reads the counts of C; comments in the C that Cython wrote
say which line it belongs to. With a file, its lines that no test has reached are printed, otherwise a table,
largest gaps first.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Counts = dict[str, dict[int, int]]
# What follows such a comment belongs to a line; what follows the other to the function as a whole.
BELONGS = re.compile(r'^ *(?:/\* "([^"]+)":(\d+)|/\* (function exit code) \*/)')


def told(data: Path) -> list[dict[str, Any]]:
    """The files that gcov names for a file of counts."""
    command = ["gcov", "--stdout", "--json-format", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for line in done.stdout.splitlines() for file in json.loads(line)["files"]]


def origins(text: str) -> list[tuple[str, int] | None]:
    """The line of Cython that each line of a generated file belongs to."""
    found: list[tuple[str, int] | None] = []
    now = None
    for line in text.splitlines():
        if mark := BELONGS.match(line):
            now = None if mark[3] else (f"pyx/{mark[1]}", int(mark[2]))
        found.append(now)
    return found


def ran(files: list[dict[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """File, line and count of the project's own lines."""
    for file in files:
        name = file["file"]
        if name.startswith("csrc/"):
            yield from ((name, line["line_number"], line["count"]) for line in file["lines"])
        elif "/cython/pyx/" in name:
            places = origins((ROOT / name).read_text())
            for line in file["lines"]:
                place = places[line["line_number"] - 1]
                if place is not None and (ROOT / place[0]).is_file():
                    yield *place, line["count"]


def line_counts(folder: Path) -> Counts:
    """How often each line ran, by file. It ran if any C of it has."""
    counts: Counts = defaultdict(lambda: defaultdict(int))
    with ThreadPoolExecutor(2) as pool:
        for files in pool.map(told, sorted(folder.resolve().rglob("*.gcda"))):
            for name, line, count in ran(files):
                counts[name][line] = max(counts[name][line], count)
    return counts


def table(counts: Counts) -> str:
    """Lines, those that ran, those that did not and the part that ran, by file and in all."""
    rows = [(name, len(lines), sum(map(bool, lines.values()))) for name, lines in counts.items()]
    rows.sort(key=lambda row: (row[2] - row[1], row[0]))
    for room in ("csrc/", "pyx/"):
        of_room = [row for row in rows if row[0].startswith(room)]
        rows.append((f"all of {room}", sum(row[1] for row in of_room), sum(row[2] for row in of_room)))
    return "\n".join(
        f"{name:60} {lines:6} {done:6} {lines - done:5} {100 * done / max(lines, 1):6.1f} %"
        for name, lines, done in rows
    )


def main() -> None:
    counts = line_counts(Path(sys.argv[1]))
    if len(sys.argv) == 2:
        print(table(counts))
        return
    text = (ROOT / sys.argv[2]).read_text().splitlines()
    for number, count in sorted(counts[sys.argv[2]].items()):
        if not count:
            print(f"{number:5} {text[number - 1]}")


if __name__ == "__main__":
    main()
