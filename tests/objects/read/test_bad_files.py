"""Bad files: what stands in a file, and the one line that it is refused with."""

from __future__ import annotations

import ast
import gzip
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.objects.read.limits import lower_limits
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.kube import load

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
YAML = {
    "control character": ("kind: \x01\n", "f.yaml: invalid YAML: control characters are not allowed"),
    "nested deeply": (
        "kind: Pod\nx: " + "[" * 100_000 + "]" * 100_000,
        "f.yaml:2: nested more than 200 levels deep",
    ),
    "kustomization": (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
        "f.yaml: Kustomization (document 1): a kustomization; use kubectl kustomize FOLDER | moorage … -f -; "
        "to read the files as they are, without it: $(find FOLDER -name '*.yaml' ! -name kustomization.yaml "
        "-printf ' -f %p')",
    ),
}
"""Beside the case `kube/refused_files`."""


@pytest.mark.parametrize("name", YAML)
def test_bad_yaml_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    text, expected = YAML[name]
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert refusal(file) == expected.replace("FOLDER", str(tmp_path))


DEEP = 100_000
SHORT = r"""
b'{"kind": "Pod",\n "metadata": }' | :2: invalid JSON: invalid character
b'{"kind": "Pod",\n\n' | :3: invalid JSON: it ends too early
b'{"kind": "ConfigMap"}\n{"kind": "Pod"' | :2: invalid JSON: it ends too early
b'\x7fELF\x00\x01' | : not a text file; give YAML, JSON, or an archive of these (tar, zip, gzip, zstd, …)
b'a: b\nkind: caf\xe9' | :2: not UTF-8 (byte 0xe9); iconv converts, as from Latin-1
b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "Unauthorized"}' | : Status (document 1): an answer of the API server, not a dump: Unauthorized
b'{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}' | : Table (document 1): a table that kubectl get prints; use kubectl get -o json or -o yaml
b'{"kind": "Pod", "metadata": {"name": "caf\xe9"}}' | : invalid JSON: not UTF-8
b'{"apiVersion": "v2", "kind": "Pod", "metadata": {"\xff": "a"}}' | : document 1: apiVersion: no matches for kind "Pod" in version "v2"; write v1
b'[1]' | : document 1: a list, but not of objects
b'{}' | : document 1: no kind
b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}\n{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}\n' | : Event (document 1): an audit log, not a dump of objects
b'{"version": 2, "config": {}, "events": []}' | : document 1: no kind: a trace, not a dump of objects
b'{"kind": "PodList", "items": {"a": 1}}' | : PodList (document 1): items: expected list, got map
b'{"kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {"priority": "x"}}]}' | : Pod a: spec.priority: expected integer, got string
b'{"kind": "Pod", "spec": {"overhead": {"memory": 1, "cpu": 1e400, "b": "1"}}}' | : Pod (document 1): spec.overhead[cpu]: number out of range
"""  # noqa: E501
JSON: dict[str, tuple[bytes, str]] = {
    **{
        row: (ast.literal_eval(row.split(" | ")[0]), f"f.json{row.split(' | ')[1]}")
        for row in SHORT.strip().splitlines()
    },
    "nested deeply": (
        b'{"kind": "Pod", "x": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        "f.json: nested too deeply",
    ),
    "nested deeply beside a null": (
        b'{"kind": "Pod", "metadata": {"labels": null}, "x": ' + b"[" * 900 + b"]" * 900 + b"}",
        # CPython 3.12 and later have a larger limit for calls in C.
        "f.json: nested too deeply"
        if sys.version_info < (3, 12)
        else 'f.json: Pod (document 1): unknown field "x"',
    ),
    "cut off deeply": (b"[" * DEEP, "f.json: nested too deeply"),
    "lists in lists": (b'{"kind":"List","items":[' * DEEP + b"]}" * DEEP, "f.json: nested too deeply"),
    "number of too many digits": (
        b'{"kind": "Pod", "spec": {"overhead": {"memory": 1.5, "cpu": ' + b"9" * 5000 + b"}}}",
        "f.json: Pod (document 1): spec.overhead[cpu]: integer value out of range",
    ),
    "huge number": (
        b'{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": ' + b"9" * 5000 + b"}}",
        "f.json: Pod a: spec.priority: integer value out of range",
    ),
}


@pytest.mark.parametrize("name", JSON)
def test_bad_json_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    data, expected = JSON[name]
    file = tmp_path / "f.json"
    file.write_bytes(data)
    assert refusal(file) == expected


def test_directory_without_manifests(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("kind: Pod")
    assert refusal(tmp_path / "d") == "d: no .json, .yaml or .yml file in this directory"


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert refusal(loop).startswith("loop.yaml: cannot be read: ")


def test_aliases_that_expand_to_too_much_are_refused(tmp_path: Path) -> None:
    lines = ["kind: Pod", "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    assert refusal(file) == "bomb.yaml:7: aliases expand to too much data"


def test_second_file_is_named(tmp_path: Path) -> None:
    """An object that cannot be decoded is refused in a change, and the others are read."""
    (tmp_path / "a.yaml").write_text(POD)
    other = POD.replace("name: p", "name: q")
    (tmp_path / "b.yaml").write_text(f"{POD.replace('name: p', 'name: 1')}\n---\n{other}")
    cluster = load(tmp_path / "a.yaml", tmp_path / "b.yaml", refused="ignore")
    (refused,) = cluster.refused_objects
    text = "Pod (document 1): metadata.name: expected string, got integer"
    assert refused.text == f"{tmp_path}/b.yaml: {text}"
    assert [pod.name for pod in cluster.pods] == ["p", "q"]


@pytest.mark.parametrize("digits", [20, 5000])
def test_numbers_beyond_64_bits_in_unread_fields_are_ignored(digits: int, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    pod: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    file.write_text(json.dumps(pod)[:-1] + f', "x": {"9" * digits}}}')
    assert len(load(file, validate="ignore").pods) == 1
    assert refusal(file) == 'f.json: Pod p: unknown field "x"'


def test_names_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^-f: the name of a file is empty$"):
        load("")
    assert refusal(tmp_path / ("a" * 300)).endswith("a: cannot be read: File name too long")
    assert refusal(tmp_path / ("a/" * 2500)).endswith("a: cannot be read: File name too long")
    null = "embedded null byte" if sys.version_info < (3, 13) else "open: embedded null character in path"
    assert refusal(tmp_path / "a\0b").endswith(f"b: cannot be read: {null}")


def test_a_device_is_no_file() -> None:
    with pytest.raises(InputError, match=r"^/dev/zero: not a file or a directory$"):
        load("/dev/zero")


def test_a_named_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "pipe: this file is empty"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """A shell's ``<(command)`` is such a file; the writer may be slower than the reader."""
    ends, more = os.pipe(), threading.Event()

    def write() -> None:
        with open(ends[1], "wb") as pipe:
            assert more.wait(60)
            pipe.write(POD.encode())
            pipe.flush()
            pipe.write(b"---\n" + POD.replace("name: p", "name: q").encode())

    writer = threading.Thread(target=write)
    writer.start()
    more.set()
    assert [pod.name for pod in load(f"/dev/fd/{ends[0]}").pods] == ["p", "q"]
    writer.join()
    os.close(ends[0])


def test_what_has_no_end_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lower_limits(monkeypatch, 1000, "files.MAX_SIZE")
    with open("/dev/zero") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        with pytest.raises(InputError, match=r"^stdin: more than 1000 bytes; write JSON without"):
            load("-")


def test_a_small_file_that_unpacks_to_too_much(tmp_path: Path) -> None:
    """It is refused before all of it is unpacked."""
    (tmp_path / "bomb.yaml.gz").write_bytes(gzip.compress(bytes(17 << 20)))
    assert refusal(tmp_path / "bomb.yaml.gz") == f"bomb.yaml.gz: unpacks to more than {16 << 20} bytes"


def test_equal_objects_may_be_compressed_well(tmp_path: Path) -> None:
    pods = "".join(f"---\n{POD.replace('name: p', f'name: p{at:05}')}" for at in range(20_000))
    packed = gzip.compress(pods.encode())
    assert len(packed) * 250 > 5 * len(pods)


def test_a_url_is_no_file() -> None:
    with pytest.raises(InputError) as caught:
        load("https://example.com/a.yaml")
    assert (
        str(caught.value)
        == "-f: URLs are not read; use curl -sSL https://example.com/a.yaml | moorage … -f -"
    )
