"""The fuzzer of admission, beside a server that answers as moorage does."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.errors import InputError
from tests.campaign import admission_fuzz
from tests.campaign.admission_fuzz import Changes, base_objects, namespaces_of, run
from tests.conformance.admission import wrong_rules
from tests.live.kit.api_answers import ApiAnswers

Json = dict[str, Any]
SPACES = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    for name in ("default", *namespaces_of(base_objects()))
]


def answer(request: Json) -> Json:
    """The answer of a server that is moorage."""
    try:
        cluster = mo.load(SPACES, request["object"])
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
    kind = report.differences[0]["request"]["object"]["kind"]
    assert report.unknown(set()) == [f"fails {kind} TypeError in fail"]
    assert report.unknown({f"fails {kind} TypeError in fail"}) == []


WITHOUT_IMAGE: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
IMAGE = "Pod spec.containers[].image FieldValueRequired"
CAUSES = [{"reason": "FieldValueInvalid", "field": "spec.containers[0].ports[a]"}]


@pytest.mark.parametrize(
    ("kind", "obj", "result", "rules"),
    [
        ("Pod", WITHOUT_IMAGE, {"code": 201}, [f"refuses {IMAGE}"]),
        (
            "PodTemplate",
            {"metadata": {"name": "p"}, "template": WITHOUT_IMAGE},
            {"code": 201},
            [f"refuses {IMAGE}"],
        ),
        (
            "Pod",
            WITHOUT_IMAGE,
            {"code": 422, "causes": CAUSES},
            ["lacks Pod spec.containers[].ports[] FieldValueInvalid", f"adds {IMAGE}"],
        ),
        (
            "ConfigMap",
            {"metadata": {"name": "c"}},
            {"code": 403, "message": 'configmaps "c" is forbidden: no'},
            ["accepts ConfigMap configmaps … is forbidden: no 403"],
        ),
    ],
)
def test_the_rules_that_differ(kind: str, obj: Json, result: Json, rules: list[str]) -> None:
    request = {"verb": "create", "object": obj | {"kind": kind, "apiVersion": "v1"}}
    vector = {"family": "validate", "note": "", "setup": [], "request": request, "result": result}
    assert [*wrong_rules(vector)] == rules


def test_a_run_needs_servers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MOORAGE_SERVERS", raising=False)
    with pytest.raises(SystemExit):
        admission_fuzz.main(["--seed", "1"])
    assert "make fuzz-admission builds them" in capsys.readouterr().err


def test_the_valid_objects_are_valid() -> None:
    refused = {
        f"{obj['kind']} {obj['metadata']['name']}": answer({"object": obj})["message"]
        for obj in base_objects()
    }
    assert {name: text for name, text in refused.items() if text} == {}


def test_a_server_that_is_not_there_has_no_answer() -> None:
    result = ApiAnswers(1).answer({"verb": "create", "object": base_objects()[0]})
    assert result["code"] == 0


@pytest.mark.parametrize("namespace", ["a/b", "", None, "ä", 3])
def test_a_namespace_that_cannot_stand_in_a_path(namespace: Any) -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}}
    assert ApiAnswers(1).answer({"verb": "create", "object": obj})["code"] == 0
