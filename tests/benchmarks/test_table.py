"""From pytest-benchmark's JSON to the table."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bench import table

REFERENCE: dict[str, Any] = {
    "line": [
        {"what": "plain pods", "target_ns": 150, "kube_scheduler_ns": 610_000},
        {"what": "cache", "kube_scheduler_ns": 2_800, "note": "with forget"},
        {"what": "not there yet", "target_ns": 1_000},
    ],
    "front": [{"what": "`run()`, per pod"}, {"what": "not timed", "unit": "s"}],
    "source": {"kube_scheduler": "\nMeasured elsewhere.\n", "front": "\nWhole.\n"},
}


def result(seconds: float, *lines: dict[str, Any]) -> dict[str, Any]:
    return {"stats": {"min": seconds}, "extra_info": {"lines": list(lines)}}


def line(what: str, operations: int = 1, twin: bool = False, **more: float) -> dict[str, Any]:
    return {"what": what, "operations": operations, "twin": twin} | more


RESULTS: dict[str, Any] = {
    "machine_info": {
        "node": "name-of-the-host",
        "python_implementation": "CPython",
        "python_version": "3.11.2",
        "compiler": "cc 12.2.0",
        "numpy": "2.4.6",
        "cpu": {"brand_raw": "A Processor", "count": 2},
    },
    "benchmarks": [
        result(2e-3, line("something else")),
        result(1.6e-4, line("plain pods", 1000)),
        result(1.9e-4, line("plain pods", 1000)),
        result(3.6e-3, line("plain pods", 1000, twin=True), line("something else", twin=True)),
        result(8.4e-7, line("cache")),
        result(9.0, line("`run()`, per pod", 1000, seconds=5e-3)),
        {"stats": {"min": 1.0}, "extra_info": {}},
    ],
}

FRONT = """\
| per pod | µs |
| --- | ---: |
| `run()` | 5 |

| per command | s |
| --- | ---: |
| not timed | - |

A Processor, 2 cores; cc 12.2.0; CPython 3.11.2, numpy 2.4.6. The best round of one run. Whole.
"""
FIRST = """\
| per operation | moorage | twin | ratio | kube-scheduler | target |
| --- | ---: | ---: | ---: | ---: | ---: |
| plain pods | 160 ns | 3.6 µs | 22x | 610 µs | ≤ 150 ns |
| cache | 840 ns | - | - | 2.8 µs (with forget) | - |
| not there yet | - | - | - | - | ≤ 1 µs |

A Processor, 2 cores; cc 12.2.0; CPython 3.11.2, numpy 2.4.6. The best round of one run.

Measured elsewhere.
"""
OTHERS = """\
| per operation | moorage | twin | ratio | kube-scheduler | target |
| --- | ---: | ---: | ---: | ---: | ---: |
| something else | 2 ms | 3.6 ms | 1.8x | - | - |
"""


def test_tables_have_the_front_page_the_lines_with_a_target_and_the_others() -> None:
    assert table.tables([RESULTS], REFERENCE) == (FRONT, FIRST, OTHERS)


def test_a_line_is_of_the_run_in_which_it_took_the_least() -> None:
    loud = RESULTS | {
        "benchmarks": [result(5.0, line("x")), result(7.0, line("x", twin=True)), result(1.0, line("y"))]
    }
    quiet = RESULTS | {
        "benchmarks": [result(2.0, line("x")), result(8.0, line("x", twin=True)), result(3.0, line("y"))]
    }
    expected = {"x": table.Line("x", 2.0, 8.0), "y": table.Line("y", 1.0)}
    assert table.best([loud, quiet]) == table.best([quiet, loud]) == expected
    assert "The best round of 2 runs." in " ".join(table.tables([loud, quiet], REFERENCE))
    assert "| x | 2 s |" in table.part([loud, quiet], REFERENCE)


def pages(root: Path) -> tuple[Path, Path]:
    (root / "bench").mkdir()
    (root / "docs/guide").mkdir(parents=True)
    guide, page = root / table.GUIDE, root / table.RESULTS
    guide.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    return guide, page


def test_writing_twice_replaces_the_tables_in_place(tmp_path: Path) -> None:
    guide, page = pages(tmp_path)
    for _ in range(2):
        table.write(tmp_path, FRONT, FIRST, OTHERS)
        assert guide.read_text() == f"before\n{table.BEGIN}\n\n{FRONT}\n{table.END}\nafter\n"
    for part in (FRONT, FIRST, OTHERS):
        assert part in page.read_text()


def test_each_line_of_the_reference_is_there_once_with_known_fields() -> None:
    reference = tomllib.loads((table.ROOT / "bench/reference.toml").read_text())
    lines = reference["line"] + reference["front"]
    assert len(reference["front"]) == 10
    assert len({one["what"] for one in lines}) == len(lines)
    assert {key for one in lines for key in one} <= {"what", "target_ns", "kube_scheduler_ns", "note", "unit"}


def test_the_guide_shows_the_results() -> None:
    """The page about performance and bench/RESULTS.md are of the same run."""
    shown = (table.ROOT / table.GUIDE).read_text().partition(table.BEGIN)[2].partition(table.END)[0].strip()
    assert shown in (table.ROOT / table.RESULTS).read_text()
    assert shown.startswith("| per pod | µs |")
