"""The tables of what the suites measured: `python -m bench.table RESULTS...`, as pytest-benchmark writes.

bench/RESULTS.md has all of them, docs/guide/performance.md the first one: ten lines that are timed through
the ways that users take. bench/reference.toml says which lines come where, what they aim at, and what
kube-scheduler takes.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, GUIDE = "bench/RESULTS.md", "docs/guide/performance.md"
BEGIN, END = "<!-- bench/table.py: begin -->", "<!-- bench/table.py: end -->"
HEAD = ("per operation", "moorage", "twin", "ratio", "kube-scheduler", "target")
FRONT = {"µs": ("per pod", 1e6), "s": ("per command", 1)}
"""The tables of whole operations, by their unit: what a line is of, and how many units a second has."""
PAGE = """# Results

`make bench` writes this page; [README.md](README.md) says what is measured.
"""
NOTHING = "-"
WIDTH = 120


@dataclass
class Line:
    """Best rounds, in seconds per operation."""

    what: str
    ours: float | None = None
    twin: float | None = None


def in_units(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if float(f"{seconds * factor:.3g}") < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{float(f'{seconds:.3g}'):,g} s"


def measured(results: Mapping[str, Any]) -> dict[str, Line]:
    """What was measured, by what it is, in the order measured; of several values the least."""
    lines: dict[str, Line] = {}
    for one in results["benchmarks"]:
        for noted in one["extra_info"].get("lines", ()):
            line = lines.setdefault(noted["what"], Line(noted["what"]))
            side = "twin" if noted["twin"] else "ours"
            seconds = noted.get("seconds", one["stats"]["min"]) / noted["operations"]
            other = getattr(line, side)
            setattr(line, side, seconds if other is None else min(seconds, other))
    return lines


def best(runs: Iterable[Mapping[str, Any]]) -> dict[str, Line]:
    """What was measured in several runs, each line with its twin of the run in which it took the least."""
    lines: dict[str, Line] = {}
    for results in runs:
        for what, line in measured(results).items():
            known = lines.setdefault(what, line)
            if line.ours is not None and (known.ours is None or line.ours < known.ours):
                lines[what] = line
    return lines


def row(line: Line, reference: Mapping[str, Any]) -> tuple[str, ...]:
    both = line.ours is not None and line.twin is not None
    upstream, target = reference.get("kube_scheduler_ns"), reference.get("target_ns")
    note = f" ({reference['note']})" if "note" in reference else ""
    return (
        line.what,
        NOTHING if line.ours is None else in_units(line.ours),
        NOTHING if line.twin is None else in_units(line.twin),
        f"{line.twin / line.ours:.2g}x" if both else NOTHING,
        NOTHING if upstream is None else in_units(upstream / 1e9) + note,
        NOTHING if target is None else f"≤ {in_units(target / 1e9)}",
    )


def markdown(rows: Iterable[Sequence[str]], head: Sequence[str] = HEAD) -> str:
    """Figures are set to the right."""
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def machine(results: Mapping[str, Any]) -> str:
    """What it ran on, without the name of the machine."""
    info = results["machine_info"]
    cpu = info["cpu"]
    return (
        f"{cpu['brand_raw']}, {cpu['count']} cores; {info['compiler']}; "
        f"{info['python_implementation']} {info['python_version']}, numpy {info['numpy']}"
    )


def tables(runs: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> tuple[str, str, str]:
    """The table of whole operations and that of the lines that the reference names, each with what it ran on,
    and one of all other lines."""
    lines, source = best(runs), reference["source"]
    taken = "The best round of one run." if len(runs) == 1 else f"The best round of {len(runs)} runs."
    ran_on = f"{machine(runs[0])}. {taken}"
    shown = "\n".join(whole(lines, reference["front"], unit) for unit in FRONT)
    first = [row(lines.pop(one["what"], Line(one["what"])), one) for one in reference["line"]]
    return (
        "\n".join((shown, fill(f"{ran_on} {source['front'].strip()}", WIDTH, break_on_hyphens=False), "")),
        f"{markdown(first)}\n{ran_on}\n\n{source['kube_scheduler'].strip()}\n",
        markdown(row(line, {}) for line in lines.values()),
    )


def whole(lines: dict[str, Line], front: Iterable[Mapping[str, Any]], unit: str) -> str:
    """The table of the whole operations that are given in a unit; their lines are taken."""
    named, factor = FRONT[unit]
    rows = []
    for what in (one["what"] for one in front if one.get("unit", "µs") == unit):
        seconds = lines.pop(what, Line(what)).ours
        figure = NOTHING if seconds is None else f"{float(f'{seconds * factor:.3g}'):,g}"
        rows.append((what.removesuffix(f", {named}"), figure))
    return markdown(rows, (named, unit))


def part(runs: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> str:
    """One table of the lines that were measured, in the order measured."""
    known = {one["what"]: one for one in (*reference["front"], *reference["line"])}
    lines = best(runs).values()
    return f"{markdown(row(line, known.get(line.what, {})) for line in lines)}\n{machine(runs[0])}\n"


def between_markers(text: str, table: str) -> str:
    """The text with what is between the markers replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def write_front(root: Path, front: str) -> None:
    """Replace the table of whole operations, in the guide and among the results."""
    for page in (root / GUIDE, root / RESULTS):
        page.write_text(between_markers(page.read_text(encoding="utf-8"), front), encoding="utf-8")


def write(root: Path, front: str, first: str, others: str) -> None:
    """Write the page of results anew, and the table of whole operations."""
    text = f"{PAGE}\n{BEGIN}\n{END}\n\n## By operation\n\n{first}\n## All other lines\n\n{others}"
    (root / RESULTS).write_text(text, encoding="utf-8")
    write_front(root, front)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "results", type=Path, nargs="+", help="what pytest --benchmark-json wrote, of each run"
    )
    parser.add_argument("--write", action="store_true", help=f"to {RESULTS} and {GUIDE} too")
    parser.add_argument("--front", action="store_true", help="write the table of whole operations alone")
    options = parser.parse_args(arguments)
    runs = [json.loads(path.read_bytes()) for path in options.results]
    reference = tomllib.loads((ROOT / "bench/reference.toml").read_text(encoding="utf-8"))
    front, first, others = tables(runs, reference)
    if options.write:
        write(root, front, first, others)
    elif options.front:
        write_front(root, front)
    else:  # a part: among all lines its own would not be seen
        print(part(runs, reference), end="")
        return
    print(f"{front}\n{first}\n{others}", end="")


if __name__ == "__main__":
    main()
