"""Rules of manifests, judged by what a real API server has answered.

``data/manifests.jsonl.gz`` has creations that kube-apiserver v1.36.2 was asked to try (dry runs, with its
default plugins and gates): for each the object, what was changed of a valid one, and the text of its refusal,
which is empty where the server accepts it. It is a share of 2,135 such answers: all that these rules refuse
with the server's whole text, and each third that the server accepts.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube import check_manifest, schedule_error, zone_error

from moorage.errors import InputError
from moorage.objects import decode_object, validate

with gzip.open(Path(__file__).parent / "data/manifests.jsonl.gz", "rt") as lines:
    ANSWERS = [json.loads(line) for line in lines]


def refusal(document: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    """The text of a refusal, "" for none."""
    try:
        obj = decode_object(document)
        validate(obj)
        check_manifest(obj, None if before is None else decode_object(before))
    except InputError as error:
        return f"{error.path}: {error.message}" if error.path else error.message
    return ""


def test_manifests_are_refused_with_the_texts_of_the_server() -> None:
    differing = {one["name"]: one["note"] for one in ANSWERS if refusal(one["object"]) != one["refused"]}
    assert differing == {}
    assert sum(bool(one["refused"]) for one in ANSWERS) > 150


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template} | spec,
    }


MANY = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"completionMode": "Indexed"}, ""),
        (MANY | {"maxFailedIndexes": 10_000, "parallelism": 10_000}, ""),
        (MANY, "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"),
        (
            MANY | {"maxFailedIndexes": 1, "parallelism": 10_001},
            "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions "
            "are above 100000 and used with backoff limit per index",
        ),
    ],
)
def test_jobs_of_many_indexes(spec: dict[str, Any], text: str) -> None:
    assert refusal(job(**spec)) == text


def test_what_was_wrong_before_is_no_fault_of_the_change() -> None:
    before = job(completionMode="NonIndexed", maxFailedIndexes=1, backoffLimitPerIndex=1)
    assert refusal(before)
    assert refusal(before | {"metadata": {"name": "j", "labels": {"a": "b"}}}, before) == ""


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("*/5 0-23/2 1,15 JAN-mar mon", ""),
        ("? * * * ?", ""),
        (",", "expected exactly 5 fields, found 1: [,]"),
        (", * * * *", ""),
        ("@every 1h30m", ""),
        ("@hourly", ""),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 1-9", "end of range (9) above maximum (6): 1-9"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing "
            '"99999999999999999999": value out of range',
        ),
        ("* * * * -1", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
    ],
)
def test_schedules(schedule: str, error: str) -> None:
    assert schedule_error(schedule) == error


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("UTC", ""),
        ("Europe/Berlin", ""),
        ("../x", "unknown time zone ../x"),
        ("Mars/Base", "unknown time zone Mars/Base"),
    ],
)
def test_time_zones(name: str, error: str) -> None:
    assert zone_error(name) == error
