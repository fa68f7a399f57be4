"""Expressions, and what Kubernetes says of each (k8s.io/dynamic-resource-allocation/cel, v0.36.2).

A line of upstream.jsonl.gz is an expression and its answer: ``true`` or ``false`` for a device; of another
result, which no selector may have, the value without a device; ``ERR`` and the text of an evaluation that
fails; ``BAD`` and the text of an expression that does not compile.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.devices.make import DRIVER
from tests.doors.engine import FIELDS, CompiledSelector, SelectorError, compile_selector, device_value
from tests.doors.kube import DEVICE as DEVICE_TYPE
from tests.doors.kube import (
    CelType,
    Duration,
    Evaluation,
    EvaluationError,
    MapValue,
    Optional,
    ResultTypeError,
    Timestamp,
    TypeChecker,
    Uint,
    begin_work,
    compile_expression,
    library,
    parse,
    type_of_value,
)

from .test_selectors import DEVICE

PATH = Path(__file__).with_name("upstream.jsonl.gz")
LINES = [json.loads(line) for line in gzip.decompress(PATH.read_bytes()).decode().rstrip("\n").split("\n")]
PARTS = 16


def shown(value: Any) -> str:
    """A value as the file has it."""
    if isinstance(value, Optional):
        return f"opt {shown(value.value)}" if value.is_there else "none"
    if isinstance(value, MapValue):
        return f"{{{','.join(sorted(f'{shown(key)}:{shown(one)}' for key, one in value.items()))}}}"
    if isinstance(value, tuple):
        return f"[{','.join(map(shown, value))}]"
    if isinstance(value, bytes | CelType):
        return f"b{value.hex()}" if isinstance(value, bytes) else f"type {value.name}"
    if isinstance(value, Timestamp):
        return f"T{value.nanoseconds // 10**9}.{value.nanoseconds % 10**9:09d}"
    if isinstance(value, Duration | Uint):
        return f"D{value.nanoseconds}" if isinstance(value, Duration) else f"{int(value)}u"
    if isinstance(value, float):
        return f"d{struct.pack('>d', value).hex()}"
    if value is None or isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    return f"<{type_of_value(value).name}>"


def value_without_device(text: str) -> str:
    root = parse(text)
    TypeChecker(text, library().functions, {"device": DEVICE_TYPE}, {DEVICE_TYPE.name: FIELDS.get}.get).check(
        root
    )
    begin_work()
    try:
        evaluate = compile_expression(root)
    except EvaluationError as error:
        return f"BAD {error}"
    try:
        return shown(evaluate(Evaluation({})))
    except EvaluationError as error:
        return f"ERR {error}"


def answer(text: str) -> str:
    found = compile_selector(text)
    if isinstance(found, ResultTypeError):
        return value_without_device(text)
    if not isinstance(found, CompiledSelector):
        return f"BAD {found}"
    try:
        return shown(found.matches(device_value(DRIVER, DEVICE)))
    except SelectorError as error:
        return f"ERR {error}"


def differences(lines: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    for text, expected in lines:
        found = answer(text)
        if found != expected:
            yield text, expected, found


@pytest.mark.parametrize("part", range(PARTS))
def test_expressions_have_the_answer_of_upstream(part: int) -> None:
    assert not list(differences(LINES[part::PARTS]))


def test_there_are_expressions_of_each_kind() -> None:
    answers = [found for _, found in LINES]
    assert len(LINES) > 4000
    for kind in (
        "true",
        "false",
        "ERR ",
        "BAD program",
        "BAD compilation",
        "opt ",
        '"',
        "[",
        "{",
        "D",
        "T",
        "d",
    ):
        assert any(one.startswith(kind) for one in answers), kind
