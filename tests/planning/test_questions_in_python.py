"""`check`, `simulate` and `compare` ask from Python what the commands ask, and answer the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import moorage as mo
from moorage.autoscalers import read_instance_types
from moorage.cli import main

SHOP, RELEASE = "examples/shop/cluster.yaml", "examples/shop/release/web.yaml"
POOLS, TYPES = "examples/karpenter/cluster.yaml", "examples/karpenter/instance_types.yaml"
GROUPS = [f"examples/node-groups/{name}.yaml" for name in ("release", "groups")]


pytestmark = pytest.mark.usefixtures("in_the_repository")


def same_as_the_command(
    answer: Any, arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0
) -> None:
    assert main([*arguments, "-o", "json"]) == code
    assert (
        msgspec.json.format(msgspec.json.encode(answer.document())).decode()
        == capsys.readouterr().out.strip()
    )
    main(arguments)
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("why: ")]
    assert str(answer).splitlines() == "\n".join(printed).rstrip().splitlines()
    assert repr(answer) == f"<{type(answer).__name__}: {printed[0]}>"


def of_files(files: list[str]) -> list[str]:
    return [word for file in files for word in ("-f", file)]


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ([SHOP, RELEASE], {"new_only": True}, "--new-only"),
        ([SHOP], {"drain": "pool=old", "survive": "zone"}, "--drain pool=old --survive zone"),
        ([SHOP], {"cordon": ["pool=old"], "restart_all": True}, "--cordon pool=old --restart-all"),
        (
            ["examples/upgrade/cluster.yaml"],
            {"upgrade_from": "1.36", "kubernetes_version": "1.37"},
            "--upgrade-from 1.36 --kubernetes-version 1.37",
        ),
        ([POOLS], {"instance_types": TYPES, "seeds": 2}, f"--instance-types {TYPES} --seeds 2"),
        ([POOLS], {"autoscale": False, "survive": "node"}, "--no-autoscale --survive node"),
        (
            ["tests/data/troubleshoot_bundle.json", GROUPS[0]],
            {"node_groups": GROUPS[1], "new_only": True},
            f"--node-groups {GROUPS[1]} --new-only",
        ),
        (["tests/data/troubleshoot_bundle.json", GROUPS[0]], {}, ""),
    ],
)
def test_check_answers_as_the_command(
    files: list[str], options: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mo.check(*files, **options)
    same_as_the_command(answer, ["check", *of_files(files), *words.split()], capsys, int(not answer))


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        (["examples"], {"namespace": "default"}, "-n default"),
        ([SHOP, RELEASE], {"selector": "app=web"}, "-l app=web"),
        ([POOLS], {"unavailable": "spot", "seed": 3}, "--unavailable spot --seed 3"),
        ([SHOP], {"drain": "pool=old"}, "--drain pool=old"),
    ],
)
def test_simulate_answers_as_the_command(
    files: list[str], options: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mo.simulate(*files, **options)
    same_as_the_command(answer, ["simulate", *of_files(files), *words.split()], capsys)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("file", "alternatives", "options", "words"),
    [
        (SHOP, ["as-is", "drain pool=old", RELEASE], {}, ""),
        (SHOP, ["as-is", "drain pool=old"], {"from_scratch": True}, "--from-scratch"),
        (POOLS, ["as-is", "scale deploy/web=2"], {"autoscale": False}, "--no-autoscale"),
        ("examples/upgrade/cluster.yaml", ["kubernetes 1.36", "kubernetes 1.37"], {}, ""),
    ],
)
def test_compare_answers_as_the_command(
    file: str,
    alternatives: list[str],
    options: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = mo.compare(file, *alternatives, **options)
    same_as_the_command(answer, ["compare", *alternatives, "-f", file, *words.split()], capsys)
    assert mo.compare(mo.load(file), *alternatives, **options).document().differences == (
        answer.document().differences
    )


def test_it_takes_a_cluster_and_objects() -> None:
    cluster = mo.load(SHOP)
    assert not mo.check(cluster, Path(RELEASE))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod |= {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900"}}}]}}
    answer = mo.check(cluster, pod)
    assert [names for finding in answer.document().findings for names in finding.names] == ["p"]


def test_numbers_are_words_of_a_change() -> None:
    assert mo.check(SHOP, upgrade_nodes=("pool=old", 1)).document().changes == ["--upgrade-nodes pool=old 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drian": "n1"}, "check has no option drian; nearest: drain"),
        ({"taint": "n1"}, "taint takes NODE|LABEL=VALUE TAINT, not 'n1'"),
        ({"drain": 3}, "drain takes NODE|LABEL=VALUE, not 3"),
        ({"drain": [None]}, "drain takes NODE|LABEL=VALUE, not None"),
        ({"survive": True}, 'survive takes "node", "zone" or a label of nodes, not True'),
        ({"at_once": 2}, "at_once needs survive"),
        ({"allow": "gate"}, "allow: must be some of gated, other-scheduler, .*, not 'gate'"),
        ({"kubernetes_version": "2.0"}, "kubernetes_version must be one of 1.34, .*, not '2.0'$"),
        ({"upgrade_from": "1.2"}, "upgrade_from must be one of 1.34, .*, not '1.2'$"),
        ({"upgrade_from": "1.37"}, r"Kubernetes 1.36 decides \(.*\), which is before 1.37; name"),
        ({"unavailable": "spot"}, "unavailable has no effect: the input has no NodePool"),
        ({"seeds": 2, "autoscale": False}, "seeds has no effect"),
    ],
)
def test_other_options_of_check_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(mo.InputError, match=r"^" + message.replace("|", r"\|")):
        mo.check(SHOP, **options)


@pytest.mark.parametrize("option", ["kubernetes_version", "upgrade_from"])
def test_a_release_is_no_number(option: str) -> None:
    with pytest.raises(TypeError, match=f"^{option} must be a string, not float$"):
        mo.check(SHOP, **{option: 1.36})


def test_a_change_is_an_alternative_and_releases_are_named_once() -> None:
    with pytest.raises(mo.InputError, match=r"^changes are alternatives of compare: 'drain n1'"):
        mo.compare(SHOP, "as-is", drain="n1")
    with pytest.raises(mo.InputError, match=r"^give at least two alternatives"):
        mo.compare(SHOP, "as-is")
    with pytest.raises(mo.InputError, match=r"^kubernetes_version: the alternatives name the releases"):
        mo.compare(SHOP, "kubernetes 1.36", "kubernetes 1.37", kubernetes_version="1.36")
    with pytest.raises(mo.InputError, match=r"^no-such-file: no such file, and not as-is"):
        mo.compare(SHOP, "as-is", "no-such-file")


def test_what_a_server_checks_is_checked() -> None:
    slices = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}}
    slices |= {"spec": {"selectors": [{"cel": {"expression": "device.nothing("}}]}}
    (refused,) = mo.check(SHOP, slices).document().refused
    assert refused.kind == "DeviceClass"
    with pytest.raises(mo.InputError, match=r"^The input has no node"):
        mo.simulate({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})


def test_a_scheduler_is_asked_about_namespaces_and_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["nodes", "--by", "namespace", "-f", "examples", "-o", "json"])
    uses = [use.to_dict() for use in mo.Scheduler(mo.load("examples")).ask.namespace_use()]
    assert uses == msgspec.json.decode(capsys.readouterr().out)["items"]
    cluster = "examples/karpenter/underused/cluster.yaml"
    main(["explain", "node/node-a", "-f", cluster, "--instance-types", TYPES, "-o", "json"])
    scheduler = mo.Scheduler(mo.load(cluster))
    verdict = scheduler.ask.explain_node("node-a", types=read_instance_types(TYPES))
    assert verdict.document().to_dict().items() <= msgspec.json.decode(capsys.readouterr().out).items()
    with pytest.raises(mo.InputError, match=r"^there is no Node \"node-\"; nearest: node-"):
        scheduler.ask.explain_node("node-")
    with pytest.raises(
        mo.InputError, match=r"^no NodePool and no node group has node new-a, so no autoscaler"
    ):
        mo.Scheduler(mo.load(SHOP)).ask.explain_node("new-a")


def test_a_difference_is_its_document() -> None:
    before = mo.Scheduler(mo.load(SHOP))
    after = before.fork()
    (name, *_) = sorted(node.name for node in before.client.list(mo.Node)[0])
    after.change.cordon([name])
    difference = before.ask.diff(after)
    assert difference.to_dict() == {"nodes_changed": [name]}
    assert difference.document() is difference
