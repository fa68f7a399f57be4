"""``moorage compare "kubernetes A" "kubernetes B"``: what an upgrade changes, and which behaviour does it."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.cli.make import node, pod
from tests.doors.cli import Side, sides_of_upgrade
from tests.house.source import ROOT

from moorage.cli import main
from moorage.releases import RELEASES

GANG = str(ROOT / "tests/data/gang.yaml")
GIB = 1 << 30
WEB = {"matchLabels": {"app": "web"}}


def host(name: str, images: dict[str, int] | None = None, cpu: str = "4") -> dict[str, Any]:
    """A node of a zone of its own, with images of these sizes."""
    listed = [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()]
    made = node(name, f"z-{name}")
    made["status"] = {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "9"}, "images": listed}
    return made


def container(name: str, cpu: str, image: str = "i") -> dict[str, Any]:
    return {"name": name, "image": image, "resources": {"requests": {"cpu": cpu}}}


def resized(name: str, spec: dict[str, str], status: dict[str, str], place: str) -> dict[str, Any]:
    """A running pod whose containers are being resized."""
    made = pod(name, nodeName=place, containers=[container(*one) for one in spec.items()])
    about = {"image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    made["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": one, "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}} | about
            for one, cpu in status.items()
        ],
    }
    return made


def apart(name: str, cpu: str = "1") -> dict[str, Any]:
    """A pod that wants no other of its app, in namespaces other than those of team b, on its node."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": WEB, "namespaceSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, containers=[container("c", cpu)], affinity=affinity)


OTHER = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "b"}}}
THEIRS = pod("theirs", "other", nodeName="a", containers=[container("c", "0")])
THEIRS["metadata"]["labels"] = {"app": "web"}
RESIZED = resized("resized", {"x": "2", "y": "1"}, {"x": "1", "y": "2"}, "a")
"""Its requests are 4 by container, and 3 as a whole."""


def with_image_volume(name: str) -> dict[str, Any]:
    volume = {"name": "model", "image": {"reference": "model"}}
    return pod(name, volumes=[volume], containers=[container("c", "1")])


def disk(name: str, size: str, on: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    more = {"local": {"path": "/d"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec | more,
    }


LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
CLAIMING = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "d"},
    "spec": {"preventPodSchedulingIfMissing": True},
}
OF_DRIVER = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "csi": {"driver": "d", "volumeHandle": "h"},
        "claimRef": {"namespace": "default", "name": "c", "kind": "PersistentVolumeClaim", "uid": "u"},
    },
}
BOUND_CLAIM = CLAIM | {
    "metadata": CLAIM["metadata"] | {"uid": "u", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    "spec": CLAIM["spec"] | {"volumeName": "v"},
    "status": {"phase": "Bound"},
}

CASES: dict[str, tuple[list[dict[str, Any]], tuple[str, str], list[str]]] = {
    "resizes_by_sums": (
        [host("a"), RESIZED, pod("p")],
        ("1.36", "1.37"),
        ["default/p", "unschedulable", "a", "now fits"],
    ),
    "namespaces_by_value": (
        [host("a"), OTHER, THEIRS, apart("p")],
        ("1.36", "1.37"),
        ["default/p", "unschedulable", "a", "now fits"],
    ),
    "resizes_by_sums with namespaces_by_value": (
        [host("a"), OTHER, THEIRS, RESIZED, apart("p")],
        ("1.36", "1.37"),
        ["default/p", "unschedulable", "a", "now fits"],
    ),
    "image_volumes": (
        [host("a"), host("b", {"model:latest": GIB}), with_image_volume("p")],
        ("1.35", "1.36"),
        ["default/p", "a", "b", "gets another node"],
    ),
    "StorageCapacityScoring": (
        [host("a"), host("b"), LATE, CLAIM, disk("v1", "2Gi", "a"), disk("v2", "10Gi", "b"), CLAIMING],
        ("1.36", "1.37"),
        ["default/p", "a", "b", "gets another node"],
    ),
    "VolumeLimitScaling": (
        [host("a"), LATE, BOUND_CLAIM, OF_DRIVER, DRIVER, CLAIMING],
        ("1.36", "1.37"),
        ["default/p", "a", "unschedulable", "no longer fits"],
    ),
}
"""By cause: the objects, the releases, and what becomes of the pod."""


def written(path: Path, items: list[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


def releases(before: str, after: str) -> list[str]:
    return [f"kubernetes {before}", f"kubernetes {after}"]


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["compare", *arguments, "-o", "csv"]) == 0
    return list(csv.DictReader(StringIO(capsys.readouterr().out)))


@pytest.mark.parametrize("cause", CASES)
def test_a_difference_names_the_behaviour(
    cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, versions, expected = CASES[cause]
    file = written(tmp_path / "c.json", items)
    (row,) = rows(capsys, *releases(*versions), "-f", file)
    assert [*row.values()][:4] == expected
    assert row["because_of"] == cause
    back = {"now fits": "no longer fits", "no longer fits": "now fits"}
    (row,) = rows(capsys, *releases(*reversed(versions)), "-f", file)
    change = back.get(expected[3], expected[3])
    assert [*row.values()][:4] == [expected[0], expected[2], expected[1], change]
    same = [cause] if " with " not in cause else ["resizes_by_sums or namespaces_by_value"]
    assert [row["because_of"]] == same
    assert bool(row["reason"]) is (change != "gets another node")


UNSPREAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]}]
"""
"""With default constraints pods are not batched."""


def test_equal_pods_that_are_batched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """v1.37 scores the node chosen last again, with the other scores as they were."""
    nodes = [host("a", {"i:latest": 600 << 20}, "6"), host("b", {"i:latest": 300 << 20}, "4")]
    pods = [pod(name, containers=[container("c", "500m")]) for name in ("p", "q")]
    (tmp_path / "config.yaml").write_text(UNSPREAD)
    file = written(tmp_path / "c.json", [*nodes, *pods])
    (row,) = rows(capsys, *releases("1.36", "1.37"), "-f", file, "--config", str(tmp_path / "config.yaml"))
    assert [*row.values()][:5] == [
        "default/q",
        "a",
        "b",
        "gets another node",
        "last_node_is_rescored",
    ]


def test_pods_of_several_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two pods of a violate budgets in v1.36. In v1.37 it is one: the first counts against the first of its
    budgets alone. Two pods of b violate one in both, and would be the better victims."""

    def budget(name: str, allowed: int, **labels: str) -> dict[str, Any]:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"selector": {"matchLabels": labels}, "minAvailable": 0},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
        }

    def victim(name: str, place: str, priority: int, **labels: str) -> dict[str, Any]:
        made = pod(name, nodeName=place, priority=priority, containers=[container("c", "1")])
        made["metadata"]["labels"] = labels
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        return made

    items = [
        *(host(name, cpu="2") for name in "ab"),
        *(budget("first", 0, x="1"), budget("second", 1, y="1"), budget("third", 0, z="1")),
        *(victim("v1", "a", 9, x="1", y="1"), victim("v2", "a", 5, y="1")),
        *(victim("w1", "b", 5, z="1"), victim("w2", "b", 5, z="1")),
        pod("large", priority=100, containers=[container("c", "2")]),
    ]
    file = written(tmp_path / "c.json", items)
    found = rows(capsys, *releases("1.36", "1.37"), "-f", file)
    changes = {row["pod"]: (row["change"], row["because_of"]) for row in found}
    because = "budgets_stop_at_violation"
    assert changes == {
        "default/large": ("gets another node", because),
        "default/v1": ("no longer fits", because),
        "default/v2": ("no longer fits", because),
        "default/w1": ("now fits", because),
        "default/w2": ("now fits", because),
    }


def test_only_pending_pods_are_placed_unless_all_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = with_image_volume("q")
    bound["spec"]["nodeName"] = "a"
    file = written(tmp_path / "c.json", [host("a"), host("b", {"model:latest": GIB}), bound])
    command = ["compare", *releases("1.35", "1.37"), "-f", file]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("every pod is in the same place\nPending pods were placed; bound pods stayed, ")
    assert main([*command, "--from-scratch"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 pod is not in the same place\nAll pods were placed anew, by priority and age; ")
    assert "\ngets another node  1     image_volumes\n" in out


@pytest.mark.parametrize(
    ("options", "tie_break"), [([], "go-heap"), (["--tie-break", "random"], "random")], ids=["", "random"]
)
def test_ties_make_no_difference(
    options: list[str], tie_break: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """v1.34 chooses among equal nodes by the seed, v1.35 does not."""
    file = written(tmp_path / "c.json", [host(name) for name in "abcdefgh"] + [pod("p")])
    places = set()
    for version in ("1.34", "1.35"):
        for seed in "0123":
            seeded = ["--kubernetes-version", version, "--seed", seed]
            assert main(["simulate", "-f", file, "-o", "csv", *seeded]) == 0
            places.add(capsys.readouterr().out)
    assert len(places) > 1
    for pair in (("1.34", "1.35"), ("1.35", "1.34")):
        for seed in "0123":
            command = ["compare", *releases(*pair), "-f", file, "--seed", seed, *options]
            assert main([*command, "-o", "json"]) == 0
            made = json.loads(capsys.readouterr().out)
            assert made["differences"] == []
            assert made["releases"]["tieBreak"] == tie_break


def test_a_configuration_is_read_as_each_release_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its plugins are those of the release, and its gates too."""
    items, versions, _ = CASES["StorageCapacityScoring"]
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "config.yaml").write_text(head + "profiles: [{schedulerName: default-scheduler}]\n")
    file = written(tmp_path / "c.json", items)
    config = ["--config", str(tmp_path / "config.yaml")]
    (row,) = rows(capsys, *releases(*versions), "-f", file, *config)
    assert row["because_of"] == "StorageCapacityScoring"
    gates = ["--feature-gates", "StorageCapacityScoring=true"]
    assert rows(capsys, *releases(*versions), "-f", file, *config, *gates) == []


def test_a_document_has_the_groups_and_what_the_behaviours_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, versions, _ = CASES["resizes_by_sums with namespaces_by_value"]
    file = written(tmp_path / "c.json", [*items, host("b"), resized("r2", {"c": "4"}, {"c": "4"}, "b")])
    assert main(["compare", *releases(*versions), "-f", file, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (row,) = made["differences"]
    assert row["because"] == [["resizes_by_sums", "namespaces_by_value"]]
    assert row["isPinned"]
    assert row["change"] == "now fits"
    assert row["reason"].startswith("0/2 nodes are available: ")
    told = made["releases"]
    assert told["groups"] == [
        {"change": "now fits", "because": "resizes_by_sums with namespaces_by_value", "pods": 1}
    ]
    assert [one["name"] for one in told["behaviours"]] == ["resizes_by_sums", "namespaces_by_value"]
    assert [one["values"] for one in told["behaviours"]] == [["no", "yes"], ["yes", "no"]]
    assert all(one["text"] and not one["isGate"] for one in told["behaviours"])


def test_forms_of_two_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items, versions, _ = CASES["VolumeLimitScaling"]
    command = ["compare", *releases(*versions), "-f", written(tmp_path / "c.json", items)]
    assert main([*command, "-o", "markdown"]) == 0
    out = capsys.readouterr().out
    assert "| no longer fits | 1 | VolumeLimitScaling |" in out
    assert main([*command, "-o", "html"]) == 0
    out = capsys.readouterr().out
    assert "no longer fits" in out
    assert "VolumeLimitScaling" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["kubernetes 1.33", "kubernetes 1.37"],
            "'kubernetes 1.33': not a release: give kubernetes and",
        ),
        (["kubernetes", "kubernetes 1.37"], "'kubernetes': not a release: give kubernetes and"),
        (
            ["kubernetes 1.36", "kubernetes 1.37 x"],
            "--feature-gates: kubernetes 1.37: x: must be true or false, not ''",
        ),
        (
            ["kubernetes 1.36", "kubernetes 1.37 x y"],
            "'kubernetes 1.37 x y': not a release: give kubernetes and",
        ),
        (["kubernetes 1.37"], "give two releases, as 'kubernetes 1.36' 'kubernetes 1.37', and not 1"),
        (["as-is", "kubernetes 1.37"], "'as-is': not a release: give two, as 'kubernetes"),
        (
            ["kuberntes 1.35", "kubernetes 1.37"],
            "'kuberntes 1.35': not a release: give two, as "
            "'kubernetes 1.36' 'kubernetes 1.37'; nearest: kubernetes 1.37",
        ),
        (
            ["kuberntes 1.35", "kuberntes 1.37"],
            "kuberntes 1.35: no such file, and not as-is, a change such as",
        ),
        (["kubernetes 1.37", "kubernetes v1.37.2"], "'kubernetes v1.37.2': both are release 1.37: give two"),
        (
            ["kubernetes 1.35", "kubernetes 1.36", "kubernetes 1.37"],
            "give two releases, as 'kubernetes 1.36' 'kubernetes 1.37', and not 3",
        ),
        (
            [*releases("1.36", "1.37"), "--kubernetes-version", "1.36"],
            "the alternatives name the releases: leave out --kubernetes-version",
        ),
        (
            [*releases("1.35", "1.37"), "--feature-gates", "DRAFractionalCapacityRange=true"],
            "--feature-gates: kubernetes 1.35: unrecognized feature gate: DRAFractionalCapacityRange",
        ),
        ([*releases("1.36", "1.37"), "--config", "/nowhere"], "/nowhere: no such file"),
    ],
)
def test_bad_input_about_releases(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments, "--synthetic", "nodes=1,pods=1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("version", list(RELEASES)[:-1])
def test_what_differs_is_what_simulate_says_of_each_release(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same choice among nodes of equal score."""
    common = ["--synthetic", "nodes=5,pods=60,zones=2", "--tie-break", "go-heap", "-o", "csv"]
    ends: list[dict[str, str]] = []
    for one in (version, "1.37"):
        assert main(["simulate", *common, "--kubernetes-version", one]) == 0
        listed = csv.DictReader(StringIO(capsys.readouterr().out))
        ends.append({f"{row['namespace']}/{row['pod']}": row["node"] or row["status"] for row in listed})
    before, after = ends
    expected = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    found = rows(capsys, *releases(version, "1.37"), *common[:-2])
    assert {row["pod"]: tuple([*row.values()][1:3]) for row in found} == expected
    assert bool(expected) is (version != "1.36")
    assert {row["because_of"] for row in found} == ({"balance_by_change"} if expected else set())


# ---- moorage check --upgrade-from --------------------------------------------------------------------------


def test_the_gate_of_an_upgrade_fails_for_what_the_release_changes_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = pod("large", containers=[container("c", "99")])
    fits = [host("a"), LATE, BOUND_CLAIM, OF_DRIVER, DRIVER, large]
    file = written(tmp_path / "c.json", [*fits, CLAIMING])
    gate = ["check", "-f", file, "--kubernetes-version", "1.37", "--upgrade-from", "1.36"]
    assert main([*gate, "--new-only", "-o", "json"]) == 1
    found = {one["names"][0]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert {name: (one["counts"], one["because"]) for name, one in found.items()} == {
        "p": (True, ["VolumeLimitScaling"]),
        "large": (False, []),
    }
    assert main([*gate, "--new-only"]) == 1
    assert "  yes                VolumeLimitScaling  " in capsys.readouterr().out
    assert main([*gate, "-o", "github"]) == 1
    assert " Because of VolumeLimitScaling." in capsys.readouterr().out
    written(tmp_path / "c.json", fits)
    assert main(gate) == 1
    assert main([*gate, "--new-only"]) == 0


def test_pods_that_the_change_leaves_without_a_node_in_both_releases_fail_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    runs = pod("r-1", nodeName="a")
    runs["metadata"]["ownerReferences"] = [owner]
    file = written(tmp_path / "c.json", [host("a"), runs])
    gate = ["check", "-f", file, "--kubernetes-version", "1.37", "--upgrade-from", "1.36", "--drain", "a"]
    assert main([*gate, "--new-only"]) == 1
    assert "yes" in capsys.readouterr().out


def test_both_releases_decide_after_the_same_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pod has to move to the node where a resize is in progress, which v1.36 counts higher."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    moves = pod("r-1", nodeName="b")
    moves["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "r"}}
    spec = {"containers": moves["spec"]["containers"]}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "default", "uid": "r"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "r"}},
            "template": {"metadata": {"labels": {"app": "r"}}, "spec": spec},
        },
    }
    file = written(tmp_path / "c.json", [host("a"), host("b"), RESIZED, replicas, moves])
    gate = ["check", "-f", file, "--drain", "b"]
    assert main([*gate, "--kubernetes-version", "1.37", "--upgrade-from", "1.36"]) == 0
    capsys.readouterr()
    command = [*gate, "--kubernetes-version", "1.36", "--upgrade-from", "1.37", "-o", "json"]
    assert main(command) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["because"] == ["resizes_by_sums"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--upgrade-from", "1.33"], "Invalid value for '--upgrade-from': '1.33' is not one of"),
        (
            ["--upgrade-from", "1.36", "--kubernetes-version", "1.36"],
            "both releases are 1.36 (--kubernetes-version); name the later one with --kubernetes-version",
        ),
        (
            ["--upgrade-from", "1.37"],
            "Kubernetes 1.36 decides (the input does not say its release), which is before 1.37; ",
        ),
        (
            ["--upgrade-from", "1.35", "--feature-gates", "DRAListTypeAttribute=true"],
            "--feature-gates: kubernetes 1.36: unrecognized feature gate: "
            "DRAListTypeAttribute; nearest: DRAListTypeAttributes",
        ),
    ],
)
def test_bad_input_about_an_upgrade(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--synthetic", "nodes=1,pods=1", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


@pytest.mark.parametrize(
    "before", ["kubernetes 1.36", "Kubernetes 1.37", "kubernetes 1.37 GenericWorkload=false"]
)
def test_a_side_has_gates_of_its_own(before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = pod("a", containers=[container("c", "1")], schedulingGroup={"podGroupName": "g"})
    file = written(tmp_path / "c.json", [host("a"), GROUP, member])
    after = "kubernetes 1.37 GenericWorkload=true"
    assert main(["compare", before, after, "-f", file, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["alternatives"]] == [before.replace("K", "k"), after]
    (one,) = found["differences"]
    assert (one["places"], one["because"]) == (["a", "waiting"], [["GenericWorkload"]])


def test_sides_that_decide_alike_have_their_own_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "c.json", [host("a")])
    sides = ["kubernetes 1.37", "kubernetes 1.37 GenericWorkload=false"]
    assert main(["compare", *sides, "-f", file, "-o", "json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["alternatives"]] == sides


@pytest.mark.parametrize("before", ["1.35", "1.36"])
def test_a_gate_that_the_earlier_release_does_not_have_counts_for_the_later_one_alone(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two pods of the gang have a node as long as groups are ignored. Both releases have the other gate."""
    gates = "GenericWorkload=true,VolumeLimitScaling=false"
    words = ["check", "-f", GANG, "--upgrade-from", before, "--kubernetes-version", "1.37"]
    assert main([*words, "--new-only", "--feature-gates", gates, "-o", "json"]) == 1
    out, err = capsys.readouterr()
    lost = [one for one in json.loads(out)["findings"] if one["counts"]]
    assert {name for one in lost for name in one["names"]} == {"train-0", "train-1"}
    assert {name for one in lost for name in one["because"]} == {"GenericWorkload"}
    assert [line for line in err.splitlines() if "decides without" in line] == [
        f"warning: {without(before, 'GenericWorkload=true')}"
    ]


IN_TURN = "CompositePodGroup=true,TopologyAwareWorkloadScheduling=true,GenericWorkload=true"
"""Each needs those after it."""


def without(before: str, gate: str) -> str:
    return f"Kubernetes {before} decides without {gate}: moorage cannot set this gate for that release."


@pytest.mark.parametrize(
    ("before", "gates", "kept", "dropped"),
    [
        ("1.36", "WorkloadWithJob=true,GenericWorkload=true", "", [0, 1]),
        ("1.34", "AllBeta=false,VolumeLimitScaling=false", "", [0]),
        ("1.36", "GenericWorkload=false", "GenericWorkload=false", []),
        ("1.36", "CompositePodGroup=false", "", []),
        ("1.37", IN_TURN, IN_TURN, []),
    ],
)
def test_the_earlier_release_decides_with_the_gates_that_it_accepts(
    before: str, gates: str, kept: str, dropped: list[int]
) -> None:
    first, last, warnings = sides_of_upgrade(before, "1.37", gates)
    assert (first, last) == (Side(before, kept), Side("1.37", gates))
    assert warnings == [without(before, gates.split(",")[at]) for at in dropped]
