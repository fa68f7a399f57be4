"""The examples on the pages run."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import moorage as mo
from moorage.kube.releases import DEFAULT
from tests.cases.console import blocks as fenced_blocks
from tests.cases.console import commands as shown_commands
from tests.cases.console import run
from tests.cli.options.test_option_groups import EXAMPLES, LEAVES
from tests.conformance.vectors import lines
from tests.house.source import ROOT, files

PLUGIN_PAGE = "docs/how_to/write_a_plugin.md"


def blocks(page: str, heading: str) -> str:
    """The Python under a heading of a page, as one program."""
    text = (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))


def plugins() -> str:
    """The Python of the page about plugins."""
    headings = "Per node", "Name it in a configuration"
    return "\n".join(blocks(PLUGIN_PAGE, heading) for heading in headings)


pytestmark = pytest.mark.usefixtures("in_the_repository")


def test_plugins_in_python() -> None:
    first, second = plugins().split("registry = ")
    found: dict[str, Any] = {}
    exec(first, found)
    pending = len(found["scheduler"].pods.pending)
    result = found["scheduler"].run()
    assert len(result.placements) + len(result.unschedulable) == pending > 0
    assert found["profile"].weights["GpuPack"] == 5
    exec("registry = " + second, found)
    configured = found["scheduler"]
    assert configured.profile.weights["GpuPack"] == 5
    assert "GpuPack" in configured.profile.weights
    assert configured.run().placements


def test_plugins_per_rows() -> None:
    found: dict[str, Any] = {}
    exec(plugins(), found)
    exec(blocks("docs/how_to/write_a_plugin.md", "Per rows in Python"), found)
    assert found["profile"].is_in_core
    assert {"GpuPackRows", "NodeResourcesFit"} <= found["profile"].names
    assert any(
        "node(s) had no GPU" in str(failure) for failure in found["scheduler"].run().unschedulable.values()
    )


def test_a_filter_of_the_example_rejects() -> None:
    found: dict[str, Any] = {}
    exec(plugins(), found)
    mo = found["mo"]
    pod = {"metadata": {"name": "p", "labels": {"team": "a"}}, "spec": {"containers": [{"name": "c"}]}}
    from moorage.kube import decode_object

    scheduler = mo.Scheduler(mo.synthetic(nodes=3), profile=found["profile"])
    seen = scheduler.examine(decode_object({"kind": "Pod"} | pod))
    assert seen.fit_error == "0/3 nodes are available: 3 node(s) of another team."


def test_policies_in_a_configuration() -> None:
    found: dict[str, Any] = {}
    exec(blocks("docs/policies.md", "In a configuration"), found)
    assert found["scheduler"].profile.weights == {"BestFit": 1000}
    assert found["scheduler"].run().placements


# ---- Commands ----------------------------------------------------------------------------------------------


def commands() -> dict[str, list[list[str]]]:
    """The commands of README.md, of the pages and of an example, with the lines that each shows."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples/gpu/README.md"]
    outputs: dict[str, list[list[str]]] = {}
    for block in (block for page in pages for block in fenced_blocks(page.read_text())):
        if block.info == ["console"]:
            for shown in shown_commands(re.sub(r"^#.*\n", "", block.body, flags=re.M)):
                outputs.setdefault(shown.command, []).append([line for line in shown.lines if line])
    return {command: lines for command, lines in outputs.items() if command.startswith("moorage ")}


COMMANDS = commands()


def in_process(command: str) -> str:
    """A command; a sweep runs in this process, and prints the same."""
    is_parallel = command.startswith("moorage sweep ") and "--executor" not in command
    return f"{command} --executor serial" if is_parallel else command


def by_cost(command: str) -> Any:
    """A command; sweeps take seconds, and their parts run in other commands."""
    return pytest.param(command, marks=pytest.mark.nightly if command.startswith("moorage sweep ") else ())


@pytest.mark.parametrize("command", [*map(by_cost, COMMANDS)])
def test_a_command_prints_what_the_pages_show(command: str) -> None:
    answer = run(in_process(command), ROOT)
    assert answer.code < 2
    printed = [line.rstrip() for line in answer.out.splitlines() if line.strip()]
    for shown in filter(None, COMMANDS[command]):
        assert differing("\n".join(printed), shown) == ""


@pytest.mark.parametrize("example", [*map(by_cost, sorted({*EXAMPLES} - {*COMMANDS}))])
def test_an_example_of_help_runs_as_it_stands(example: str, tmp_path: Path) -> None:
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = shlex.split(example)[1:]
    if words[0] in ("serve", "mcp") or "--context" in words:  # they need a cluster
        at = 1 + (words[0] == "serve")
        LEAVES[tuple(words[:at])].make_context(words[0], words[at:], help_option_names=["-h", "--help"])
        return
    answer = run(in_process(example), tmp_path)
    assert answer.code < 2
    assert answer.out


CHANGES = {"embed", "extender", "live", "shop/release"}
"""The folders of examples that are applied to a cluster; the others have one."""
FOLDERS = sorted(
    {str(path.parent.relative_to(ROOT / "examples")) for path in files(".yaml", under="examples")}
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_examples_can_be_given_as_it_is(folder: str) -> None:
    cluster = "-f examples/shop/cluster.yaml " if folder in CHANGES else ""
    answer = run(f"moorage check {cluster}-f examples/{folder} -q", ROOT)
    assert answer.code < 2, answer.err
    assert answer.out.startswith(("PASS", "FAIL"))
    answer = run(f"moorage nodes {cluster}-f examples/{folder} -q", ROOT)
    assert answer.code == 0 or "The input has no node;" in answer.err


def differing(printed: str, shown: list[str]) -> str:
    """The first line that differs: … stands for the rest of a line, and alone for one or more lines."""
    marks = {"…": r"(?:.+\n)+?"}
    parts = [
        marks.get(line, re.escape(line.removesuffix("…")) + ".*" * line.endswith("…") + r"\n")
        for line in shown
    ]
    at = next((at for at in range(1, len(parts) + 1) if not re.match("".join(parts[:at]), f"{printed}\n")), 0)
    if at:
        return shown[at - 1]
    return "" if re.fullmatch("".join(parts), f"{printed}\n") else "there is more than is shown"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (["a", "b c", "d"], ""),
        (["a", "…", "d"], ""),
        (["…", "b…", "…"], ""),
        (["a", "d"], "d"),
        (["a", "b c", "…", "d"], "d"),
        (["a", "b c"], "there is more than is shown"),
        (["a", "c"], "c"),
    ],
)
def test_what_a_block_leaves_out_is_marked(shown: list[str], said: str) -> None:
    assert differing("a\nb c\nd", shown) == said


def test_the_python_of_the_front_page() -> None:
    found: dict[str, Any] = {}
    exec(blocks("README.md", "Use it if you …"), found)
    assert found["result"].placements
    assert found["result"].unschedulable
    assert not any(node.spec.unschedulable for node in found["scheduler"].client.list(found["mo"].Node)[0])


@pytest.mark.nightly
def test_the_front_page_counts_what_is_recorded() -> None:
    """Scenarios and their steps, by the release whose kube-scheduler was recorded."""
    scenarios: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for path in sorted((ROOT / "tests/conformance/data").glob("*.jsonl.gz")):
        for line in lines(path):
            recorded = json.loads(line)
            if "scenario" in recorded:
                release = recorded["scenario"].get("release", DEFAULT)
                scenarios[release] += 1
                steps[release] += len(recorded["result"]["steps"])
    rows = [("Kubernetes", sorted(scenarios))]
    rows += [
        (what, [f"{counts[release]:,}" for release in sorted(scenarios)])
        for what, counts in (("scenarios", scenarios), ("recorded steps", steps))
    ]
    text = (ROOT / "README.md").read_text()
    assert [f"| {what} | {' | '.join(cells)} |" for what, cells in rows if f"| {what} |" in text] == [
        line for line in text.splitlines() if line.startswith("| ") and "---" not in line
    ]


def page_run(page: str) -> dict[str, Any]:
    """The names that the Python of a page leaves, run from its beginning to its end."""
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE):
        exec(block, found)
    return found


def test_the_page_about_planning() -> None:
    found = page_run("docs/planning.md")
    assert found["found"].count > 0
    assert found["plan"].status in ("found", "impossible", "not found")
    assert found["limit"].placed <= found["limit"].bound
    assert found["answer"].document().kind == "Check"


def test_the_page_about_changes() -> None:
    found = page_run("docs/changes.md")
    scheduler, changed = found["scheduler"], found["changed"]
    assert "default/small-pod" in found["result"].placements
    assert (len(changed.nodes_added), changed.nodes_changed) == (3, ("worker-1",))
    assert len(scheduler.cache.node_info("node-1").pods) < len(found["branch"].cache.node_info("node-1").pods)
    assert found["node"].metadata.labels["pool"] == "x"
    assert scheduler.client.get(type(found["node"]), "node-1").spec.unschedulable


# ---- Pod groups --------------------------------------------------------------------------------------------

GROUP_GATES = dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)


def asking(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of 3 cpu."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": 3}}}
    meta = {"name": name, "namespace": "team-a"}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def with_groups(pods: dict[str, int], nodes: str) -> mo.Scheduler:
    """A scheduler over the YAML of the page about groups: nodes of 4 cpu, each in the rack of its letter, and
    pods for each of some groups."""
    page = (ROOT / "docs/groups.md").read_text()
    groups = "\n---\n".join(re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    there = [
        {
            "kind": "Node",
            "metadata": {"name": f"{rack}{at}", "labels": {"example.com/rack": rack}},
            "status": {"allocatable": {"cpu": 4, "pods": 9}},
        }
        for at, rack in enumerate(nodes)
    ]
    members = [
        asking(f"{group}-{at}", schedulingGroup={"podGroupName": group})
        for group, number in pods.items()
        for at in range(number)
    ]
    return mo.Scheduler(mo.load(groups, there, members), kubernetes_version="1.37", feature_gates=GROUP_GATES)


def test_the_first_group_of_the_page_waits_for_its_pods() -> None:
    """The page has one of its four pods."""
    assert with_groups({}, "aaaa").run().skipped.keys() == {"team-a/worker-0"}


def test_the_group_with_a_topology_goes_to_one_rack() -> None:
    assert not with_groups({"near": 4}, "aaabb").run().placements
    assert {node[0] for node in with_groups({"near": 4}, "aaabbbb").run().placements.values()} == {"b"}


def test_the_group_that_is_disrupted_whole_loses_all_pods() -> None:
    scheduler = with_groups({"whole": 2}, "ab")
    assert len(scheduler.run().placements) == 2
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    scheduler.change.apply([value | {"value": 9}, asking("high", priorityClassName="urgent")])
    assert scheduler.run().evicted.keys() == {"team-a/whole-0", "team-a/whole-1"}


def test_the_groups_of_the_composite_one_get_nodes_together() -> None:
    pods = {"servers": 1, "workers": 2}
    assert not with_groups(pods, "ab").run().placements
    assert len(with_groups(pods, "abc").run().placements) == 3


# ---- The guide ---------------------------------------------------------------------------------------------

SESSIONS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "\n```pycon\n" in page.read_text()]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_the_sessions_of_a_page(page: Path) -> None:
    """What Python prints in a page's sessions, from its beginning to its end."""
    found = re.findall(r"^```pycon\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    session = doctest.DocTestParser().get_doctest("\n".join(found), {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session).failed == 0
