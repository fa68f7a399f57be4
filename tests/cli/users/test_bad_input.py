"""Bad input of any option is one line on stderr and exit code 2, and nothing is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.house.source import ROOT

from moorage.cli import main

NODE = "ip-10-0-1-28.eu-west-1.compute.internal"
DUMP, WEB = "-f dump.json.gz", "-f dump.json.gz -f web.yaml"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c%s}]}}"
TEMPLATE = "selector: {}, template: {spec: {containers: [{name: c}]}}"
APPS = "{apiVersion: apps/v1, kind: %s, metadata: {name: x}, spec: {%s, " + TEMPLATE + "}}"
GROUPS = (
    "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, "
    "spec: {replicas: %s, leaderWorkerTemplate: "
    "{size: %s, workerTemplate: {spec: {containers: [{name: c}]}}}}}"
)
FILES = {
    "a name": POD % ("X_Y", ""),
    "a quantity": POD % ("x", ", resources: {requests: {cpu: abc}}"),
    "two of one name": POD % ("x", "") + "\n---\n" + POD % ("x", "x"),
    "a name twice": POD % ("x, name: y", ""),
    "a partition": APPS % ("StatefulSet", "updateStrategy: {rollingUpdate: {partition: -1}}"),
    "a policy": APPS % ("StatefulSet", "podManagementPolicy: Random"),
    "a surge": APPS % ("DaemonSet", "updateStrategy: {rollingUpdate: {maxSurge: 1}}"),
    "a strategy": APPS % ("DaemonSet", "updateStrategy: {type: Recreate}"),
    "an empty group": GROUPS % (2, 0),
    "too many groups": GROUPS % (2_000_000, 1_000),
    "replicas": APPS.replace("apps/v1", "argoproj.io/v1alpha1") % ("Rollout", "replicas: many"),
    "nothing": "",
    "binary": "\0\1\2",
}
COMMANDS = [
    *[
        "simulate",
        f"simulate {DUMP} --synthetic nodes=1",
        "simulate -f /no",
        "simulate -f",
        f"simulate {DUMP} extra",
    ],
    *[f"simulate {DUMP} -n nowhere", f"simulate {DUMP} -o xml", f"simulate {DUMP} --validate maybe"],
    *[
        f"simulate {DUMP} --seed -1",
        f"simulate {DUMP} --kubernetes-version 1.33",
        f"simulate {DUMP} --config /no",
    ],
    *[f"simulate {DUMP} --feature-gates X=true", f"simulate {DUMP} --feature-gates GangScheduling=maybe"],
    *[
        f"simulate {DUMP} --tie-break last",
        f"simulate {DUMP} --config web.yaml",
    ],
    *[f"simulate {DUMP} --percentage-of-nodes-to-score 101", f"simulate {DUMP} -l =,=="],
    *[f"simulate {DUMP} --add-nodes {what}" for what in ("x", NODE, f"{NODE}=0x1", f"{NODE}=-1", "nope=1")],
    *[f"simulate {DUMP} --add-nodes {NODE}={what}" for what in ("999999999", "1,zone=", "1,zone=a/b")],
    *[f"check {DUMP} --drain {what}" for what in ("nope", "zone=nowhere", "a=in=(")],
    *[f"check {DUMP} --{what}" for what in ("drain", "cordon zone", "uncordon x=y=z", "remove-nodes nope")],
    *[f"check {DUMP} --fail-zone q", "check", f"check {DUMP} --allow nothing", f"check {DUMP} --nope"],
    *[
        f"check {DUMP} --taint {NODE} {what}"
        for what in ("", "a", "a=b:Nope", ":NoSchedule", "a-", "a/b/c=d:NoSchedule")
    ],
    *[f"check {DUMP} --label {NODE} {what}" for what in ("a", "a/b/c=d", "a=" + "x" * 64)],
    *[f"check {DUMP} --label deploy/x/y/z a=b", f"check {DUMP} --label deploy/nope a=b"],
    *[
        f"check {WEB} --scale {what}"
        for what in ("web=3", "deploy/web=3", "deploy/shop/web", "svc/shop/web=3")
    ],
    *[
        f"check {WEB} --scale {what}"
        for what in ("deploy/shop/web=-1", "deploy/shop/web=2000001", "nope/shop/web=3")
    ],
    *[f"check {WEB} --scale {what}=3" for what in ("pod/shop/web", "ds/shop/web", "rollout/shop/web")],
    *[
        f"explain {DUMP}",
        f"explain x --all-pending {DUMP}",
        f"explain nope {DUMP}",
        f"explain deploy/nope {DUMP}",
    ],
    *[
        f"explain deploy/ {DUMP}",
        f"explain / {DUMP}",
        f"explain a/b/c {DUMP}",
        f"explain x {DUMP} --nodes some",
    ],
    *[f"explain --all-pending {DUMP} -n nowhere", f"explain deployment/svc-00 {DUMP} -n data --node nope"],
    *[
        f"capacity {DUMP}",
        "capacity --pod web.yaml",
        f"capacity {DUMP} --pod /no",
        f"capacity {DUMP} --pod deploy/nowhere",
    ],
    *[
        f"capacity {DUMP} --pod web.yaml{what}"
        for what in ("=0", "=x", " --max-limit -1", " --exclude-nodes nope")
    ],
    *[f"capacity {DUMP} --pod web.yaml{what}" for what in (" --by nope", " -o xml")],
    f"capacity {DUMP} --pod typo.yaml",
    *[f"compare {DUMP}", f"compare as-is {DUMP}", "compare as-is as-is", f"compare as-is nope.yaml {DUMP}"],
    *["completion tcsh", "config", "config --effective web.yaml", "perf /no", "perf", "nope", "--nope"],
]
CHANGES = ["drain nope", "drain", "fly away", "drain a b", f"drain {NODE};;", "scale deploy/web", ""]
LINES = [line.split(" ") for line in COMMANDS] + [["compare", "as-is", one, *DUMP.split()] for one in CHANGES]


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[:70])
def test_a_bad_command_line(
    line: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "tests/data/users")
    assert main(line) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), said.err[:7]) == ("", 1, "error: "), said.err
    assert len(said.err) < 400


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
@pytest.mark.parametrize("command", ["simulate", "check"])
def test_a_bad_file(command: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert main([command, "-f", str(tmp_path / "bad.yaml")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), "bad.yaml" in said.err) == ("", 1, True), said.err
