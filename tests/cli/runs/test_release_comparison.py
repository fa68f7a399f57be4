"""Two releases beside simulations of each; the text is in `tests/cases/answers/upgrades.md`."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.make import node, pod

from moorage.cli import main
from moorage.kube.releases import RELEASES


def releases(before: str, after: str) -> list[str]:
    return [f"kubernetes {before}", f"kubernetes {after}"]


@pytest.mark.parametrize(
    ("options", "tie_break"), [([], "go-heap"), (["--tie-break", "random"], "random")], ids=["", "random"]
)
def test_ties_make_no_difference(
    options: list[str], tie_break: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """v1.34 chooses among equal nodes by the seed, v1.35 does not."""
    items = [*(node(name, name) for name in "abcdefgh"), pod("p")]
    file = str(tmp_path / "c.json")
    Path(file).write_text(json.dumps({"kind": "List", "items": items}))
    places = set()
    for version in ("1.34", "1.35"):
        for seed in "0123":
            seeded = ["--kubernetes-version", version, "--seed", seed]
            assert main(["simulate", "-f", file, "-o", "csv", *seeded]) == 0
            places.add(capsys.readouterr().out)
    assert len(places) > 1
    for pair in (("1.34", "1.35"), ("1.35", "1.34")):
        for seed in "0123":
            command = ["compare", *releases(*pair), "-f", file, "--seed", seed, *options]
            assert main([*command, "-o", "json"]) == 0
            made = json.loads(capsys.readouterr().out)
            assert made["differences"] == []
            assert made["releases"]["tieBreak"] == tie_break


@pytest.mark.parametrize("version", [version for version in RELEASES if version < "1.37"])
def test_what_differs_is_what_simulate_says_of_each_release(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same choice among nodes of equal score."""
    common = ["--synthetic", "nodes=5,pods=60,zones=2", "--tie-break", "go-heap", "-o", "csv"]
    ends: list[dict[str, str]] = []
    for one in (version, "1.37"):
        assert main(["simulate", *common, "--kubernetes-version", one]) == 0
        listed = csv.DictReader(StringIO(capsys.readouterr().out))
        ends.append({f"{row['namespace']}/{row['pod']}": row["node"] or row["status"] for row in listed})
    before, after = ends
    expected = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    assert main(["compare", *releases(version, "1.37"), *common]) == 0
    found = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert {row["pod"]: tuple([*row.values()][1:3]) for row in found} == expected
    assert bool(expected) is (version != "1.36")
    assert {row["because_of"] for row in found} == ({"balance_by_change"} if expected else set())
