"""Expressions that do not compile: manifests with them are refused when they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli import main

BAD = [{"cel": {"expression": "true"}}, {"cel": {"expression": "device.drivr == 'x'"}}]
MESSAGE = "compilation failed: ERROR: <input>:1:7: undefined field 'drivr'"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
REQUEST = {"deviceClassName": "gpu", "selectors": BAD}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "class": ("DeviceClass", {"selectors": BAD}, "DeviceClass x: spec.selectors[1]"),
    "claim": (
        "ResourceClaim",
        {"devices": {"requests": [{"name": "r", "exactly": REQUEST}]}},
        "ResourceClaim default/x: spec.devices.requests[0].exactly.selectors[1]",
    ),
    "alternative": (
        "ResourceClaim",
        {"devices": {"requests": [{"name": "r", "firstAvailable": [REQUEST | {"name": "s"}]}]}},
        "ResourceClaim default/x: spec.devices.requests[0].firstAvailable[0].selectors[1]",
    ),
    "template": (
        "ResourceClaimTemplate",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": REQUEST}]}}},
        "ResourceClaimTemplate default/x: spec.spec.devices.requests[0].exactly.selectors[1]",
    ),
}


def written(path: Path, kind: str, spec: dict[str, Any], **meta: str) -> Path:
    metadata = {"name": "x", **({} if kind == "DeviceClass" else {"namespace": "default"}), **meta}
    one = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, one]}))
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_manifest_is_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, spec, place = CASES[case]
    written(tmp_path / "f.json", kind, spec)
    assert main(["simulate", "-f", "f.json"]) == 2
    printed = capsys.readouterr()
    assert printed == ("", f"error: f.json: {place}.cel.expression: {MESSAGE}\n")
    (tmp_path / "g.json").write_text(json.dumps(NODE))
    assert main(["check", "-f", "g.json", "-f", "f.json"]) == 1
    where = f'{kind}.resource.k8s.io "x" is invalid: {place.partition(": ")[2]}.cel.expression'
    refused = f"{where}: Invalid value: \"device.drivr == 'x'\": {MESSAGE}"
    printed = capsys.readouterr()
    assert (refused in printed.out, "f.json" in printed.out, printed.err.count("error")) == (True, True, 0)


def test_an_object_of_a_server_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, spec, place = CASES["class"]
    path = written(tmp_path / "f.json", kind, spec, uid="u")
    assert main(["simulate", "-f", str(path)]) == 0
    warning = f"warning: {place}.cel.expression: {MESSAGE}: pods that need it fail."
    assert warning in capsys.readouterr().out.splitlines()
