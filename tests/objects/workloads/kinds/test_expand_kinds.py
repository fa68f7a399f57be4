"""What kinds of other projects ask for, and which of it runs already."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.controllers import RULES
from tests.doors.engine import pod_requests

import moorage as mo
from moorage.objects import Cluster, Pod

POD = "{containers: [{name: c, resources: {requests: {cpu: 2}}}]}"
TEMPLATE = f"{{metadata: {{labels: {{a: b}}}}, spec: {POD}}}"
POOL = "{spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}}}"


def load(tmp_path: Path, *texts: str, **options: Any) -> Cluster:
    file = tmp_path / "f.yaml"
    file.write_text("\n---\n".join(texts))
    return mo.expanded(mo.load(file, **options))


def obj(version: str, kind: str, spec: str, name: str = "x", rest: str = "", meta: str = "") -> str:
    head = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}{meta}}}\n"
    return f"{head}spec: {spec}\n{rest}"


def running(name: str, kind: str, version: str, owner: str = "x", phase: str = "Running") -> str:
    """A pod on a node with an owner."""
    reference = f"{{apiVersion: {version}, kind: {kind}, name: {owner}, uid: o, controller: true}}"
    metadata = f"{{name: {name}, uid: {name}, ownerReferences: [{reference}]}}"
    spec = "{nodeName: node, containers: [{name: c}]}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {spec}\nstatus: {{phase: {phase}}}\n"


def requests(pod: Pod) -> dict[str, int]:
    """What a pod requests, of CPU in thousandths."""
    found = pod_requests(pod)
    return {name: one.milli_value() if name == "cpu" else one.value() for name, one in found.items()}


def new_pods(cluster: Cluster) -> Counter[str]:
    """The pods without a node by their names, without the random part."""
    pods = [pod for pod in cluster.pods if not pod.spec.node_name]
    return Counter(pod.metadata.generate_name or pod.name for pod in pods)


RAY = f"""
headGroupSpec: {{template: {TEMPLATE}}}
workerGroupSpecs:
- {{groupName: g, replicas: 2, numOfHosts: 2, template: {TEMPLATE}}}
- {{groupName: few, minReplicas: 1, template: {TEMPLATE}}}
- {{groupName: most, replicas: 9, maxReplicas: 1, template: {TEMPLATE}}}
- {{groupName: none, replicas: 9, suspend: true, template: {TEMPLATE}}}
"""
RAY_PODS = {"x-head-": 1, "x-g-worker-": 4, "x-few-worker-": 1, "x-most-worker-": 1}


def inner(text: str, field: str) -> str:
    return f"\n  {field}:" + text.replace("\n", "\n    ")


MADE: dict[str, tuple[str, dict[str, int]]] = {
    "Volcano": (
        obj(
            "batch.volcano.sh/v1alpha1", "Job", f"{{tasks: [{{name: t, replicas: 2, template: {TEMPLATE}}}]}}"
        ),
        {"x-t-0": 1, "x-t-1": 1},
    ),
    "RayCluster": (obj("ray.io/v1", "RayCluster", RAY.replace("\n", "\n  ")), RAY_PODS),
    "RayService": (obj("ray.io/v1", "RayService", inner(RAY, "rayClusterConfig")), RAY_PODS),
    "RayJob": (obj("ray.io/v1", "RayJob", inner(RAY, "rayClusterSpec")), RAY_PODS | {"x-": 1}),
    "JobSet": (
        obj(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            f"{{replicatedJobs: [{{name: w, replicas: 2, template: {{spec: {{parallelism: 3, completions: 3, "
            f"template: {TEMPLATE}}}}}}}]}}",
        ),
        {"x-w-0-": 3, "x-w-1-": 3},
    ),
    "PyTorchJob": (
        obj(
            "kubeflow.org/v1",
            "PyTorchJob",
            f"{{pytorchReplicaSpecs: {{Master: {{template: {TEMPLATE}}}, "
            f"Worker: {{replicas: 2, template: {TEMPLATE}}}}}}}",
        ),
        {"x-master-0": 1, "x-worker-0": 1, "x-worker-1": 1},
    ),
    "StrimziPodSet": (
        obj("core.strimzi.io/v1", "StrimziPodSet", f"{{pods: [{{metadata: {{name: k-0}}, spec: {POD}}}]}}"),
        {"k-0": 1},
    ),
    "RayCluster without a head": (
        obj(
            "ray.io/v1",
            "RayCluster",
            f"{{workerGroupSpecs: [{{groupName: g, replicas: 1, template: {TEMPLATE}}}]}}",
        ),
        {"x-g-worker-": 1},
    ),
    "a part without a template": (
        obj(
            "batch.volcano.sh/v1alpha1",
            "Job",
            f"{{tasks: [{{name: s, replicas: 3}}, {{name: t, template: {TEMPLATE}}}]}}",
        ),
        {"x-t-0": 1},
    ),
    "AppWrapper": (
        obj(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            "{components: [{template: "
            f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {POD}}}}}, {{template: "
            f"{{apiVersion: batch.volcano.sh/v1, kind: Job, metadata: {{name: v}}, "
            f"spec: {{tasks: [{{name: t, template: {TEMPLATE}}}]}}}}}}]}}",
        ),
        {"p": 1, "v-t-0": 1},
    ),
    "Sandbox": (
        obj("agents.x-k8s.io/v1alpha1", "Sandbox", f"{{podTemplate: {TEMPLATE}}}"),
        {"x": 1},
    ),
    "Advanced StatefulSet": (
        obj(
            "apps.kruise.io/v1beta1",
            "StatefulSet",
            f"{{replicas: 2, podManagementPolicy: Parallel, selector: {{matchLabels: {{a: b}}}}, "
            f"template: {TEMPLATE}}}",
        ),
        {"x-0": 1, "x-1": 1},
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_known_kind_makes_its_pods(kind: str, tmp_path: Path) -> None:
    text, expected = MADE[kind]
    cluster = load(tmp_path, text)
    assert new_pods(cluster) == expected
    assert (cluster.left_out, cluster.skipped) == ([], {})


NONE = {
    "machines of OpenShift": obj("machine.openshift.io/v1", "MachineSet", "{replicas: 3}"),
    "their control plane": obj("machine.openshift.io/v1", "ControlPlaneMachineSet", "{replicas: 3}"),
    "machines of Cluster API": obj("cluster.x-k8s.io/v1beta2", "MachineDeployment", "{replicas: 5}"),
    "a pool of machines": obj("cluster.x-k8s.io/v1beta2", "MachinePool", "{replicas: 5}"),
    "a control plane": obj("controlplane.cluster.x-k8s.io/v1beta1", "KubeadmControlPlane", "{replicas: 3}"),
    "a pool of nodes": obj("karpenter.sh/v1", "NodePool", f"{{replicas: 4, template: {POOL}}}"),
    "a mirrored workload": obj(
        "kueue.x-k8s.io/v1beta1", "Workload", f"{{podSets: [{{count: 3, template: {TEMPLATE}}}]}}"
    ),
    "a policy": obj(
        "kyverno.io/v1",
        "ClusterPolicy",
        f"{{rules: [{{validate: {{pattern: {{spec: {{template: {TEMPLATE}}}}}}}}}]}}",
    ),
    "a definition": obj(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{{x: {{template: {TEMPLATE}}}}}"
    ),
    "a sidecar": obj("opentelemetry.io/v1", "OpenTelemetryCollector", "{mode: sidecar, replicas: 1}"),
    "an object that is being deleted": obj(
        "postgresql.cnpg.io/v1", "Cluster", "{instances: 2}", meta=", deletionTimestamp: 2026-01-01T00:00:00Z"
    ),
    "no replicas": obj("x.io/v1", "Thing", "{replicas: 0}"),
    "replicas that are no number": obj("x.io/v1", "Thing", "{replicas: {min: 1}}"),
}


@pytest.mark.parametrize("case", NONE)
def test_other_kinds_make_no_pods(case: str, tmp_path: Path) -> None:
    cluster = load(tmp_path, NONE[case], validate="ignore")
    assert (cluster.pods, cluster.left_out) == ([], [])


WHY = "which is not simulated"
LEFT_OUT: dict[str, tuple[str, tuple[str, str, str, str, int, str]]] = {
    "TrainJob": (
        obj(
            "trainer.kubeflow.org/v1alpha1", "TrainJob", "{runtimeRef: {name: torch}, trainer: {numNodes: 4}}"
        ),
        (
            *("trainer.kubeflow.org", "TrainJob", "default", "x", 4),
            "whose ClusterTrainingRuntime torch is not in the input",
        ),
    ),
    "Workflow": (
        obj("argoproj.io/v1alpha1", "Workflow", "{templates: [{container: {image: i}}]}"),
        ("argoproj.io", "Workflow", "default", "x", 1, "whose pods depend on its steps"),
    ),
    "a sum": (
        obj(
            "pxc.percona.com/v1",
            "PerconaXtraDBCluster",
            "{pxc: {size: 3}, haproxy: {enabled: true, size: 2}, proxysql: {enabled: false, size: 2}}",
        ),
        ("pxc.percona.com", "PerconaXtraDBCluster", "default", "x", 5, WHY),
    ),
    "a number that is not given": (
        obj("serving.kserve.io/v1beta1", "InferenceService", "{predictor: {model: {}}}"),
        (
            *("serving.kserve.io", "InferenceService", "default", "x", 1),
            "whose template is that of a serving runtime",
        ),
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_is_not_simulated_is_left_out_and_told(case: str, tmp_path: Path) -> None:
    text, expected = LEFT_OUT[case]
    cluster = load(tmp_path, text)
    group, kind, namespace, name, number, why = expected
    assert (cluster.pods, [one[:6] for one in cluster.left_out]) == ([], [expected])
    named = f"{kind}.{group} {namespace}{'/' * bool(namespace)}{name}"
    replicas = f"({number} {'replica' if number == 1 else 'replicas'}{f', {why}' * (why != WHY)})"
    assert f"Not simulated, so their pods are left out: {named} {replicas}." in cluster.warnings


NOTES = {
    "CronJob": (
        obj("batch/v1", "CronJob", f"{{schedule: x, jobTemplate: {{spec: {{template: {TEMPLATE}}}}}}}"),
        "because they only make pods at their times (1): CronJob default/x",
    ),
    "a schedule of another kind": (
        obj("argoproj.io/v1alpha1", "CronWorkflow", "{schedule: x}"),
        "because they only make pods at their times (1): CronWorkflow.argoproj.io default/x",
    ),
    "suspended Job": (
        obj(
            "batch/v1",
            "Job",
            f"{{suspend: true, template: {TEMPLATE}}}",
            meta=", labels: {kueue.x-k8s.io/queue-name: q}",
        ),
        "because they are suspended (spec.suspend: false counts them) (1): Job default/x (queue q)",
    ),
    "suspended JobSet": (
        obj("jobset.x-k8s.io/v1", "JobSet", "{suspend: true}"),
        "because they are suspended (spec.suspend: false counts them) (1): JobSet.jobset.x-k8s.io default/x",
    ),
    "ready": (
        obj("x.io/v1", "Thing", "{replicas: 2}", rest="status: {readyReplicas: 2}"),
        "because their status says that their replicas are ready (1): Thing.x.io default/x (2)",
    ),
    "available": (
        obj("x.io/v1", "Thing", "{replicas: 2}", rest="status: {availableReplicas: 2}"),
        "because their status says that their replicas are ready (1): Thing.x.io default/x (2)",
    ),
    "scaled": (
        obj("x.io/v1", "Thing", "{replicas: 2}", rest='status: {scale: {statusReplicas: "2/2"}}'),
        "because their status says that their replicas are ready (1): Thing.x.io default/x (2)",
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_makes_no_pods_now_is_told(case: str, tmp_path: Path) -> None:
    text, note = NOTES[case]
    cluster = load(tmp_path, text)
    assert (cluster.pods, cluster.left_out) == ([], [])
    assert f"Not counted, {note}." in cluster.warnings


# ---- what runs already -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pods", "missing"),
    [
        (
            "RayCluster",
            ["x-head", "x-g-worker-a", "x-g-worker-b", "x-few-worker-a"],
            {"x-g-worker-": 2, "x-most-worker-": 1},
        ),
        (
            "RayCluster",
            ["one", "two", "x-g-worker-a"],
            {"x-g-worker-": 2, "x-few-worker-": 1, "x-most-worker-": 1},
        ),
        ("Volcano", ["x-t-1"], {"x-t-0": 1}),
        ("Volcano", ["x-t-4", "x-t-7"], {}),
        ("StrimziPodSet", ["k-0"], {}),
    ],
)
def test_a_pod_that_runs_is_not_made_again(
    kind: str, pods: list[str], missing: dict[str, int], tmp_path: Path
) -> None:
    text, _ = MADE[kind]
    head = yaml.safe_load(text)
    listed = [running(name, head["kind"], head["apiVersion"]) for name in pods]
    assert new_pods(load(tmp_path, text, *listed)) == missing


def test_a_pod_of_a_batch_workload_that_has_finished_is_not_made_again(tmp_path: Path) -> None:
    done = running("x-t-0", "Job", "batch.volcano.sh/v1alpha1", phase="Succeeded")
    assert new_pods(load(tmp_path, MADE["Volcano"][0], done)) == {"x-t-1": 1}
    over = MADE["Volcano"][0] + "status: {state: {phase: Completed}}\n"
    assert new_pods(load(tmp_path, over)) == {}
    over = MADE["PyTorchJob"][0] + 'status: {conditions: [{type: Succeeded, status: "True"}]}\n'
    assert new_pods(load(tmp_path, over)) == {}


def owned_by(text: str, kind: str, version: str, owner: str) -> str:
    value = yaml.safe_load(text)
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": "o"}
    value["metadata"]["ownerReferences"] = [reference]
    return yaml.safe_dump(value)


def test_owners_are_followed_through_unknown_kinds(tmp_path: Path) -> None:
    top = obj("a.io/v1", "Top", "{replicas: 3}", "top")
    middle = owned_by(obj("b.io/v1", "Middle", "{}", "middle"), "Top", "a.io/v1", "top")
    lower = owned_by(obj("c.io/v1", "Lower", "{}", "lower"), "Middle", "b.io/v1", "middle")
    pods = [running(name, "Lower", "c.io/v1", "lower") for name in ("p", "q")]
    assert [one.replicas for one in load(tmp_path, top, middle, lower, *pods).left_out] == [1]
    assert load(tmp_path, top, middle, lower, *pods, running("r", "Lower", "c.io/v1", "lower")).left_out == []
    cycle = owned_by(top, "Lower", "c.io/v1", "lower")
    assert [one.replicas for one in load(tmp_path, cycle, middle, lower, *pods).left_out] == [1]


def test_what_a_child_makes_is_left_to_the_child(tmp_path: Path) -> None:
    cluster = obj("ray.io/v1", "RayCluster", RAY.replace("\n", "\n  "), "x-abcde")
    child = owned_by(cluster, "RayJob", "ray.io/v1", "x")
    assert new_pods(load(tmp_path, MADE["RayJob"][0], child)) == {
        key.replace("x-", "x-abcde-"): number for key, number in RAY_PODS.items()
    }
    jobs = load(tmp_path, MADE["JobSet"][0])
    job = yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "x-w-0"},
            "spec": {"parallelism": 1, "template": yaml.safe_load(TEMPLATE)},
        }
    )
    assert jobs.left_out == []
    assert new_pods(load(tmp_path, MADE["JobSet"][0], job)) == {"x-w-0-": 1, "x-w-1-": 3}


def test_the_pod_that_submits_a_ray_job_is_that_of_its_job(tmp_path: Path) -> None:
    child = owned_by(obj("batch/v1", "Job", f"{{template: {TEMPLATE}}}"), "RayJob", "ray.io/v1", "x")
    cluster = load(tmp_path, MADE["RayJob"][0], child)
    assert new_pods(cluster) == RAY_PODS | {"x-": 1}


def test_a_service_that_is_scaled_to_zero_lacks_nothing(tmp_path: Path) -> None:
    """Its Deployment says how many pods there are to be."""
    service = obj("serving.knative.dev/v1", "Service", f"{{template: {TEMPLATE}}}")
    deployment = obj(
        "apps/v1", "Deployment", f"{{replicas: 0, selector: {{matchLabels: {{a: b}}}}, template: {TEMPLATE}}}"
    )
    owned = owned_by(deployment, "Service", "serving.knative.dev/v1", "x")
    assert [one.replicas for one in load(tmp_path, service).left_out] == [1]
    assert load(tmp_path, service, owned).left_out == []


def test_a_later_file_changes_a_custom_object(tmp_path: Path) -> None:
    text, _ = MADE["Volcano"]
    (tmp_path / "later.yaml").write_text(text.replace("replicas: 2", "replicas: 1"))
    (tmp_path / "f.yaml").write_text(text)
    assert new_pods(mo.load(tmp_path / "f.yaml", tmp_path / "later.yaml")) == {"x-t-0": 1}


def test_an_object_may_be_listed_in_two_forms(tmp_path: Path) -> None:
    """Support bundles have each list as YAML and as JSON."""
    text = MADE["RayCluster"][0].replace("name: x}", "name: x, uid: u, namespace: a}")
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.json").write_text(json.dumps(yaml.safe_load(text), indent=2))
    assert new_pods(mo.load(tmp_path)) == RAY_PODS


def test_an_object_with_a_generated_name_makes_its_pods(tmp_path: Path) -> None:
    text = MADE["Volcano"][0].replace("name: x", "generateName: x-")
    assert new_pods(load(tmp_path, text, text)) == {
        f"x-{at}-t-{index}": 1 for at in (0, 1) for index in (0, 1)
    }
    run = obj("tekton.dev/v1", "PipelineRun", "{}").replace("name: x", "generateName: x-")
    assert [one.name for one in load(tmp_path, run).left_out] == ["x-0"]


def test_kinds_of_one_name_are_told_from_one_another_by_their_groups(tmp_path: Path) -> None:
    job = obj("batch/v1", "Job", f"{{template: {TEMPLATE}}}")
    cluster = load(tmp_path, job, MADE["Volcano"][0])
    assert new_pods(cluster) == {"x-": 1, "x-t-0": 1, "x-t-1": 1}
    assert cluster.warnings == []


def test_a_bad_template_names_the_object_and_the_field(tmp_path: Path) -> None:
    bad = TEMPLATE.replace("cpu: 2", "cpu: two")
    text = obj("batch.volcano.sh/v1alpha1", "Job", f"{{tasks: [{{name: t, template: {bad}}}]}}")
    with pytest.raises(mo.InputError) as caught:
        load(tmp_path, text)
    assert "f.yaml: Job x: spec.tasks[0].template.spec.containers[0].resources.requests" in str(caught.value)


VOLCANO = "batch.volcano.sh/v1alpha1", "Job"


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            VOLCANO,
            f"{{tasks: [{{name: t, replicas: -1, template: {TEMPLATE}}}]}}",
            "Job x: spec.tasks[0].replicas: not a whole number",
        ),
        (
            VOLCANO,
            f"{{tasks: [{{name: t, replicas: true, template: {TEMPLATE}}}]}}",
            "Job x: spec.tasks[0].replicas: not a whole number",
        ),
        (
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            "{replicatedJobs: [{name: t, replicas: 2000, template: {spec: {parallelism: 1001}}}]}",
            "JobSet x: spec.replicatedJobs[0].template: 2002000 pods are more than 2000000",
        ),
        (
            VOLCANO,
            f"{{tasks: [{{name: t, replicas: 2000001, template: {TEMPLATE}}}]}}",
            "Job x: spec.tasks[0].template: 2000001 pods are more than 2000000",
        ),
    ],
)
def test_a_bad_number_of_pods_names_the_object_and_the_field(
    kind: tuple[str, str], spec: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(mo.InputError) as caught:
        load(tmp_path, obj(*kind, spec))
    assert message in str(caught.value)


@pytest.mark.parametrize(("given", "expected"), [("", "OnFailure"), ("restartPolicy: Never, ", "Never")])
def test_jobs_of_a_job_set_restart_their_containers_unless_they_say_otherwise(
    given: str, expected: str, tmp_path: Path
) -> None:
    pod = POD.replace("{containers", f"{{{given}containers", 1)
    jobs = f"[{{name: w, template: {{spec: {{template: {{spec: {pod}}}}}}}}}]"
    (made,) = load(tmp_path, obj("jobset.x-k8s.io/v1alpha2", "JobSet", f"{{replicatedJobs: {jobs}}}")).pods
    assert made.spec.restart_policy == expected


# ---- requests that operators make --------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "cpu"), [("", "500m"), ("{resources: {requests: {cpu: 3}}}", 3)])
def test_ray_adds_its_autoscaler(options: str, cpu: object, tmp_path: Path) -> None:
    spec = f"{{enableInTreeAutoscaling: true, headGroupSpec: {{template: {TEMPLATE}}}"
    spec += f", autoscalerOptions: {options}}}" if options else "}"
    (pod,) = load(tmp_path, obj("ray.io/v1", "RayCluster", spec)).pods
    assert [container.resources.requests["cpu"] for container in pod.spec.containers] == [2, cpu]


def test_a_worker_of_ray_waits_for_the_head_in_a_container(tmp_path: Path) -> None:
    group = "{groupName: g, replicas: 1, template: {spec: {containers: [{name: c}]}}}"
    (pod,) = load(tmp_path, obj("ray.io/v1", "RayCluster", f"{{workerGroupSpecs: [{group}]}}")).pods
    assert requests(pod) == {"cpu": 200, "memory": 256 << 20}


def test_volcano_schedules_the_pods_of_its_jobs(tmp_path: Path) -> None:
    pods: list[Pod] = load(tmp_path, MADE["Volcano"][0]).pods
    assert {pod.spec.scheduler_name for pod in pods} == {"volcano"}
    (owner,) = pods[0].metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name) == ("batch.volcano.sh/v1alpha1", "Job", "x")


def test_the_page_of_kinds_names_the_release_that_each_kind_follows() -> None:
    page = (Path(__file__).parents[4] / "docs/kinds.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    releases = {name: row[2:] for row in rows for name in row[0].split(", ")}
    for full_kind, rule in RULES.items():
        if rule.parts or rule.groups or rule.objects:
            release = releases.get(full_kind, releases.get(full_kind.partition(".")[0]))
            assert release, full_kind
