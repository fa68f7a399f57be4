"""`check` asks from Python what `moorage check` asks, and answers the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import moorage as mo
from moorage.cli import main
from tests.house.source import ROOT

SHOP, RELEASE = "examples/shop/cluster.yaml", "examples/shop/release.yaml"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ([SHOP, RELEASE], {"new_only": True}, ["--new-only"]),
        ([SHOP], {"drain": "pool=old", "survive": "zone"}, ["--drain", "pool=old", "--survive", "zone"]),
        ([SHOP], {"cordon": ["pool=old"], "restart_all": True}, ["--cordon", "pool=old", "--restart-all"]),
        (["examples/upgrade/cluster.yaml"], {"upgrade_from": "1.35"}, ["--upgrade-from", "1.35"]),
    ],
)
def test_it_answers_as_the_command(
    files: list[str], options: dict[str, Any], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if "upgrade_from" in options:
        options, words = {**options, "kubernetes_version": "1.37"}, [*words, "--kubernetes-version", "1.37"]
    answer = mo.check(*files, **options)
    arguments = ["check", *(word for file in files for word in ("-f", file)), *words]
    assert main([*arguments, "-o", "json"]) == int(not answer)
    assert (
        msgspec.json.format(msgspec.json.encode(answer.document())).decode()
        == capsys.readouterr().out.strip()
    )
    main(arguments)
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("why: ")]
    assert str(answer).splitlines() == "\n".join(printed).rstrip().splitlines()


def test_it_takes_a_cluster_and_objects() -> None:
    cluster = mo.load(SHOP)
    assert not mo.check(cluster, Path(RELEASE))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod |= {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "900"}}}]}}
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
    ],
)
def test_other_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(mo.InputError, match="^" + message.replace("|", r"\|")):
        mo.check(SHOP, **options)
