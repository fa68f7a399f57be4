"""Compressed files and standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.objects.read.limits import lower_limits
from tests.objects.read.test_inputs import pack
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.kube import load

POD = b"kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"
WAY_OUT = "write JSON without indentation (jq -c), or only what moorage reads (moorage dump)"
NODE = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}'
LIST = b'{"apiVersion": "v1", "kind": "List", "items": [%b]}' % NODE


@pytest.mark.parametrize("content", [POD, LIST])
@pytest.mark.parametrize("name", ["f.yaml.gz", "f.json.gz", "f.gz", "f.json", "f"])
def test_compressed_by_magic_bytes_whatever_the_name(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content))
    cluster = load(tmp_path / name)
    assert len(cluster.nodes) + len(cluster.pods) == 1


def test_compressed_parts_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress(LIST[:9]) + gzip.compress(LIST[9:]))
    assert len(load(tmp_path / "f.gz").nodes) == 1


PACKED = gzip.compress(POD, mtime=0)
BROKEN = {
    "cut off": PACKED[:-12],
    "header only": PACKED[:2],
    "wrong checksum": PACKED[:-8] + bytes(8),
    "damaged": PACKED[:12] + b"\xff" * 20 + PACKED[32:],
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_gzip_data_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "f.json.gz").write_bytes(BROKEN[name])
    assert refusal(tmp_path / "f.json.gz") == "f.json.gz: broken gzip data"


def test_errors_inside_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "f.yaml.gz").write_bytes(gzip.compress(b"kind: Pod\nkind: Node\n"))
    assert refusal(tmp_path / "f.yaml.gz") == 'f.yaml.gz:2: duplicate field "kind"'
    (tmp_path / "g.gz").write_bytes(gzip.compress(gzip.compress(POD)))
    assert (
        refusal(tmp_path / "g.gz")
        == "g.gz: not a text file; give YAML, JSON, or an archive of these (tar, zip, gzip, zstd, …)"
    )


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = POD + b"# " + b"x" * 100  # which is smaller packed
    (tmp_path / "f.gz").write_bytes(gzip.compress(text))
    lower_limits(monkeypatch, len(text), "files.MAX_SIZE")
    assert len(load(tmp_path / "f.gz").pods) == 1
    lower_limits(monkeypatch, len(text) - 1, "files.MAX_SIZE")
    assert refusal(tmp_path / "f.gz") == f"f.gz: more than {len(text) - 1} bytes; {WAY_OUT}"


PACKERS = {"bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("form", PACKERS)
def test_other_forms_of_compression(form: str, tmp_path: Path) -> None:
    """They are known by their first bytes, in archives, directories and alone."""
    packed = PACKERS[form](LIST)
    for name in (f"f.json.{form}", "f"):
        (tmp_path / name).write_bytes(packed)
        assert len(load(tmp_path / name).nodes) == 1
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / f"f.json.{form}").write_bytes(packed)
    assert len(load(tmp_path / "d").nodes) == 1
    plain = pack(
        tmp_path / "a.tar", {"d/n.json": LIST, f"d/p.yaml.{form}": PACKERS[form](POD), "log.txt": b""}
    )
    (tmp_path / f"a.tar.{form}").write_bytes(PACKERS[form](plain.read_bytes()))
    cluster = load(tmp_path / f"a.tar.{form}")
    assert (len(cluster.nodes), len(cluster.pods)) == (1, 1)
    (tmp_path / "f").write_bytes(packed[:-12])
    assert refusal(tmp_path / "f") == f"f: broken {'bzip2' if form == 'bz2' else form} data"
    (tmp_path / "f").write_bytes(PACKERS[form](bytes(17 << 20)))
    assert refusal(tmp_path / "f").startswith("f: unpacks to more than ")


def test_a_form_that_this_python_does_not_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)  # type: ignore[arg-type]
    for name in ("f.json.zst", "a.tar.zst"):
        (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))
        message = "compressed with zstd, which Python before 3.14 does not read; unpack it: unzstd"
        assert refusal(tmp_path / name) == f"{name}: {message}"


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("data", [POD, PACKED])
def test_standard_input_is_read_beside_files(
    data: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    give(monkeypatch, data)
    (tmp_path / "n.json").write_bytes(LIST)
    cluster = load("-", tmp_path / "n.json")
    assert ([pod.name for pod in cluster.pods], [node.name for node in cluster.nodes]) == (["p"], ["n"])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "stdin: this file is empty"),
        (b'{"kind": ', "stdin:1: invalid JSON: it ends too early"),
        (b"kind: Pod\nkind: Pod\n", 'stdin:2: duplicate field "kind"'),
        (b"kind: Pod\nmetadata: {name: p}\nspec: 7\n", "stdin: Pod p: spec: expected map, got integer"),
        (
            b"\x00",
            "stdin: not a text file; give YAML, JSON, or an archive of these (tar, zip, gzip, zstd, …)",
        ),
        (PACKED[:-12], "stdin: broken gzip data"),
    ],
)
def test_bad_standard_input(data: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, data)
    with pytest.raises(InputError) as caught:
        load("-")
    assert str(caught.value) == error


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^stdin: cannot be read: it is closed$"):
        load("-")


def test_a_file_called_stdin_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stdin").write_bytes(LIST)
    assert len(load("stdin").nodes) == 1
