"""The table of what the suites measured: `python -m bench.table RESULTS.json`, as pytest-benchmark writes it.

With `--write` it also goes to bench/RESULTS.md and, its first part, between the markers of README.md. Which
lines come first, what they aim at and what kube-scheduler takes is in bench/reference.toml.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, README = "bench/RESULTS.md", "README.md"
BEGIN, END = "<!-- bench/table.py: begin -->", "<!-- bench/table.py: end -->"
HEAD = ("per operation", "moorage", "twin", "ratio", "kube-scheduler", "target")
PAGE = """# Results

`make bench` writes this page; [README.md](README.md) says what is measured.
"""
NOTHING = "-"


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
            seconds, other = one["stats"]["min"] / noted["operations"], getattr(line, side)
            setattr(line, side, seconds if other is None else min(seconds, other))
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


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Figures are set to the right."""
    lines = [HEAD, ("---", *["---:"] * (len(HEAD) - 1)), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def machine(results: Mapping[str, Any]) -> str:
    """What it ran on, without the name of the machine."""
    info = results["machine_info"]
    cpu = info["cpu"]
    return (
        f"{cpu['brand_raw']}, {cpu['count']} cores; {info['compiler']}; "
        f"{info['python_implementation']} {info['python_version']}, numpy {info['numpy']}"
    )


def tables(results: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[str, str]:
    """The table of the lines that the reference names, with what it ran on; and one of all other lines."""
    lines = measured(results)
    first = [row(lines.pop(one["what"], Line(one["what"])), one) for one in reference["line"]]
    source = reference["source"]["kube_scheduler"].strip()
    text = f"{markdown(first)}\n{machine(results)}. Best rounds of one run.\n\n{source}\n"
    return text, markdown(row(line, {}) for line in lines.values())


def between_markers(text: str, table: str) -> str:
    """The text with what is between the markers replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README}: no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def write(root: Path, first: str, others: str) -> None:
    readme = root / README
    readme.write_text(between_markers(readme.read_text(encoding="utf-8"), first), encoding="utf-8")
    text = f"{PAGE}\n{first}\n## All other lines\n\n{others}"
    (root / RESULTS).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table", description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="what pytest --benchmark-json wrote")
    parser.add_argument("--write", action="store_true", help=f"to {RESULTS} and {README} too")
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_bytes())
    reference = tomllib.loads((ROOT / "bench/reference.toml").read_text(encoding="utf-8"))
    first, others = tables(results, reference)
    print(f"{first}\n{others}", end="")
    if options.write:
        write(root, first, others)


if __name__ == "__main__":
    main()
