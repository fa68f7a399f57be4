"""Lines of C and Cython that ran: `python -m tests.campaign.line_counts FOLDER [FILE]`.

The folder is that of a build with --coverage, in which Cython has named its own lines. gcov reads the counts.
With a file, its lines that no test has reached are printed, otherwise a table with the largest gaps first.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Counts = dict[str, dict[int, int]]


def told(data: Path) -> list[dict[str, Any]]:
    """The files that gcov names for a file of counts."""
    command = ["gcov", "--stdout", "--json-format", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [file for line in done.stdout.splitlines() for file in json.loads(line)["files"]]


def source(name: str) -> str:
    """The path below the root of a name that the compiler or Cython has written; "" for others' files."""
    found = next((one for one in (name, f"pyx/{name}") if (ROOT / one).is_file()), "")
    return found if found.startswith(("csrc/", "pyx/")) else ""


def line_counts(folder: Path) -> Counts:
    """How often each line ran, by file. A line is many of C; it ran if one of them has."""
    counts: Counts = defaultdict(lambda: defaultdict(int))
    with ThreadPoolExecutor(2) as pool:
        for files in pool.map(told, sorted(folder.rglob("*.gcda"))):
            for file in files:
                name = source(file["file"])
                for line in file["lines"] if name else ():
                    counts[name][line["line_number"]] = max(counts[name][line["line_number"]], line["count"])
    return counts


def table(counts: Counts) -> str:
    """Lines, those that ran, and their part, by file and in all."""
    rows = [(name, len(lines), sum(map(bool, lines.values()))) for name, lines in counts.items()]
    rows.sort(key=lambda row: (row[2] - row[1], row[0]))
    for room in ("csrc/", "pyx/"):
        of_room = [row for row in rows if row[0].startswith(room)]
        rows.append((f"total of {room}", sum(row[1] for row in of_room), sum(row[2] for row in of_room)))
    return "\n".join(
        f"{name:60} {lines:6} {ran:6} {lines - ran:5} {100 * ran / max(lines, 1):6.1f} %"
        for name, lines, ran in rows
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
