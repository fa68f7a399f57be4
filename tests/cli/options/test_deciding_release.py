"""The release that an archive tells; the others are in `tests/cases/kube/deciding_release.md`."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from tests.make import manifest, node

from moorage.cli import main


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("cluster-info/cluster_version.json", {"info": {"gitVersion": "v1.35.2"}, "string": "v1.35.2"}),
        (
            "version.json",
            {"clientVersion": {"gitVersion": "v1.30.0"}, "serverVersion": {"gitVersion": "v1.35.2"}},
        ),
    ],
)
def test_an_archive_may_tell_the_version_of_the_server(
    tmp_path: Path, name: str, document: object, capsys: pytest.CaptureFixture[str]
) -> None:
    old = manifest(node("n", status={"nodeInfo": {"kubeletVersion": "v1.34.0"}}))
    with tarfile.open(tmp_path / "bundle.tar", "w") as archive:
        for file, content in ((name, document), ("nodes.json", {"kind": "List", "items": [old]})):
            info = tarfile.TarInfo(file)
            info.size = len(data := json.dumps(content).encode())
            archive.addfile(info, BytesIO(data))
    assert main(["simulate", "-f", str(tmp_path / "bundle.tar"), "-o", "json"]) == 0
    shown = capsys.readouterr()
    reason = "version of the API server: v1.35.2"
    assert json.loads(shown.out)["release"] == {"version": "1.35", "reason": reason}
    assert shown.err.splitlines()[0] == f"release: Kubernetes 1.35 decides ({reason})"
