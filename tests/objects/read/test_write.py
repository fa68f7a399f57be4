"""Writing: what was written reads back as what it was."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.kube import _KINDS, Struct, read_yaml
from tests.house.source import ROOT
from tests.objects.make import node, pod

from moorage import synthetic
from moorage.kube import (
    Cluster,
    Object,
    decode_object,
    dump,
    encode_object,
    load,
    write,
    write_cluster,
)

# Where the spelling matters: numbers, booleans, nulls, dates, merge keys and base-60 numbers that are none.
TRICKY = re.split(
    r"\s+",
    "y n Y N yes no on off On true false null ~ 1 -1 +1 007 0o7 0x1F 0b1 1_000 1e3 1E5 .5 5. 1.5 .inf -.INF "
    ".nan 1:30 190:20:30 2001-12-14 2001-12-14T21:59:43Z << = - -- --- ... ? : # & * ! | > % @ ` [ ] { } , "
    "a:b a: :a #a a#b",
)
ODD = ("", " ", "a ", " a", "a: b", "a #b", "two\nlines", "\ttab", "'", '"', "é", "\x7f", "\x85", "\u2028")
TEXTS = st.sampled_from([*TRICKY, *ODD, "\ufeff", "😀"])
TEXTS |= st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type; about half the fields of a struct stay as they are when absent."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        sized = any(isinstance(one, msgspec.Meta) and one.ge is not None for one in hint.__metadata__)
        return st.integers(-(2**31), 2**31 - 1) if sized else strategy(hint.__origin__)
    if origin is tuple:
        return st.lists(strategy(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXTS, strategy(arguments[1]), max_size=2)
    if arguments:
        return st.one_of(*map(strategy, arguments))
    if isinstance(hint, type) and issubclass(hint, Struct):
        hints = get_type_hints(hint, include_extras=True)
        chosen = {
            name: strategy(hints[name])
            for name in hint.__struct_fields__
            if name not in ("kind", "api_version", "unread", "managed_fields")
        }
        return st.fixed_dictionaries({}, optional=chosen).map(lambda fields: hint(**fields))
    plain = {str: TEXTS, bool: st.booleans(), int: NUMBERS, float: NUMBERS, type(None): st.none(), Any: TEXTS}
    return plain[hint]


OBJECTS = st.one_of(*(st.deferred(lambda kind=kind: strategy(kind)) for kind in _KINDS.values()))


@settings(deadline=None, max_examples=150)
@given(OBJECTS)
def test_json_reads_back(obj: Object) -> None:
    assert decode_object(encode_object(obj)) == obj


@settings(deadline=None, max_examples=150)
@given(OBJECTS)
def test_yaml_reads_back(obj: Object) -> None:
    (document,) = read_yaml(dump([obj], "yaml"), "text")
    assert decode_object(document) == obj


@settings(deadline=None)
@given(TEXTS)
def test_other_yaml_readers_see_the_same_strings(text: str) -> None:
    """PyYAML reads YAML 1.1, as Kubernetes does, with other rules for what is a number."""
    written = dump(
        [Object(kind="Pod", metadata=msgspec.structs.replace(Object().metadata, name=text))], "yaml"
    )
    assert yaml.safe_load(written).get("metadata", {"name": ""})["name"] == text


@pytest.mark.parametrize("text", TRICKY)
def test_what_yaml_would_misread_is_quoted(text: str) -> None:
    obj = decode_object({"kind": "Pod", "metadata": {"name": "p", "labels": {text: text}}})
    (document,) = read_yaml(dump([obj], "yaml"), "text")
    assert document["metadata"]["labels"] == {text: text}


def test_layout_in_json() -> None:
    one = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}'
    assert dump([node("n")]) == one + "\n"
    assert (
        dump([node("n"), node("n")]) == f'{{"apiVersion":"v1","kind":"List","items":[\n{one},\n{one}\n]}}\n'
    )
    assert json.loads(dump([])) == {"apiVersion": "v1", "kind": "List", "items": []}
    assert dump([], "yaml") == ""


def test_empty_fields_are_left_out_unless_they_mean_something() -> None:
    everything: dict[str, Any] = {"labelSelector": {}}
    obj = pod(
        "p",
        {
            "containers": [{"name": "c", "resources": {}, "ports": []}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [everything]}},
            "nodeSelector": {},
            "tolerations": [],
        },
        status={},
    )
    spec = json.loads(encode_object(obj))
    assert spec == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c"}],
            "nodeSelector": {},
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [everything]}},
        },
    }


def same(cluster: Cluster, read: Cluster) -> None:
    assert read.warnings == []
    read.warnings, read.skipped = cluster.warnings, cluster.skipped
    assert read == cluster


@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.yml", "c.json.gz", "c.yaml.gz", "c.gz", "c"])
def test_cluster_reads_back(name: str, tmp_path: Path) -> None:
    cluster = load(ROOT / "examples")
    write_cluster(tmp_path / name, cluster)
    same(cluster, load(tmp_path / name))
    head = (tmp_path / name).read_bytes()[:2]
    assert head == (b"\x1f\x8b" if name.endswith("gz") else b"ap" if "y" in name else b'{"')


def test_same_objects_give_the_same_bytes(tmp_path: Path) -> None:
    objects = synthetic(nodes=3, pods=3).nodes
    write(tmp_path / "a.json.gz", objects)
    write(tmp_path / "b.json.gz", iter(objects))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
