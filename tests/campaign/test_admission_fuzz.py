"""The fuzzer of admission, beside a server that answers as moorage does."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.errors import InputError
from tests.campaign import admission_fuzz
from tests.campaign.admission_fuzz import Changes, Server, base_objects, namespaces_of, run

Json = dict[str, Any]
SPACES = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    for name in ("default", *namespaces_of(base_objects()))
]


def answer(obj: Json) -> Json:
    """The answer of a server that is moorage."""
    try:
        cluster = mo.load(SPACES, obj)
        refused = [
            *(one.message for one in cluster.refused_objects),
            *(one.message for one in cluster.refused),
        ]
    except InputError as error:
        refused = [str(error)]
    code = 200 if not refused else 422 if "is invalid" in refused[0] else 400
    return {"code": code, "reason": "Invalid" if code == 422 else "BadRequest", "message": "".join(refused)}


def test_a_seed_makes_the_same_objects() -> None:
    bases = base_objects()
    first, second, other = (Changes(bases, seed) for seed in (1, 1, 2))
    objects = [first.object() for _ in range(50)]
    assert objects == [second.object() for _ in range(50)]
    assert objects != [other.object() for _ in range(50)]
    assert bases == base_objects()  # which nothing has changed


def test_about_half_are_refused_and_differences_are_vectors() -> None:
    """A server that accepts everything differs by what moorage refuses."""
    report = run(Changes(base_objects(), 3), answer, SPACES, lambda number: number >= 120)
    assert report.objects == 120
    assert 0.3 < report.refused / report.objects < 0.7
    generous = run(Changes(base_objects(), 3), lambda _: {"code": 201}, SPACES, lambda number: number >= 40)
    assert generous.refused == 0
    assert generous.differences
    vector = generous.differences[0]
    assert {"name", "family", "setup", "request", "result", "difference"} <= vector.keys()
    assert f"{len(generous.differences)} differences" in generous.text()


def test_an_error_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_vector: Json, _most: int) -> None:
        raise TypeError("unhashable type")

    monkeypatch.setattr(admission_fuzz, "check_admission", fail)
    report = run(Changes(base_objects(), 1), answer, SPACES, lambda number: number >= 1)
    assert [vector["difference"] for vector in report.differences] == ["TypeError: unhashable type"]


def test_a_run_needs_servers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MOORAGE_SERVERS", raising=False)
    with pytest.raises(SystemExit):
        admission_fuzz.main(["--seed", "1"])
    assert "make fuzz-admission builds them" in capsys.readouterr().err


def test_the_valid_objects_are_valid() -> None:
    refused = {f"{obj['kind']} {obj['metadata']['name']}": answer(obj)["message"] for obj in base_objects()}
    assert {name: text for name, text in refused.items() if text} == {}


def test_a_server_that_is_not_there_has_no_answer() -> None:
    result = Server(1).create(base_objects()[0])
    assert result["code"] == 0


@pytest.mark.parametrize("namespace", ["a/b", "", None, "ä", 3])
def test_a_namespace_that_cannot_stand_in_a_path(namespace: Any) -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}}
    assert Server(1).create(obj)["code"] == 0
