"""`deploy/` agrees with the code: options, ports, paths, names, rights and metrics."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.doors.cli import GAUGES, extender, read_questions, scheduler, twin
from tests.doors.engine import read_configuration
from tests.doors.kube import plural
from tests.doors.live import LiveScheduler, kinds_of_clusters
from tests.house.source import ROOT
from tests.serve.test_live_scheduler import Clock, asking, machine, until
from tests.store.api.conftest import client as client
from tests.store.api.conftest import server as server
from tests.store.api.conftest import slept as slept
from tests.store.api.conftest import store as store
from tests.store.api.wire_server import LIMIT, WireServer

from building.environment import pins, wanted
from moorage import __version__
from moorage.live.client import ApiClient
from moorage.store import ObjectStore

DEPLOY = ROOT / "deploy"
OVERLAYS = ("beside", "in-place")
Rights = set[tuple[str, str, str]]
"""Group, resource and verb."""

LOST_ANSWER: Rights = {("", "pods", "get")}  # live/client/api_client.py, of bindings
REVIEWS: Rights = {
    ("authentication.k8s.io", "tokenreviews", "create"),  # live/health.py
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}
VOLUMES: Rights = {  # engine/volume/volume_binder.py: `update` reads, and sends a patch
    ("", resource, verb)
    for resource in ("persistentvolumes", "persistentvolumeclaims")
    for verb in ("get", "patch")
}
CLAIMS: Rights = {  # engine/devices/claim_writer.py
    ("resource.k8s.io", resource, verb)
    for resource, verbs in (
        ("resourceclaims", ("get", "create", "patch", "delete")),
        ("resourceclaims/status", ("patch",)),
        ("resourceclaims/binding", ("patch",)),  # asked for by the server beside the status
    )
    for verb in verbs
}
GROUPS: Rights = {  # engine/scheduler/cycle/status_writes.py
    ("scheduling.k8s.io", name, verb)
    for kind in ("podgroups", "compositepodgroups")
    for name, verb in ((kind, "get"), (f"{kind}/status", "patch"))
}
EVENTS: Rights = {("events.k8s.io", "events", "patch")}  # a series: live/writer.py


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def find(path: Path, kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents(path) if one["kind"] == kind]
    return found


def find_named(path: Path, name: str) -> dict[str, Any]:
    """The ClusterRole of that name."""
    roles = [one for one in documents(path) if one["kind"] == "ClusterRole"]
    (found,) = [one for one in roles if one["metadata"]["name"] == name]
    return found


def rights(role: dict[str, Any]) -> Rights:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(server: WireServer) -> Rights:
    """What requests have needed; reads of collections need both verbs, as streams are not served by all."""
    verbs = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update", "GET": "get"}
    found = Rights()
    for method, path, _ in server.requests:
        parts = path.strip("/").split("/")
        if parts == ["apis"] or (parts[0] == "apis" and len(parts) == 3):
            continue  # discovery, which every user may
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        resource = "/".join([rest[0], *rest[2:3]])
        is_collection = method == "GET" and len(rest) == 1
        found |= {
            (group, resource, verb) for verb in (("list", "watch") if is_collection else (verbs[method],))
        }
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(client: ApiClient, store: ObjectStore, clock: Clock) -> Iterator[LiveScheduler]:
    store.create_many([machine("n0")])
    live = LiveScheduler(client, client.connection, clock=clock)
    yield live
    live.run.finish(LIMIT)
    live.recorder.close()


def test_the_scheduler_has_the_rights_that_it_needs_and_no_more(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    store.create_many([asking("low", "4", on="n0"), asking("high", "4", priority=10)])
    until(live, lambda: "low" not in {one.name for one in store.list("Pod")[0]})
    clock.now += 60.0
    until(live, lambda: live.run.bound == 1)
    live.recorder.writer.flush()
    used = asked(server)
    assert ("", "pods/binding", "create") in used
    role = rights(find(DEPLOY / "base/rbac.yaml", "ClusterRole"))
    needed = used | LOST_ANSWER | REVIEWS | VOLUMES | CLAIMS | GROUPS | EVENTS
    assert role - needed == set()
    assert needed - role == set()


def test_an_extender_reads_what_the_scheduler_reads_and_binds() -> None:
    reads = {
        one for one in rights(find(DEPLOY / "base/rbac.yaml", "ClusterRole")) if one[2] in ("list", "watch")
    }
    role = rights(find(DEPLOY / "overlays/extender/rbac.yaml", "ClusterRole"))
    assert role == reads | LOST_ANSWER | {("", "pods/binding", "create")}


def test_a_twin_reads_what_a_dump_lists_and_reviews_who_asks() -> None:
    role = rights(find_named(DEPLOY / "overlays/twin/rbac.yaml", "moorage-twin"))
    groups = {kind: kind().api_version.rpartition("/")[0] for kind in kinds_of_clusters()}
    reads = {(group, plural(kind), verb) for kind, group in groups.items() for verb in ("list", "watch")}
    of_nodes = {("", "events", "list")}
    assert reads | REVIEWS | of_nodes <= role
    extra = {
        (resource, verb) for _, resource, verb in role - REVIEWS - of_nodes
    }  # a rule with several groups
    assert extra == {(resource, verb) for _, resource, verb in reads}
    (asks,) = find_named(DEPLOY / "overlays/twin/rbac.yaml", "moorage-twin-asker")["rules"]
    assert asks == {"nonResourceURLs": ["/v1/*"], "verbs": ["get", "post"]}


def test_the_questions_of_a_twin_can_be_read() -> None:
    asked = read_questions(str(DEPLOY / "overlays/twin/questions.yaml"))
    assert asked.templates
    assert asked.survive


def test_alerts_and_dashboard_of_a_twin_ask_for_metrics_that_exist() -> None:
    folder = DEPLOY / "monitoring/twin"
    (group,) = find(folder / "twin_alerts.yaml", "PrometheusRule")["spec"]["groups"]
    alerts = {one["alert"]: one["expr"] for one in group["rules"]}
    shown = [
        target["expr"]
        for panel in json.loads((folder / "twin_dashboard.json").read_text())["panels"]
        for target in panel["targets"]
    ]
    known = {*GAUGES, "moorage_unreadable_kind_seconds", "moorage_standing_answers_seconds"}
    counters = ("unanswered_questions", "predicted_bindings", "skipped_predictions")
    known |= {f"moorage_{name}_total" for name in counters}
    assert asked_for(shown) == known
    assert asked_for(alerts.values()) <= known
    text = (ROOT / "docs/incidents.md").read_text()
    assert [name for name in alerts if name not in text] == []
    assert all('{container="twin",pod=~"moorage-twin-.*"' in one for one in (*shown, *alerts.values()))


def test_each_rule_has_its_reason() -> None:
    """A comment stands above each rule; those that only read share one."""
    for file in ("base/rbac.yaml", "overlays/extender/rbac.yaml"):
        lines = (DEPLOY / file).read_text().splitlines()
        rules = [at for at, line in enumerate(lines) if line.startswith("- apiGroups")]
        assert len(rules) >= 7
        for at in rules:
            verbs = next(line for line in lines[at:] if line.startswith("  verbs: "))
            assert lines[at - 1].startswith("# ") or verbs == "  verbs: [list, watch]", lines[at]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_lease_of_a_configuration_may_be_written(overlay: str) -> None:
    folder = DEPLOY / "overlays" / overlay
    config = read_configuration(folder / "scheduler.yaml")
    assert (
        config.leader_election.resource_namespace
        == find(folder / "kustomization.yaml", "Kustomization")["namespace"]
    )
    role = find(DEPLOY / "base/rbac.yaml", "Role")
    assert rights(role) == {("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}
    for rule in role["rules"]:
        named = rule.get("resourceNames")
        assert named is None if rule["verbs"] == ["create"] else config.leader_election.resource_name in named


def test_no_right_is_renamed_with_a_configuration() -> None:
    """kustomize appends a hash to the name of a generated ConfigMap, also where a Role has a resource of that
    name."""
    for overlay in (DEPLOY / "overlays").iterdir():
        generators = find(overlay / "kustomization.yaml", "Kustomization")["configMapGenerator"]
        for file in (DEPLOY / "base/rbac.yaml", *DEPLOY.glob("overlays/*/rbac.yaml")):
            rules = [rule for one in documents(file) for rule in one.get("rules", [])]
            named = {name for rule in rules for name in rule.get("resourceNames", [])}
            assert not named & {one["name"] for one in generators}


def test_configurations_are_mounted_by_their_name() -> None:
    for overlay, file in (
        ("beside", "base/deployment.yaml"),
        ("in-place", "base/deployment.yaml"),
        ("extender", "overlays/extender/deployment.yaml"),
        ("twin", "overlays/twin/deployment.yaml"),
    ):
        (made,) = find(DEPLOY / f"overlays/{overlay}/kustomization.yaml", "Kustomization")[
            "configMapGenerator"
        ]
        volumes = find(DEPLOY / file, "Deployment")["spec"]["template"]["spec"]["volumes"]
        assert [one["configMap"]["name"] for one in volumes if "configMap" in one] == [made["name"]]


@pytest.mark.parametrize(
    ("file", "command", "mounted"),
    [
        ("base/deployment.yaml", scheduler, "overlays/beside/scheduler.yaml"),
        ("overlays/extender/deployment.yaml", extender, "overlays/extender/profiles.yaml"),
        ("overlays/twin/deployment.yaml", twin, "overlays/twin/questions.yaml"),
    ],
)
def test_arguments_ports_and_files_are_those_of_the_command(file: str, command: Any, mounted: str) -> None:
    spec = find(DEPLOY / file, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    arguments = container["args"]
    options = dict(one.removeprefix("--").partition("=")[::2] for one in arguments if one.startswith("--"))
    known = {name.removeprefix("--") for option in command.params for name in option.opts}
    assert options.keys() <= known
    assert [one for one in arguments if not one.startswith("--")][-1] == command.name
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert set(ports.values()) == {int(options.get("secure-port") or options["port"])}
    folders = [one["mountPath"] for one in container["volumeMounts"]]
    paths = [value for value in options.values() if value.startswith("/etc/")]
    assert len(paths) >= 3
    assert all(any(path.startswith(f"{folder}/") for folder in folders) for path in paths)
    assert Path(mounted).name in map(os.path.basename, paths)
    names = {one["name"] for one in spec["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == names
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container.get(name, {})
        if "httpGet" in probe:
            assert probe["httpGet"]["path"] in ("/healthz", "/livez", "/readyz")
            assert probe["httpGet"]["scheme"] == "HTTPS"
        for one in probe.values():
            if isinstance(one, dict):
                assert one["port"] in ports
    assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    "file", ["base/deployment.yaml", *(f"overlays/{one}/deployment.yaml" for one in ("extender", "twin"))]
)
def test_the_only_folder_that_can_be_written_is_that_of_temporary_files(file: str) -> None:
    """OpenSSL reads certificates that a kubeconfig contains from a file. It does not reach a disk."""
    spec = find(DEPLOY / file, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {one["name"]: one["mountPath"] for one in container["volumeMounts"] if "readOnly" not in one}
    assert writable == {"tmp": "/tmp"}
    (volume,) = [one for one in spec["volumes"] if one["name"] == "tmp"]
    assert volume["emptyDir"]["medium"] == "Memory"


def test_the_scheduler_ends_in_the_time_that_it_is_given() -> None:
    """It is told by the manifest and by the page, from one figure."""
    file = DEPLOY / "base/deployment.yaml"
    given = find(file, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert given >= 21.0 + 5.0  # for the step in which the signal comes, and the end of the interpreter
    told = "within 21 s"
    assert f"terminationGracePeriodSeconds: {given}  # it ends {told} (docs/live.md)" in file.read_text()
    assert told in (ROOT / "docs/live.md").read_text()


def test_pods_are_selected_by_labels_that_they_have() -> None:
    files = [*DEPLOY.rglob("*.yaml")]
    labels: list[dict[str, str]] = []
    selectors: list[tuple[str, dict[str, str]]] = []
    for file in files:
        for one in documents(file):
            spec = one.get("spec", {})
            if one.get("kind") == "Deployment":
                labels.append(spec["template"]["metadata"]["labels"])
            selector = spec.get("podSelector" if one.get("kind") == "NetworkPolicy" else "selector")
            if selector:
                selectors.append((f"{file.name} {one['kind']}", selector.get("matchLabels", selector)))
    assert Counter(name.split()[1] for name, _ in selectors) == {
        "Deployment": 3,
        "NetworkPolicy": 3,
        "PodDisruptionBudget": 2,
        "Service": 2,
        "PodMonitor": 3,
    }
    for name, selector in selectors:
        assert any(selector.items() <= one.items() for one in labels), name


@pytest.mark.parametrize(
    ("policy", "deployment"),
    [
        ("base", "base/deployment.yaml"),
        *((f"overlays/{one}", f"overlays/{one}/deployment.yaml") for one in ("extender", "twin")),
    ],
)
def test_the_network_reaches_a_server_at_its_port_alone(policy: str, deployment: str) -> None:
    spec = find(DEPLOY / policy / "network_policy.yaml", "NetworkPolicy")["spec"]
    (container,) = find(DEPLOY / deployment, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": one["name"]} for one in container["ports"]]}]
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {443, 6443, 53}


def test_kustomizations_name_files_that_exist() -> None:
    found = list(DEPLOY.rglob("kustomization.yaml"))
    assert len(found) == 8
    for file in found:
        value = find(file, "Kustomization")
        generators = value.get("configMapGenerator", [])
        named = [*value["resources"], *(one for each in generators for one in each["files"])]
        for one in named:
            path = file.parent / one
            assert path.is_file() or (path / "kustomization.yaml").is_file(), f"{file}: {one}"
        others = {one.name for one in file.parent.iterdir() if one.is_file()} - {file.name, *named}
        assert not others, file
        for image in value.get("images", []):
            assert image["newTag"] == __version__


@pytest.mark.parametrize(
    ("monitor", "deployment"),
    [
        ("pod_monitor", "base/deployment"),
        ("extender_monitor", "overlays/extender/deployment"),
        ("twin/twin_monitor", "overlays/twin/deployment"),
    ],
)
def test_metrics_are_scraped_where_they_are_served(monitor: str, deployment: str) -> None:
    (endpoint,) = find(DEPLOY / f"monitoring/{monitor}.yaml", "PodMonitor")["spec"]["podMetricsEndpoints"]
    template = find(DEPLOY / f"{deployment}.yaml", "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert endpoint["port"] in {one["name"] for one in container["ports"]}
    assert (endpoint["scheme"], endpoint["path"]) == ("https", "/metrics")
    (rule,) = find(DEPLOY / "monitoring/account/account.yaml", "ClusterRole")["rules"]
    assert rule == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


def panels() -> dict[str, list[str]]:
    """The queries of the dashboard."""
    dashboard = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())
    return {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in dashboard["panels"]}


def expressions() -> dict[str, list[str]]:
    """The queries of the dashboard, and of each alert."""
    (group,) = find(DEPLOY / "monitoring/alerts.yaml", "PrometheusRule")["spec"]["groups"]
    return panels() | {one["alert"]: [one["expr"]] for one in group["rules"]}


def asked_for(texts: Iterable[str]) -> set[str]:
    return {metric for text in texts for metric in re.findall(r"(?:scheduler|moorage)_\w+", text)}


SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def test_dashboard_and_alerts_ask_for_metrics_that_exist(live: LiveScheduler) -> None:
    shown = {name: asked_for(texts) for name, texts in expressions().items()}
    assert {name for name, metrics in shown.items() if not metrics} == {"MoorageSchedulerDown"}
    known = {
        one.name + suffix for one in live.run.metrics.registry.collect() for suffix in SUFFIXES[one.type]
    }
    assert set().union(*shown.values()) <= known


def test_the_dashboard_shows_each_metric_of_reading_and_writing(live: LiveScheduler) -> None:
    shown = asked_for(text for texts in panels().values() for text in texts)
    for one in live.metrics.collect():
        assert shown & {one.name + suffix for suffix in SUFFIXES[one.type]}, one.name


def test_dashboard_and_alerts_take_no_metrics_of_kube_scheduler() -> None:
    """Each term asks for the pods of the Deployment: beside moorage, kube-scheduler is scraped too."""
    selectors = []
    for file in ("base/deployment.yaml", "overlays/extender/deployment.yaml"):
        deployment = find(DEPLOY / file, "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        selectors.append(f'{{container="{container["name"]}",pod=~"{deployment["metadata"]["name"]}-.*"')
    for name, texts in expressions().items():
        for text in texts:
            selected = re.findall(r"(?:\bup|\b(?:scheduler|moorage)_\w+)([^,}]*,[^,}]*)", text)
            assert selected, name
            assert set(selected) == {selectors["Extender" in name]}, name


def test_each_alert_is_explained() -> None:
    text = (ROOT / "docs/incidents.md").read_text()
    for name in expressions():
        if name.startswith("Moorage"):
            assert name in text


def test_the_image_has_hashes_of_what_it_installs() -> None:
    """`make image-requirements` makes the file anew."""
    text = (DEPLOY / "requirements.txt").read_text()
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
    pinned = {canonicalize_name(pin.partition("==")[0]): pin.partition("==")[2] for pin in pins()}
    assert {canonicalize_name(Requirement(one).name) for one in wanted(["cli", "kube"])} <= versions.keys()
    assert {name: pinned[name] for name in versions if name in pinned} == {
        name: version for name, version in versions.items() if name in pinned
    }
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_the_image_has_the_extras_and_no_rights() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert lines[0] == f"# docker build -f deploy/Dockerfile -t moorage:{__version__} ."
    extras = {one for line in lines for one in re.findall(r"\[([a-z,]+)\]", line)}
    assert extras == {"cli,kube"}
    (user,) = [line for line in lines if line.startswith("USER ")]
    assert int(user.split()[1].partition(":")[0]) > 0
    assert lines[-1] == 'ENTRYPOINT ["moorage"]'
