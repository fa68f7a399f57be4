"""The table of kinds: how a kind of another project makes pods, or that it makes none.

Kinds are named as by kubectl: ``RayCluster.ray.io``. CloneSets and DeploymentConfigs are not in the table, as
their controllers are simulated (`other_kinds`).
"""

from __future__ import annotations

from .counted_kinds import COUNTED
from .kind_rules import Count, Part, Rule
from .ray import ray_pods
from .training import with_runtime

AT_TIMES = "because they only make pods at their times"
_TIMED, _NONE, _READ = Rule(why_none=AT_TIMES), Rule(why_none=""), Rule(why_none="", is_read=True)
_STEPS = Rule(suspend="spec.suspend", is_batch=True, why_left_out="whose pods depend on its steps")


def _training(field: str) -> Rule:
    return Rule((Part(f"spec.{field}.*"),), suspend="spec.runPolicy.suspend", is_batch=True)


RULES: dict[str, Rule] = {
    "CronWorkflow.argoproj.io": _TIMED,
    "ScheduledSparkApplication.sparkoperator.k8s.io": _TIMED,
    "ScaledJob.keda.sh": _TIMED,
    "Job.batch.volcano.sh": Rule((Part("spec.tasks[*]"),), is_batch=True, scheduler="volcano"),
    "CronJob.batch.volcano.sh": _TIMED,
    "Sensor.argoproj.io": _TIMED,
    "RayCluster.ray.io": Rule(groups=ray_pods(""), suspend="spec.suspend"),
    "RayJob.ray.io": Rule(groups=ray_pods("rayClusterSpec"), suspend="spec.suspend", is_batch=True),
    "RayService.ray.io": Rule(groups=ray_pods("rayClusterConfig"), suspend="spec.suspend"),
    "RayCronJob.ray.io": _TIMED,
    "JobSet.jobset.x-k8s.io": Rule(
        (Part("spec.replicatedJobs[*]", is_job=True),), suspend="spec.suspend", is_batch=True
    ),
    "PyTorchJob.kubeflow.org": _training("pytorchReplicaSpecs"),
    "TFJob.kubeflow.org": _training("tfReplicaSpecs"),
    "XGBoostJob.kubeflow.org": _training("xgbReplicaSpecs"),
    "PaddleJob.kubeflow.org": _training("paddleReplicaSpecs"),
    "JAXJob.kubeflow.org": _training("jaxReplicaSpecs"),
    "MXJob.kubeflow.org": _training("mxReplicaSpecs"),
    "MPIJob.kubeflow.org": _training("mpiReplicaSpecs"),
    "TrainJob.trainer.kubeflow.org": Rule(
        (Part("spec.replicatedJobs[*]", is_job=True),),
        complete=with_runtime,
        counts=(Count(fields=("trainer.numNodes",)),),
        suspend="spec.suspend",
        is_batch=True,
    ),
    "StrimziPodSet.core.strimzi.io": Rule((Part("spec.pods[*]", "{part}", "", (), "metadata.name"),)),
    "AppWrapper.workload.codeflare.dev": Rule(
        objects="spec.components[*].template", suspend="spec.suspend", is_batch=True
    ),
    "Sandbox.agents.x-k8s.io": Rule((Part("spec", "{name}", "podTemplate"),)),
    # Pods that follow from more than the object has.
    "Workflow.argoproj.io": _STEPS,
    "PipelineRun.tekton.dev": _STEPS,
    "TaskRun.tekton.dev": _STEPS,
    # Simulated (`other_kinds`), unless their pods do not follow from their templates.
    "Rollout.argoproj.io": Rule(counts=(Count(),), why_left_out="whose template is that of another workload"),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": Rule(
        counts=(Count(fields=("replicas", "leaderWorkerTemplate.size")),),
        why_left_out="whose groups each have a topology of their own",
    ),
    **COUNTED,
    # What others refer to, and objects that mirror the pods of others.
    **dict.fromkeys(
        (
            *("ClusterTrainingRuntime.trainer.kubeflow.org", "TrainingRuntime.trainer.kubeflow.org"),
            *(
                f"{kind}.kueue.x-k8s.io"
                for kind in ("LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor")
            ),
        ),
        _READ,
    ),
    **dict.fromkeys(
        (
            "VirtualMachineInstancetype.instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype.instancetype.kubevirt.io",
            *("KafkaTopic.kafka.strimzi.io", "Workload.kueue.x-k8s.io", "SidecarSet.apps.kruise.io"),
            *("ProvisioningRequest.autoscaling.x-k8s.io", "CapacityBuffer.autoscaling.x-k8s.io"),
            *("ServingRuntime.serving.kserve.io", "ClusterServingRuntime.serving.kserve.io"),
            *("ClusterServiceVersion.operators.coreos.com", "Instrumentation.opentelemetry.io"),
            *("ServiceMonitor.monitoring.coreos.com", "PodMonitor.monitoring.coreos.com"),
            *("PrometheusRule.monitoring.coreos.com", "ScaledObject.keda.sh", "AppProject.argoproj.io"),
        ),
        _NONE,
    ),
}

MACHINES = frozenset(
    {
        *("Machine", "MachineClass", "MachineSet", "MachineDeployment", "MachinePool", "MachineTemplate"),
        *("ControlPlaneMachineSet", "KubeadmControlPlane", "RKE2ControlPlane", "KThreesControlPlane"),
        *("TalosControlPlane", "MicroK8sControlPlane", "K0sControlPlane", "NutanixMachineTemplate"),
        *("NodePool", "NodeGroup", "NodeClaim", "AWSManagedMachinePool", "AWSMachinePool"),
        *("AzureManagedMachinePool", "AzureMachinePool", "GCPManagedMachinePool", "ManagedNodeGroup"),
    }
)
"""Kinds of machines and of sets of them, in any group: their replicas are nodes."""
_NO_PODS = frozenset(
    {
        *("apiextensions.k8s.io", "kyverno.io", "templates.gatekeeper.sh", "cluster.x-k8s.io"),
        *("apiextensions.crossplane.io", "work.karmada.io", "work.open-cluster-management.io"),
        *("types.kubefed.io", "spdx.softwarecomposition.kubescape.io", "karpenter.sh", "karpenter.k8s.aws"),
        *("cert-manager.io", "acme.cert-manager.io", "external-secrets.io", "source.toolkit.fluxcd.io"),
        *("networking.istio.io", "security.istio.io", "cilium.io", "crd.projectcalico.org", "traefik.io"),
        *("kueue.x-k8s.io", "config.openshift.io", "route.openshift.io", "security.openshift.io"),
        *("machine.openshift.io", "machineconfiguration.openshift.io", "autoscaling.openshift.io"),
        "eksctl.io",
    }
)
"""Groups whose objects make no pods: definitions, policies, and mirrors of what other clusters have."""
_TEMPLATES = ("Template", "Definition", "Binding", "NodeClass")
"""How kinds end of which others make their objects, or read how nodes are made."""


def rule_of(full_kind: str) -> Rule | None:
    """Return what a kind makes.

    Parameters
    ----------
    full_kind : str
        Kind and API group: ``Job.batch.volcano.sh``.

    Returns
    -------
    Rule or None
        None for a kind that is not known.
    """
    kind, _, group = full_kind.partition(".")
    if full_kind in RULES:
        return RULES[full_kind]
    return _NONE if kind in MACHINES or group in _NO_PODS or kind.endswith(_TEMPLATES) else None


def is_not_read(full_kind: str) -> bool:
    """Whether a kind that is not read is known to make no pods of its own.

    Parameters
    ----------
    full_kind : str
        Kind and API group.

    Returns
    -------
    bool
        True for the kinds of Kubernetes itself; False for those that nothing is known of.
    """
    rule, group = rule_of(full_kind), full_kind.partition(".")[2]
    return "." not in group or group.endswith(".k8s.io") if rule is None else rule.why_none is not None
