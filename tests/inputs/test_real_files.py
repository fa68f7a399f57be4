"""Cut copies of real files, each of which is read as it comes; the whole ones are for ``make real_files``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.source import ROOT

from .real_files import INPUTS, Input, Result, replay, run, table

FOLDER = ROOT / "tests/data"
NODE = "objects/no.json"
RESULTS = Path(__file__).with_name("RESULTS.md")
AUDITED = ("falco", "request_level", "aks_wrapped")
"""A pod each."""
CUT = (
    (Input(("archives/must-gather.tar.gz",)), 0),
    (Input(("archives/insights.tar.gz",)), 0),
    (Input(("archives/support-bundle.tar.xz",)), 0),
    (Input((NODE,)), 0),
    *((Input((NODE, f"objects/{name}.json")), count) for name, count in (("po_sidecar", 0), ("sts", 4))),
    *((Input((NODE, f"objects/{name}.json")), 0) for name in ("pvc", "pdb")),
    (
        Input(("objects/aws_try.yaml", "objects/dranet_aws_*.yaml")),
        10,
    ),  # slices whose owner has no UID are refused
    (replay("traces/nasa.swf", form="swf"), 0),
    (replay("traces/cluster_machine_list", "traces/cluster_job_log", form="philly"), 0),
    (replay("traces/revised_machine_list.csv", "traces/cluster_job_log", form="philly"), 0),
    (replay("traces/events.json", "traces/dump.json", form="kubectl-events"), 0),
    *((replay(f"traces/{name}.log", NODE, form="audit"), 0) for name in AUDITED),
)


@pytest.mark.parametrize(("one", "without_node"), CUT, ids=[one.files[-1] for one, _ in CUT])
def test_a_cut_copy_is_read_as_it_comes(one: Input, without_node: int) -> None:
    result = run(one, FOLDER)
    assert result is not None
    fails = one.command[0] == "check" and without_node > 0
    assert (result.code, result.without_node) == (int(fails), without_node), result.reason


def test_the_table_is_that_of_the_inputs() -> None:
    """A row that was written has the code that is right, and one with a code has a reason."""
    rows = [line.split(" | ") for line in RESULTS.read_text().splitlines() if line.startswith("| ")][1:]
    codes = {(row[0].removeprefix("| ").split(" and ")[0], row[1]): int(row[2]) for row in rows}
    assert codes == {(one.files[0], " ".join(one.command)): one.code for one in INPUTS}
    assert all(one.why for one in INPUTS if one.code)


def test_rows_of_the_table() -> None:
    given = Input(("a", "b"), 1, "a node is missing")
    bad = Input(("c",), 2, "no dump", ("replay",))
    *_, first, second = table([(given, Result(1, 3, "pod/x: …")), (bad, Result(2, None, "c: no | kind"))])
    assert first == "| a and 1 more | check | 1 | 3 | a node is missing |"
    assert second == "| c | replay | 2 |  | no dump: c: no \\| kind |"


def test_an_input_that_the_folder_does_not_have_is_passed_over(tmp_path: Path) -> None:
    assert run(Input(("dumps/none.tar.gz",)), tmp_path) is None
