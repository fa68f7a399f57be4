"""What a real API server accepts and refuses, and with which texts.

``data/api_server.jsonl.gz`` has creations and updates that kube-apiserver v1.36.2 was asked to try (dry runs,
with its default plugins and gates): for each the objects that it had, the object, what was changed of a valid
one, and as much of the text of its refusal as moorage gives, "" where the server accepts it. It is a share of
2,880 such answers: those that moorage refuses with the server's text, and a part of those that are accepted.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.admission import as_applied, names
from tests.conftest import NIGHTLY

from moorage import expanded, load

with gzip.open(Path(__file__).parent / "data/api_server.jsonl.gz", "rt") as lines:
    ANSWERS = [json.loads(line) for line in lines]
OTHERWISE = {"validate-v-0184-Pod": " spec.runtimeClassName"}
"""By answer, the field that is told of: fields come first here, and at a server a RuntimeClass's look-up."""
GENERATED = re.compile(r'"gen-\w+"')


def refusal(setup: list[Any], document: dict[str, Any], is_whole: bool = True) -> str:
    """The text of a refusal, "" for none; of a whole object all fields count, those that it lacks, too."""
    is_changed = [is_whole and names(obj) == names(document) for obj in setup]
    before = [as_applied(obj) if changed else obj for obj, changed in zip(setup, is_changed, strict=True)]
    cluster = expanded(load(before, document, refused="ignore"))
    texts = [each.message for each in (*cluster.refused_objects, *cluster.refused)]
    return "; ".join(GENERATED.sub('"gen-GENERATED"', text) for text in texts)


@pytest.mark.parametrize("families", [("validate",), ("update",), ("quota", "range", "both")])
def test_objects_are_refused_with_the_texts_of_the_server(families: tuple[str, ...]) -> None:
    answers = [each for each in ANSWERS if each["name"].startswith(families)][:: 1 if NIGHTLY else 2]
    told = {
        each["name"]: refusal(each["setup"], each["object"], "[apply]" not in each["note"])
        for each in answers
    }
    differing = [each for each in answers if told[each["name"]] != each["refused"]]
    known = [each for each in answers if each["name"] in OTHERWISE]
    others = [each for each in differing if each not in known]
    assert [(each["name"], each["note"], told[each["name"]]) for each in others] == []
    assert {each["name"]: told[each["name"]].split(":")[1] for each in known} == {
        each["name"]: OTHERWISE[each["name"]] for each in known
    }
    assert sum(bool(each["refused"]) for each in answers) > (60 if NIGHTLY else 30)


SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
TYPE = "securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"


@pytest.mark.parametrize(
    ("annotation", "profile", "error"),
    [
        ("unconfined", {"type": "Unconfined"}, ""),
        ("docker/default", {"type": "RuntimeDefault"}, ""),
        ("localhost/x", {"type": "Localhost", "localhostProfile": "x"}, ""),
        ("unconfined", None, ""),
        ("unconfined", {"type": "RuntimeDefault"}, f"spec.{TYPE}"),
        ("localhost/x", {"type": "Unconfined"}, f"spec.{TYPE}"),
        (
            "localhost/y",
            {"type": "Localhost", "localhostProfile": "x"},
            "spec.securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation "
            "and field must match",
        ),
    ],
)
def test_annotation_and_field_of_seccomp_match(annotation: str, profile: Any, error: str) -> None:
    spec = {"containers": [{"name": "c", "image": "a:1"}], "securityContext": {"seccompProfile": profile}}
    meta = {"name": "p", "annotations": {SECCOMP: annotation}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert refusal([node], pod) == (f'Pod "p" is invalid: {error}' if error else "")
    labels = {"labels": {"app": "web"}, "annotations": {SECCOMP: annotation}}
    template = {"metadata": labels, "spec": spec}
    workload: Any = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}}
    workload["spec"] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    expected = f'Deployment.apps "p" is invalid: spec.template.{error}' if error else ""
    assert refusal([node], workload) == expected
    plain = {key: value for key, value in meta.items() if key != "annotations"}
    stored = pod | {"metadata": plain | {"uid": "u", "resourceVersion": "1", "namespace": "default"}}
    assert refusal([node, stored], pod) == ""  # the server compares them in new pods alone


def test_a_security_context_is_shown_with_all_fields() -> None:
    context = {"privileged": True, "allowPrivilegeEscalation": False, "seLinuxOptions": {"level": "s0"}}
    spec = {"containers": [{"name": "c", "image": "a:1", "securityContext": context}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert refusal([node], pod) == (
        'Pod "p" is invalid: spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privile'
        'ged":true,"SELinuxOptions":{"User":"","Role":"","Type":"","Level":"s0"},"WindowsOptions":null,"RunAsUser":'
        'null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,'
        '"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilege'
        "Escalation` to false and `privileged` to true"
    )
