"""Pods read by their parts: they are what decoding gives, and what they have in common is shared."""

from __future__ import annotations

import json
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from bench import kubectl_dump
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw
from tests.doors.kube import PartsReader, decode_kind, read_objects
from tests.objects.read.limits import lower_limits
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.kube import Node, Pod, load

TOKEN = "kube-api-access-x7k2p"
OTHER_TOKEN = "kube-api-access-b4b4b"


def pod(spec: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec, **parts}


def plain(text: str) -> Pod | Node | None:
    """The object as it is decoded as a whole; None if it is refused."""
    try:
        obj = decode_kind(Raw(text.encode()), json.loads(text)["kind"])
    except InputError:
        return None
    assert isinstance(obj, Pod | Node)
    return obj


def read(reader: PartsReader, text: str) -> Pod | Node | None:
    """The object as it is read by parts, or else as a whole."""
    parts = reader.split(text.encode())
    obj = None if parts is None else reader.read(parts, "")
    return plain(text) if obj is None else obj


strings = st.sampled_from(
    ["", "a", "n1", TOKEN, OTHER_TOKEN, "kube-api-access-", "nodeName", '"nodeName": "x"', "é", "\\", "\1"]
)
scalars = st.one_of(strings, st.none(), st.integers(-2, 2), st.booleans())
names = st.one_of(strings, st.just(7), st.none())
volumes = st.fixed_dictionaries(
    {"name": strings},
    optional={
        "persistentVolumeClaim": st.fixed_dictionaries({"claimName": strings}),
        "projected": scalars,
        "image": st.fixed_dictionaries({"reference": strings}),
    },
)
containers = st.fixed_dictionaries(
    {"name": strings},
    optional={"image": strings, "nodeName": names, "volumeMounts": st.lists(volumes, max_size=2)},
)
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, max_size=2)},
    optional={
        "nodeName": names,
        "hostname": names,
        "kube-api-access-abcde": scalars,
        "priorityClassName": strings,
        "volumes": st.lists(volumes, max_size=3),
        "nodeSelector": st.dictionaries(strings, strings, max_size=2),
        "nodeInfo": st.fixed_dictionaries({"nodeName": names}),
        "unknown": scalars,
    },
)
labels = st.one_of(st.none(), st.dictionaries(strings, names, max_size=2))
statuses = st.fixed_dictionaries(
    {}, optional={"phase": st.sampled_from(["Pending", "Running", None]), "startTime": names, "hostIP": names}
)
metadata = st.fixed_dictionaries(
    {"name": strings}, optional={"labels": labels, "annotations": labels, "namespace": strings}
)
pods = st.builds(
    lambda spec, meta, status: pod(spec, metadata=meta, status=status), specs, metadata, statuses
)


@given(st.lists(pods, max_size=6), st.sampled_from([None, 2]), st.booleans())
@example([pod({"nodeName": name, "containers": [{"nodeName": "a"}]}) for name in "ab"], None, True)
@example([pod({"volumes": [{"name": TOKEN}] * 2, "hostname": TOKEN}, status={})] * 2, None, True)
@example([pod({"containers": [], "nodeName": name, "nodeSelector": {"x": name}}) for name in "ab"], 2, True)
def test_pods_are_what_decoding_gives(
    pods: list[dict[str, Any]], indent: int | None, ascii_only: bool
) -> None:
    reader = PartsReader()
    for value in pods:
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        assert read(reader, text) == plain(text)


@pytest.mark.parametrize(
    "spec",
    [
        '{"nodeName": "%s", "nodeName": "last"}',
        '{"nodeName": "first", "nodeName": "%s"}',
        '{"node\\u004eame": "escaped", "nodeName": "%s"}',
        '{"nodeName": "%s", "node\\u004eame": "escaped"}',
        '{"containers": [{"nodeName": "%s"}], "nodeName": "own"}',
        '{"x": {"nodeName": "%s"}, "node\\u004eame": "a"}',
        '{"volumes": [{"name": "kube-api-access-%s"}, {"name": "kube-api-access-", "nodeName": 1}]}',
        '{"containers": [{"name": "kube-api-access-%s"}], "volumes": [{"name": "kube-api-access-%s"}]}',
        '{"volumes": [{"name": "kube-api-access-%s", "persistentVolumeClaim": {"claimName": "c"}}]}',
        '{"schedulerName": "kube-api-access-%s"}',
        '{"hostname": "%s", "nodeName" : "%s"}',
        '{"nodeSelector": {"hostname": "%s"}}',
        '{"nodeSelector": {"nodeName": "%s"}}',
    ],
)
def test_strings_that_mean_something_else(spec: str) -> None:
    reader = PartsReader()
    for name in ("a", "b", "a"):
        whole = spec.replace("%s", name)
        text = f'{{"kind": "Pod", "metadata": {{"name": "p"}}, "spec": {whole}}}'
        assert plain(text) is not None
        assert read(reader, text) == plain(text)


def test_bytes_that_are_no_text() -> None:
    text = b'{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "\xff"}}'
    reader = PartsReader()
    parts = reader.split(text)
    assert parts is not None
    assert reader.read(parts, "") is None


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    kubectl_dump.write_list(tmp_path / "list.json", nodes=3, pods=20)
    return tmp_path / "list.json"


def test_pods_of_one_template_share_what_they_have_in_common(dump: Path) -> None:
    first, *rest = load(dump).pods
    assert len({pod.spec.node_name for pod in rest}) == 3
    assert len({pod.spec.volumes[0].name for pod in rest}) == len(rest)
    for other in rest:
        assert other.spec.containers is first.spec.containers
        assert other.spec.tolerations is first.spec.tolerations
        assert other.metadata.labels is first.metadata.labels
        assert other.metadata.annotations is first.metadata.annotations
        assert other.metadata.owner_references is first.metadata.owner_references


def test_nodes_share_resources_images_and_the_texts_of_conditions(dump: Path) -> None:
    kubectl_dump.write_list(dump, nodes=9, pods=0)
    first, *others = load(dump).nodes
    for other in others:
        assert other.status.allocatable is first.status.allocatable
        assert other.status.conditions[0].message is first.status.conditions[0].message
        assert other.metadata.labels != first.metadata.labels
    assert others[3].status.images[0] is first.status.images[0]


def test_shared_texts_are_limited(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load(dump)
    lower_limits(monkeypatch, 100, "parts_reader._MAX_TEXT")
    lower_limits(monkeypatch, 3, "parts_reader._MAX_TEXTS")
    assert load(dump) == expected


PIECE = 1 << 20
"""In bytes; files are read in pieces of this size."""


@pytest.mark.parametrize("padding", [0, PIECE // 7, 3 * PIECE])
def test_lines_are_read_in_pieces(padding: int, dump: Path) -> None:
    """Some lines in one piece, lines that end in the next one, and lines of several pieces."""
    lines = dump.with_name("lines.json")
    kubectl_dump.write_lines(lines, nodes=3, pods=20)
    lines.write_text(lines.read_text().replace("\n", f"{' ' * padding}\n"))
    with lines.open("a") as file:
        file.write(f"\n{json.dumps({'kind': 'ConfigMap'})}\n  ")
    expected, read_lines = load(dump), load(lines)
    assert read_lines.pods == expected.pods
    assert read_lines.nodes == expected.nodes
    assert read_lines.skipped == {"ConfigMap": 1}


def test_lines_are_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    line = json.dumps({"kind": "ConfigMap", "data": {"text": " " * (PIECE // 2)}}) + "\n"
    (tmp_path / "f.json").write_text(GOOD + "\n" + line * 64)
    tracemalloc.start()
    try:
        assert load(tmp_path / "f.json").skipped == {"ConfigMap": 64}
        assert tracemalloc.get_traced_memory()[1] < 16 * PIECE
    finally:
        tracemalloc.stop()


def test_a_file_that_cannot_be_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(read_objects, "open_regular", lambda file: Broken())
    assert refusal(tmp_path / "f.json") == "f.json: cannot be read: Input/output error"


GOOD = json.dumps(pod({"containers": [{"name": "c"}]}))
BAD = {
    "type": (GOOD.replace('"p"', '"q"').replace('"c"', "7"), "Pod q: spec.containers[0].name: expected"),
    "validation": (GOOD.replace('"p"', '"q"').replace('"c"', '"c", "restartPolicy": "x"'), "Pod q: spec.con"),
    "duplicate": (GOOD.replace('"c"', '"d"'), "Pod p: listed twice, and different in"),
    "no kind": ('{"metadata": {"name": "x"}}', "x: no kind"),
    "list": ('{"kind": "PodList", "items": [{"kind": 5}]}', "items[0]: kind: expected string"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("after", ["", "\n", "\n\n" + GOOD.replace('"p"', '"r"') + "\n"])
def test_a_bad_line(name: str, after: str, tmp_path: Path) -> None:
    line, expected = BAD[name]
    (tmp_path / "f.json").write_text(f"{GOOD}\n{line}{after}")
    assert refusal(tmp_path / "f.json").startswith(f"f.json: {expected}")


def test_an_error_of_the_syntax_comes_first(tmp_path: Path) -> None:
    """Though it stands in a later piece of the file than the wrong object."""
    wrong = GOOD.replace('"c"', "7")
    (tmp_path / "f.json").write_text(f'{GOOD}\n{wrong}\n{GOOD}{" " * PIECE}\n{{"kind": }}\n')
    assert refusal(tmp_path / "f.json") == "f.json:4: invalid JSON: invalid character"
