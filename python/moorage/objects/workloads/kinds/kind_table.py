"""The table of kinds: how a kind of another project makes pods, or that it makes none.

Kinds are named as by kubectl: ``RayCluster.ray.io``. CloneSets and DeploymentConfigs are not in the table, as
their controllers are simulated (`other_kinds`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .kind_values import Find, Groups, Values
from .operators import (
    kafka_clients,
    kafka_nodes,
    kafka_pods,
    pgbouncer_pods,
    postgres_instances,
    ray_pods,
    spark_pods,
)
from .services import (
    alertmanager_pods,
    elastic_nodes,
    elastic_pods,
    prometheus_pods,
    rabbitmq_pods,
    ruler_pods,
    zalando_pods,
)
from .training import with_runtime
from .virtual_machines import virtual_machine, with_instance_type

NOT_SIMULATED = "which is not simulated"


class Part(NamedTuple):
    """Where an object has templates, and how many pods each makes.

    Attributes
    ----------
    at : str
        Path of the maps with a template each: ``spec.tasks[*]``, ``spec.replicaSpecs.*``.
    name : str
        See `Group`; ``{name}`` is that of the object, ``{part}`` that of the map: its `label`, or its key.
    template : str
        Path of the template in the map; "" if the map itself is a pod.
    counts : tuple of str
        Fields whose product is the number of pods; a missing one is 1.
    label : str
        Path of the name of a map.
    is_job : bool
        Whether a template is that of a Job.
    """

    at: str
    name: str = "{name}-{part}-{index}"
    template: str = "template"
    counts: tuple[str, ...] = ("replicas",)
    label: str = "name"
    is_job: bool = False


class Rule(NamedTuple):
    """What a kind makes.

    Attributes
    ----------
    parts : tuple of Part
        The templates of pods or Jobs.
    groups : callable, optional
        Makes the groups of pods from the object, where their templates are not in it; None where they do not
        follow from it.
    complete : callable, optional
        Returns the object with what other objects have that it refers to; a text says why there is none, as
        in `why_left_out`.
    objects : str
        Path of whole objects in the object.
    numbers : tuple of str
        Fields whose product is the number of pods of a kind that is not simulated; a missing one is 1.
    sums : tuple of str
        Fields whose sum is that number, where there are any; parts with ``enabled: false`` are left out.
    unless : (str, frozenset), optional
        A field, and the values with which the numbers do not count.
    suspend : str
        Path of a field that is true while nothing runs.
    is_batch : bool
        Whether pods that have finished are not made again.
    scheduler : str
        That of pods that name none, unless ``spec.schedulerName`` does.
    why_none : str
        Why the object itself makes no pods: a reason that is told, or "" to pass it over.
    why_left_out : str
        Why the pods of a kind that is not simulated do not follow from the object, as a clause.
    is_exact : bool
        Whether the number of pods is that of the object, and not one that its controller changes.
    is_read : bool
        Whether other objects refer to one of a kind that makes no pods itself.
    """

    parts: tuple[Part, ...] = ()
    groups: Callable[[Values], Groups | None] | None = None
    complete: Callable[[Values, Find], Values | str] | None = None
    objects: str = ""
    numbers: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    unless: tuple[str, frozenset[object]] = ("", frozenset())
    suspend: str = ""
    is_batch: bool = False
    scheduler: str = ""
    why_none: str | None = None
    why_left_out: str = NOT_SIMULATED
    is_exact: bool = True
    is_read: bool = False


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
        numbers=("spec.trainer.numNodes",),
        suspend="spec.suspend",
        is_batch=True,
    ),
    "SparkApplication.sparkoperator.k8s.io": Rule(groups=spark_pods, suspend="spec.suspend", is_batch=True),
    "StrimziPodSet.core.strimzi.io": Rule((Part("spec.pods[*]", "{part}", "", (), "metadata.name"),)),
    "KafkaNodePool.kafka.strimzi.io": Rule(groups=kafka_nodes),
    "Kafka.kafka.strimzi.io": Rule(groups=kafka_pods),
    "KafkaConnect.kafka.strimzi.io": Rule(groups=kafka_clients("connect")),
    "KafkaMirrorMaker2.kafka.strimzi.io": Rule(groups=kafka_clients("mirrormaker2")),
    "KafkaBridge.kafka.strimzi.io": Rule(groups=kafka_clients("bridge")),
    "Cluster.postgresql.cnpg.io": Rule(groups=postgres_instances),
    "Pooler.postgresql.cnpg.io": Rule(groups=pgbouncer_pods),
    "VirtualMachine.kubevirt.io": Rule(groups=virtual_machine, complete=with_instance_type),
    "VirtualMachineInstance.kubevirt.io": Rule(groups=virtual_machine, is_batch=True),
    "VirtualMachineInstanceReplicaSet.kubevirt.io": Rule(groups=virtual_machine),
    "AppWrapper.workload.codeflare.dev": Rule(
        objects="spec.components[*].template", suspend="spec.suspend", is_batch=True
    ),
    "Sandbox.agents.x-k8s.io": Rule((Part("spec", "{name}", "podTemplate"),)),
    "Prometheus.monitoring.coreos.com": Rule(groups=prometheus_pods),
    "PrometheusAgent.monitoring.coreos.com": Rule(groups=prometheus_pods),
    "Alertmanager.monitoring.coreos.com": Rule(groups=alertmanager_pods),
    "ThanosRuler.monitoring.coreos.com": Rule(groups=ruler_pods),
    "RabbitmqCluster.rabbitmq.com": Rule(groups=rabbitmq_pods, numbers=("spec.replicas",)),
    "postgresql.acid.zalan.do": Rule(groups=zalando_pods),
    "Elasticsearch.elasticsearch.k8s.elastic.co": Rule(groups=elastic_nodes),
    "Kibana.kibana.k8s.elastic.co": Rule(groups=elastic_pods("kibana", "kb", memory="2Gi")),
    "ApmServer.apm.k8s.elastic.co": Rule(groups=elastic_pods("apm-server", "apm-server", memory="512Mi")),
    "EnterpriseSearch.enterprisesearch.k8s.elastic.co": Rule(
        groups=elastic_pods("enterprise-search", "ent", memory="4Gi")
    ),
    "ElasticMapsServer.maps.k8s.elastic.co": Rule(groups=elastic_pods("maps", "ems", memory="200Mi")),
    # Pods that follow from more than the object has.
    "Workflow.argoproj.io": _STEPS,
    "PipelineRun.tekton.dev": _STEPS,
    "TaskRun.tekton.dev": _STEPS,
    "Logstash.logstash.k8s.elastic.co": Rule(numbers=("spec.count",)),
    "Beat.beat.k8s.elastic.co": Rule(numbers=("spec.deployment.replicas",)),
    "Agent.agent.k8s.elastic.co": Rule(numbers=("spec.deployment.replicas", "spec.statefulSet.replicas")),
    "PackageRegistry.packageregistry.k8s.elastic.co": Rule(numbers=("spec.count",)),
    "PerconaXtraDBCluster.pxc.percona.com": Rule(
        sums=("spec.pxc.size", "spec.haproxy.size", "spec.proxysql.size")
    ),
    "PerconaServerMongoDB.psmdb.percona.com": Rule(
        sums=("spec.replsets[*].size", "spec.sharding.configsvrReplSet.size", "spec.sharding.mongos.size")
    ),
    "MongoDBCommunity.mongodbcommunity.mongodb.com": Rule(numbers=("spec.members",)),
    "CephCluster.ceph.rook.io": Rule(
        sums=("spec.mon.count", "spec.mgr.count"),
        unless=("spec.external.enable", frozenset({True})),
        why_left_out="whose daemons depend on the disks of nodes",
    ),
    "CephObjectStore.ceph.rook.io": Rule(numbers=("spec.gateway.instances",)),
    "CephFilesystem.ceph.rook.io": Rule(numbers=("spec.metadataServer.activeCount",)),
    "InferenceService.serving.kserve.io": Rule(
        sums=(
            "spec.predictor.minReplicas",
            "spec.transformer.minReplicas",
            "spec.explainer.minReplicas",
        ),
        is_exact=False,
        why_left_out="whose template is that of a serving runtime",
    ),
    "SandboxClaim.extensions.agents.x-k8s.io": Rule(),
    "VirtualMachinePool.pool.kubevirt.io": Rule(numbers=("spec.replicas",)),
    # Simulated (`other_kinds`), unless their pods do not follow from their templates.
    "Rollout.argoproj.io": Rule(
        numbers=("spec.replicas",), why_left_out="whose template is that of another workload"
    ),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": Rule(
        numbers=("spec.replicas", "spec.leaderWorkerTemplate.size"),
        why_left_out="whose groups each have a topology of their own",
    ),
    "OpenTelemetryCollector.opentelemetry.io": Rule(
        numbers=("spec.replicas",), unless=("spec.mode", frozenset({"daemonset", "sidecar"}))
    ),
    # Templates that others use, and objects that mirror the pods of others.
    "WorkflowTemplate.argoproj.io": _NONE,
    "ClusterWorkflowTemplate.argoproj.io": _NONE,
    "SandboxTemplate.agents.x-k8s.io": _NONE,
    "SandboxTemplate.extensions.agents.x-k8s.io": _NONE,
    "ClusterTrainingRuntime.trainer.kubeflow.org": _READ,
    "TrainingRuntime.trainer.kubeflow.org": _READ,
    "VirtualMachineInstancetype.instancetype.kubevirt.io": _READ,
    "VirtualMachineClusterInstancetype.instancetype.kubevirt.io": _READ,
    "KafkaTopic.kafka.strimzi.io": _NONE,
    "Workload.kueue.x-k8s.io": _NONE,
    "PodTemplate": _NONE,
    "ProvisioningRequest.autoscaling.x-k8s.io": _NONE,
    "ClusterServiceVersion.operators.coreos.com": _NONE,
    "Template.template.openshift.io": _NONE,
    "SidecarSet.apps.kruise.io": _NONE,
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
_NO_PODS = frozenset({"apiextensions.k8s.io", "kyverno.io", "templates.gatekeeper.sh", "cluster.x-k8s.io"})
"""Groups whose objects may have templates of pods in them that nobody makes."""


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
    if kind in MACHINES or group in _NO_PODS:
        return _NONE
    return RULES.get(full_kind)
