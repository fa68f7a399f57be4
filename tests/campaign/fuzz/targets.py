"""One function per reader: it takes bytes, and raises where the reader does anything but read or refuse.

What a reader may raise is what its documentation says. Where two ways of reading exist, or an exact twin,
they have to agree as well.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.scheduler_perf import read_workloads
from bench.scheduler_perf.go_template import parse as parse_template

from moorage import Quantity, Timeline
from moorage.errors import ExtenderError, InputError, MoorageError
from moorage.kube import Device, Node, Pod, decode_object, dump, load, parse_selector
from moorage.sim.sweep import read_sweep
from moorage.store import ApiError
from tests.campaign.fuzz.scripted_plugin import native_plugin
from tests.core.twins import quantity_twin
from tests.doors.engine import (
    IN_TREE,
    SelectorError,
    compile_selector,
    device_value,
    extender_wire,
    load_configuration,
    requirement_error,
    requirement_errors,
)
from tests.doors.kube import (
    CompileError,
    UnplacedError,
    decode,
    documents,
    read_block_style,
    read_yaml,
    resolve_plain,
)
from tests.doors.kube import go_texts_parse_duration as parse_duration
from tests.doors.kube import parse_duration as parse_time_span
from tests.doors.live import collection, error_of, status_of
from tests.doors.sim import FORMATS
from tests.doors.store import apply_patch, predicate

Target = Callable[[bytes], None]


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@cache
def _folder() -> Path:
    """A folder in memory, if there is one, that lives as long as the process."""
    shared = Path("/dev/shm")
    _folder.held = tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)  # type: ignore[attr-defined]
    return Path(_folder.held.name)  # type: ignore[attr-defined]


def file_of(data: bytes, name: str) -> str:
    path = _folder() / name
    path.write_bytes(data)
    return str(path)


# ---- objects -----------------------------------------------------------------------------------------------


def decode_json(data: bytes) -> None:
    """An object; what was read is written and read again as the same."""
    try:
        found = decode_object(data)
    except (InputError, ValueError):  # as msgspec's DecodeError, for a text that is no JSON
        return
    with suppress(UnicodeEncodeError):
        assert decode_object(dump([found]).encode()) == found


def load_json(data: bytes) -> None:
    with suppress(InputError):
        load(file_of(data, "one.json"))


def load_yaml(data: bytes) -> None:
    with suppress(InputError):
        load(file_of(data, "one.yaml"))


def yaml(data: bytes) -> None:
    """The fast reader of block style reads what the reader of all of YAML does, or stands back."""
    text = text_of(data)
    try:
        expected: Any = [one for one in documents(text, "f") if one is not None]
    except InputError:
        expected = None
    try:
        found: Any = list(read_yaml(text, "f"))
    except InputError:
        found = None
    assert repr(found) == repr(expected), (found, expected)
    with suppress(UnplacedError):
        read_block_style(text, resolve_plain, 200)


def archive(data: bytes) -> None:
    for name in ("one.zip", "one.tar", "one.tar.gz", "one.json.gz"):
        with suppress(InputError):
            load(file_of(data, name))


# ---- values ------------------------------------------------------------------------------------------------


def quantity(data: bytes) -> None:
    """The exact twin has the same values."""
    text = text_of(data)
    try:
        found = Quantity(text)
    except ValueError:
        return
    assert Quantity(str(found)) == found
    match = not text.startswith("-") and quantity_twin.GRAMMAR.fullmatch(
        text
    )  # the twin is of amounts from 0 on
    if match and (match[3] in quantity_twin.BINARY or len(match[3]) <= 4):
        exact = quantity_twin.exact(text)
        limit = quantity_twin.INT64_MAX
        for scale, told in ((0, found.value), (-3, found.milli_value)):
            wanted = quantity_twin.rounded_up(exact, scale)
            if abs(wanted) < limit:
                assert told() == wanted, (text, scale)


def label_selector(data: bytes) -> None:
    """A selector that was read matches something or nothing, and its words are those of the syntax."""
    text = text_of(data)
    try:
        matcher = parse_selector(text)
    except ValueError:
        return
    for labels in ({}, {"a": "b"}, {"app": "5", "x/y": ""}):
        assert matcher.matches(labels) in (True, False)
    key, _, rest = text.partition("\0")
    for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", rest):
        requirement_errors(key, operator, (rest,))
        requirement_error(key, operator, (rest,), node=len(text) % 2 == 0)


def field_selector(data: bytes) -> None:
    text = text_of(data)
    for kind, one in ((Pod, _pod()), (Node, Node())):
        with suppress(ApiError):
            test = predicate(kind, "", "", text)
            assert test is None or test(one) in (True, False)  # type: ignore[arg-type]


def duration(data: bytes) -> None:
    text = text_of(data)
    for reader in (parse_duration, parse_time_span):
        with suppress(InputError, ValueError):
            reader(text)


# ---- expressions and templates -----------------------------------------------------------------------------

DRIVER = "gpu.example.com"


@cache
def _device() -> Any:
    device = decode(
        {
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "A100"},
                "index": {"int": 3},
                "healthy": {"bool": True},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "40Gi"}},
        },
        Device,
    )
    return device_value(DRIVER, device, list_attributes=True)


def cel(data: bytes) -> None:
    compile_selector.cache_clear()
    selector = compile_selector(text_of(data), list_attributes=True)
    if isinstance(selector, CompileError):
        str(selector)
        return
    with suppress(SelectorError):
        selector.matches(_device())


def go_template(data: bytes) -> None:
    arguments = {"Index": 3, "Name": "n", "List": [1, "a"], "Map": {"a": 1}, "On": True, "Rate": 0.5}
    with suppress(InputError):
        parse_template(text_of(data), "f").render(arguments)


def scheduler_perf(data: bytes) -> None:
    with suppress(InputError):
        read_workloads(file_of(data, "performance-config.yaml"))


# ---- configuration, extenders, patches ---------------------------------------------------------------------


def configuration(data: bytes) -> None:
    with suppress(MoorageError):
        load_configuration(data, IN_TREE)


ANSWERS = (
    extender_wire.FILTER_RESULT,
    extender_wire.BINDING_RESULT,
    extender_wire.PREEMPTION_RESULT,
    extender_wire.HOST_PRIORITIES,
)


def extender(data: bytes) -> None:
    for answer in ANSWERS:
        with suppress(ExtenderError):
            found = extender_wire.decode(data, answer)
            assert found is None or isinstance(found, list if answer.is_list else answer.struct)


@cache
def _pod() -> Pod:
    pod = decode_object(
        {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}, "finalizers": ["x/y"]},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                "tolerations": [{"key": "k", "operator": "Exists"}],
            },
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
        }
    )
    assert isinstance(pod, Pod)
    return pod


def patch(data: bytes) -> None:
    """Each kind of patch, of the object and of its status; the object itself stays as it was."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    before = dump([_pod()])
    for kind in ("merge", "strategic", "json"):
        for subresource in ("", "status"):
            with suppress(ApiError):
                apply_patch(_pod(), value, kind, subresource)  # type: ignore[arg-type]
    assert dump([_pod()]) == before


def wire(data: bytes) -> None:
    """What an API server answers: objects, lists, events of a watch, statuses."""
    with suppress(ApiError):
        collection.decode_object_of(Pod, data)
    with suppress(ApiError):
        collection.decode_list(Node, data)
    with suppress(ApiError):
        collection.decode_bookmark(Pod, collection.decode_event(data))
    str(error_of(status_of(data, 500)))


def sweep(data: bytes) -> None:
    with suppress(InputError):
        read_sweep(file_of(data, "sweep.yaml"))


# ---- traces ------------------------------------------------------------------------------------------------


def trace(data: bytes) -> None:
    """The first byte chooses the format."""
    formats = sorted(FORMATS)
    name = formats[data[0] % len(formats)] if data else formats[0]
    suffix = "yaml" if name == "scenario" else "txt"
    with suppress(InputError):
        Timeline.read(file_of(data[1:], f"one.{suffix}"), format=name)


TARGETS: dict[str, Target] = {
    one.__name__: one
    for one in (
        decode_json,
        load_json,
        load_yaml,
        yaml,
        archive,
        quantity,
        label_selector,
        field_selector,
        duration,
        cel,
        go_template,
        scheduler_perf,
        configuration,
        extender,
        patch,
        wire,
        sweep,
        trace,
        native_plugin,
    )
}
