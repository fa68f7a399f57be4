"""One answer in several forms: commands, the library, a twin; tables and documents; a comparison."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir, closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from tests.agreement.asking import Answer, Asking
from tests.agreement.objects import key_of, name_of, replaced
from tests.agreement.relation import ALONE, THERE, WITHOUT, lost, places_of, relation, verdict
from tests.cli.served import served


@relation(lambda cluster: cluster.nodes and not cluster.options)
def command_and_library(asking: Asking) -> None:
    """The document of a command = that of the function of its name."""
    node, file = name_of(asking.one("node", asking.cluster.nodes, key_of)), repr(asking.base)
    compared = asking.run("moorage", "compare", "as-is", f"drain {node}", "-f", asking.base, "-o", "json")
    pairs = [
        (asking.ask("check", "--drain", node), f"mo.check({file}, drain={node!r})"),
        (asking.ask("simulate", "--cordon", node), f"mo.simulate({file}, cordon={node!r})"),
        (compared, f"mo.compare({file}, 'as-is', 'drain {node}')"),
    ]
    for workload in asking.some("workload", asking.cluster.scaled(), 1, lambda one: one.target):
        scale = f"{workload.target}={workload.replicas + 2}"
        call = f"mo.check({file}, scale={scale!r}, survive='node')"
        pairs.append((asking.ask("check", "--scale", scale, "--survive", "node"), call))
    for command, call in pairs:
        program = f"import json, msgspec\nfound = json.loads(msgspec.json.encode({call}.document()))"
        asking.same(call.partition("(")[0], command, asking.python(program), _document)


def _document(answer: Answer) -> object:
    return answer.value if answer.value is not None else answer.err[-300:]


@relation(lambda cluster: cluster.nodes and not cluster.grows)
def plans_of_the_library(asking: Asking) -> None:
    """Plans, losses and rooms = those of the methods of `Scheduler`."""
    node = name_of(asking.one("node", asking.cluster.nodes, key_of))
    scheduler = f"scheduler = mo.Scheduler(mo.load({asking.base!r}))\n"
    pairs = {
        "drain_plan": (asking.ask(f"plan drain {node}"), f"scheduler.ask.drain_plan([{node!r}])"),
        "nodes_needed": (
            asking.ask("plan nodes", "--like", node),
            f"scheduler.ask.nodes_needed(like={node!r})",
        ),
    }
    for name, (command, call) in pairs.items():
        found = asking.python(f"{scheduler}found = {call}.to_dict()")
        if command.is_answer:
            asking.same(name, command, found, _plan)
    survived = asking.ask("check", "--survive", "node")
    if survived.is_answer:
        program = f"{scheduler}scheduler.run()\nfound = scheduler.ask.survive().to_dict()"
        here, there = (
            sorted(map(_loss, one))
            for one in (survived["survival"]["losses"], asking.python(program)["losses"])
        )
        asking.expect(here == there, "survive", (survived, here), (asking.python(program), there))


def _plan(answer: Answer) -> object:
    return {
        name: answer.get(name)
        for name in ("status", "moves", "counts", "nodes", "lowerBound")
        if answer.get(name)
    }


def _loss(loss: dict[str, Any]) -> tuple[str, int]:
    return loss["domains"][0], len(loss["lost"])


@relation(lambda cluster: cluster.nodes)
def rooms_of_nodes(asking: Asking) -> None:
    """`nodes` after a run or a change = the nodes of `simulate`; so is a node with a taint that evicts."""
    node = asking.one("node", asking.cluster.nodes, key_of)
    taint = {"key": "gone", "value": "1", "effect": "NoExecute"}
    spec = node.get("spec", {})
    tainted = node | {"spec": spec | {"taints": [*spec.get("taints", ()), taint]}}
    dump = asking.write("tainted", replaced(asking.cluster.objects, tainted))
    for words, of in ((), ""), (("--drain", name_of(node)), ""), ((), dump):
        listed = asking.ask("nodes", *(() if words or of else ("--after-run",)), *words, of=of)
        simulated = asking.ask("simulate", *words, "--no-autoscale", of=of)
        if listed.is_answer:
            here, there = (
                {one["name"]: one["requested"] for one in rooms if not of or one["name"] == name_of(node)}
                for rooms in (listed["items"], simulated["nodes"])
            )
            asking.expect(here == there, "requested", (listed, here), (simulated, there))


@relation(lambda cluster: cluster.nodes and not cluster.options)
def command_and_twin(asking: Asking) -> None:
    """What a twin of the file answers has the bytes of the command."""
    node = name_of(asking.one("node", asking.cluster.nodes, key_of))
    questions = {
        f"check?drain={quote(node)}": asking.ask("check", "--drain", node),
        "simulate": asking.ask("simulate"),
        "nodes": asking.ask("nodes"),
        f"plan/drain?names={quote(node)}": asking.ask(f"plan drain {node}"),
        "explain?all-pending": asking.ask("explain --all-pending"),
    }

    def ask_all(match: re.Match[str]) -> Iterator[tuple[str, str]]:
        with closing(HTTPConnection(match[1], timeout=60)) as connection:
            for path in questions:
                connection.request("GET", f"/v1/{path}")
                yield path, connection.getresponse().read().decode()

    arguments = ["serve", "twin", "-f", asking.base, "--port", "0"]
    with chdir(asking.folder):
        _, _, answers = served(arguments, r"http://([\d.:]+)", lambda match: dict(ask_all(match)))
    for path, answer in questions.items():
        value, about = json.loads(answers[path]), path.partition("?")[0]
        there = Answer(f"moorage serve twin -f {asking.base}: GET /v1/{path}", 0, answers[path], "", value)
        asking.same(about, answer, there, _document)
        asking.expect(answer.out == there.out, f"{about}, bytes", (answer, ""), (there, ""))


@relation(lambda cluster: cluster.nodes)
def table_and_document(asking: Asking) -> None:
    """The table of a check says what its document says."""
    drain = (
        ("--drain", name_of(asking.one("node", asking.cluster.nodes, key_of))) if asking.cluster.nodes else ()
    )
    for words in ((), drain, ("--survive", "node")):
        document, table = asking.ask("check", *words), asking.ask("check", *words, form="table")
        if not document.is_answer:
            continue
        first = table.out.partition("\n")[0]
        told = (document, verdict(document)), (table, first)
        asking.expect(document["passed"] == first.startswith("PASS"), "verdict", *told)
        number = re.search(r"(\d+) pods? ha(?:s|ve) (no|found a) node", first)
        if number and "--survive" not in words:
            counted = document["placed"] if number[2] == "found a" else lost(document, *ALONE)
            asking.expect(int(number[1]) == counted, "number of pods", *told)
        rows = asking.ask("check", *words, form="csv")
        asking.expect(rows.code == document.code == table.code, "exit code", *told, (rows, rows.code))


@relation(lambda cluster: cluster.nodes)
def check_and_simulate(asking: Asking) -> None:
    """As many pods without a node in `check`, in `simulate`, and in the column of `compare`."""
    node = name_of(asking.one("node", asking.cluster.nodes, key_of))
    for change in ("as-is", f"drain {node}", f"remove-nodes {node}"):
        words = () if change == "as-is" else (f"--{change.split()[0]}", node)
        checked = asking.ask("check", *words)
        simulated = asking.ask("simulate", *words, "--bound", form="csv")
        if not checked.is_answer:
            continue
        without = sum(place.pods for place in places_of(simulated) if not place.node)
        told = (checked, verdict(checked)), (simulated, f"{without} without a node")
        asking.expect(without == lost(checked, *THERE), "simulate", *told)
        if not asking.cluster.grows:
            compared = asking.run("moorage", "compare", "as-is", change, "-f", asking.base, "-o", "json")
            measured = compared["alternatives"][1]["measures"]["without a node"]
            told = (checked, verdict(checked)), (compared, f"{measured} without a node")
            asking.expect(measured == lost(checked, *WITHOUT), "compare", *told)


@relation(lambda cluster: cluster.nodes)
def compared_with_itself(asking: Asking) -> None:
    """Nothing differs between an alternative and itself."""
    node = name_of(asking.one("node", asking.cluster.nodes, key_of))
    for change in ("as-is", f"drain {node}"):
        words = ("-f", asking.base, *asking.cluster.options, "-o", "json")
        compared = asking.run("moorage", "compare", change, change, *words)
        if compared.is_answer:
            differences = compared["differences"]
            asking.expect(not differences, "pods", (compared, differences[:3]))
            one, other = (alternative["measures"] for alternative in compared["alternatives"])
            asking.expect(one == other, "measures", (compared, [one, other]))
