"""The table of kinds: how a kind of another project makes pods, or that it makes none.

Kinds are named as by kubectl: ``RayCluster.ray.io``. CloneSets and DeploymentConfigs are not in the table, as
their controllers are simulated (`deployment_rollout`).
"""

from __future__ import annotations

from msgspec.structs import replace

from ..model.meta import ObjectMeta
from ..model.pod import POD_GATED, POD_PENDING, Pod
from ..model.workload import full_kind
from .kind_rules import NOT_SIMULATED, Count, KindRule, TemplatePart, ray_pods, with_runtime
from .ownership import FINISHED

# ---- counted kinds -----------------------------------------------------------------------------------------
#
# The part of the table of kinds whose pods are counted and not made: they follow from more than the object
# has.


def _sum(*paths: str, default: int = 1, of: str = "") -> KindRule:
    """Return a rule for a kind whose pods are the sum of some fields, each in a part that may be missing."""
    split = [path.rpartition(".") for path in paths]
    return _composed(*(Count(at, (field,), default) for at, _, field in split), of=of)


def _composed(*counts: Count, of: str = "") -> KindRule:
    """Return a rule for a kind whose pods an operator composes from fields of its objects."""
    why = f"whose pods depend on the version and settings of {of}" if of else NOT_SIMULATED
    return KindRule(counts=counts, why_left_out=why)


def _rendered(by: str) -> KindRule:
    return KindRule(renders=by, why_left_out=f"which {by} renders")


def _daemons(device: str = "") -> KindRule:
    """Return a rule for the agents of the nodes with a device; of all nodes without one."""
    return KindRule(counts=(Count(fields=(), per_node="", device=device),), is_exact=False)


def _elastic(*others: str) -> KindRule:
    """Return a rule for an agent of ECK: a DaemonSet, or replicas in other parts."""
    daemons = Count("spec.daemonSet", (), per_node="podTemplate.spec")
    return KindRule(counts=(daemons, *(Count(at) for at in others)))


_HIBERNATION = r"metadata.annotations.cnpg\.io/hibernation"
_POOLS = r"metadata.annotations.strimzi\.io/node-pools"
_RUNS = frozenset({"Always", "RerunOnFailure", "Once"})
_ELASTIC = _sum("spec.count", default=0, of="ECK")
_STRIMZI = _sum("spec.replicas", of="Strimzi")

COUNTED: dict[str, KindRule] = {
    # Kinds whose pods have containers, requests and claims that their operators choose.
    "Cluster.postgresql.cnpg.io": _composed(
        Count("", ("spec.instances",), only=(_HIBERNATION, frozenset({None, "off"}))), of="CloudNativePG"
    ),
    "Pooler.postgresql.cnpg.io": _sum("spec.instances", of="CloudNativePG"),
    "postgresql.acid.zalan.do": _composed(
        Count(fields=("numberOfInstances",), default=0),
        Count("spec.connectionPooler", ("numberOfInstances",), default=2),
        of="Zalando's operator",
    ),
    "RabbitmqCluster.rabbitmq.com": _sum("spec.replicas", of="RabbitMQ's operator"),
    "KafkaNodePool.kafka.strimzi.io": _STRIMZI,
    "Kafka.kafka.strimzi.io": _composed(
        Count("", ("spec.kafka.replicas",), 0, only=(_POOLS, frozenset({None, "disabled"}))),
        Count("spec.zookeeper"),
        *(Count(f"spec.{part}", ()) for part in ("entityOperator", "kafkaExporter", "cruiseControl")),
        of="Strimzi",
    ),
    "KafkaConnect.kafka.strimzi.io": _STRIMZI,
    "KafkaMirrorMaker2.kafka.strimzi.io": _STRIMZI,
    "KafkaBridge.kafka.strimzi.io": _STRIMZI,
    "Elasticsearch.elasticsearch.k8s.elastic.co": _sum("spec.nodeSets[*].count", default=0, of="ECK"),
    "Kibana.kibana.k8s.elastic.co": _ELASTIC,
    "ApmServer.apm.k8s.elastic.co": _ELASTIC,
    "EnterpriseSearch.enterprisesearch.k8s.elastic.co": _ELASTIC,
    "ElasticMapsServer.maps.k8s.elastic.co": _ELASTIC,
    **dict.fromkeys(
        ("Prometheus.monitoring.coreos.com", "PrometheusAgent.monitoring.coreos.com"),
        _composed(
            Count(fields=("shards", "replicas"), only=("mode", frozenset({None, "StatefulSet"}))),
            Count(fields=(), only=("mode", frozenset({"DaemonSet"})), per_node=""),
            of="prometheus-operator",
        ),
    ),
    "Alertmanager.monitoring.coreos.com": _sum("spec.replicas", of="prometheus-operator"),
    "ThanosRuler.monitoring.coreos.com": _sum("spec.replicas", of="prometheus-operator"),
    "VirtualMachine.kubevirt.io": _composed(
        Count(fields=(), only=("running", frozenset({True}))),
        Count(fields=(), only=("runStrategy", _RUNS)),
        of="KubeVirt",
    ),
    "VirtualMachineInstance.kubevirt.io": _composed(of="KubeVirt")._replace(is_batch=True),
    "VirtualMachineInstanceReplicaSet.kubevirt.io": _sum("spec.replicas", of="KubeVirt"),
    "VirtualMachinePool.pool.kubevirt.io": _sum("spec.replicas", of="KubeVirt"),
    "SparkApplication.sparkoperator.k8s.io": _composed(
        Count(fields=(), only=("mode", frozenset({None, "cluster"}))),
        Count(fields=("executor.instances",), default=2),
        of="Spark",
    )._replace(suspend="spec.suspend", is_batch=True, is_exact=False),
    # Databases and queues.
    "AerospikeCluster.asdb.aerospike.com": _sum("spec.size"),
    "CassandraDatacenter.cassandra.datastax.com": _sum("spec.size"),
    "ClickHouseInstallation.clickhouse.altinity.com": KindRule(
        counts=(Count("spec.configuration.clusters[*].layout", ("shardsCount", "replicasCount")),)
    ),
    "ClickHouseKeeperInstallation.clickhouse-keeper.altinity.com": _sum(
        "spec.configuration.clusters[*].layout.replicasCount"
    ),
    "CouchbaseCluster.couchbase.com": _sum("spec.servers[*].size"),
    "CrdbCluster.crdb.cockroachlabs.com": _sum("spec.nodes"),
    "DorisCluster.doris.selectdb.com": _sum(
        "spec.feSpec.replicas", "spec.beSpec.replicas", "spec.cnSpec.replicas", "spec.brokerSpec.replicas"
    ),
    "Druid.druid.apache.org": _sum("spec.nodes.*.replicas"),
    "EtcdCluster.operator.etcd.io": _sum("spec.size"),
    "InnoDBCluster.mysql.oracle.com": _sum("spec.instances", "spec.router.instances"),
    "K8ssandraCluster.k8ssandra.io": _sum("spec.cassandra.datacenters[*].size"),
    "MongoDBCommunity.mongodbcommunity.mongodb.com": _sum("spec.members"),
    "OpenSearchCluster.opensearch.opster.io": KindRule(
        counts=(Count("spec.nodePools[*]"), Count("spec.dashboards", only=("enable", frozenset({True}))))
    ),
    "PerconaPGCluster.pgv2.percona.com": _sum("spec.instances[*].replicas", "spec.proxy.pgBouncer.replicas"),
    "PerconaServerMongoDB.psmdb.percona.com": _sum(
        "spec.replsets[*].size", "spec.sharding.configsvrReplSet.size", "spec.sharding.mongos.size"
    ),
    "PerconaServerMySQL.ps.percona.com": _sum(
        "spec.mysql.size", "spec.proxy.haproxy.size", "spec.proxy.router.size", "spec.orchestrator.size"
    ),
    "PerconaXtraDBCluster.pxc.percona.com": _sum("spec.pxc.size", "spec.haproxy.size", "spec.proxysql.size"),
    "PostgresCluster.postgres-operator.crunchydata.com": _sum(
        "spec.instances[*].replicas", "spec.proxy.pgBouncer.replicas"
    ),
    # A leader and a follower for each.
    "RedisCluster.redis.redis.opstreelabs.in": _sum("spec.clusterSize", "spec.clusterSize"),
    "RedisReplication.redis.redis.opstreelabs.in": _sum("spec.clusterSize"),
    "RedisSentinel.redis.redis.opstreelabs.in": _sum("spec.clusterSize"),
    "RedisFailover.databases.spotahome.com": _sum("spec.redis.replicas", "spec.sentinel.replicas", default=3),
    "Redpanda.cluster.redpanda.com": _sum("spec.clusterSpec.statefulset.replicas", default=3),
    "ScyllaCluster.scylla.scylladb.com": _sum("spec.datacenter.racks[*].members"),
    "StarRocksCluster.starrocks.com": _sum(
        "spec.starRocksFeSpec.replicas", "spec.starRocksBeSpec.replicas", "spec.starRocksCnSpec.replicas"
    ),
    "Tenant.minio.min.io": _sum("spec.pools[*].servers"),
    "TidbCluster.pingcap.com": _sum(
        *(f"spec.{part}.replicas" for part in ("pd", "tikv", "tidb", "tiflash", "ticdc", "tiproxy", "pump"))
    ),
    "CephCluster.ceph.rook.io": KindRule(
        counts=(
            Count(fields=("mon.count",), only=("external.enable", frozenset({None, False}))),
            Count(fields=("mgr.count",), only=("external.enable", frozenset({None, False}))),
        ),
        why_left_out="whose daemons depend on the disks of nodes",
    ),
    "CephObjectStore.ceph.rook.io": _sum("spec.gateway.instances"),
    "CephFilesystem.ceph.rook.io": _sum("spec.metadataServer.activeCount"),
    # Stackable: groups of each role.
    **dict.fromkeys(
        (
            *("AirflowCluster.airflow.stackable.tech", "DruidCluster.druid.stackable.tech"),
            *("HbaseCluster.hbase.stackable.tech", "HdfsCluster.hdfs.stackable.tech"),
            *("HiveCluster.hive.stackable.tech", "KafkaCluster.kafka.stackable.tech"),
            *("NifiCluster.nifi.stackable.tech", "SupersetCluster.superset.stackable.tech"),
            *("TrinoCluster.trino.stackable.tech", "ZookeeperCluster.zookeeper.stackable.tech"),
        ),
        _sum("spec.*.roleGroups.*.replicas"),
    ),
    # Batch and inference.
    "AutoscalingRunnerSet.actions.github.com": _sum("spec.minRunners", default=0),
    "DynamoGraphDeployment.nvidia.com": KindRule(
        counts=(Count("spec.services.*", ("replicas", "multinode.nodeCount")),)
    ),
    "Experiment.kubeflow.org": KindRule(
        counts=(Count(fields=("parallelTrialCount",), default=3),),
        is_exact=False,
        is_batch=True,
        why_left_out="whose trials run one after the other",
    ),
    "FlinkDeployment.flink.apache.org": KindRule(
        counts=(Count("spec.jobManager"), Count("spec.taskManager")), is_exact=False
    ),
    "InferenceService.serving.kserve.io": KindRule(
        counts=tuple(
            Count(f"spec.{part}", ("minReplicas",)) for part in ("predictor", "transformer", "explainer")
        ),
        is_exact=False,
        why_left_out="whose template is that of a serving runtime",
    ),
    "LLMInferenceService.serving.kserve.io": KindRule(
        counts=(Count(), Count("spec.prefill"), Count("spec.worker")), is_exact=False
    ),
    **dict.fromkeys(
        (f"{kind}.serving.knative.dev" for kind in ("Service", "Configuration", "Revision")),
        KindRule(is_exact=False, why_left_out="whose replicas follow its load"),
    ),
    "SandboxWarmPool.extensions.agents.x-k8s.io": _sum("spec.replicas"),
    "SandboxClaim.extensions.agents.x-k8s.io": KindRule(),
    "SparkApplication.spark.apache.org": KindRule(
        counts=(
            Count(fields=()),
            Count("spec.applicationTolerations.instanceConfig", ("initExecutors",), 0),
        ),
        is_exact=False,
        is_batch=True,
        why_left_out="whose executors depend on its configuration",
    ),
    # Agents, most of them on each node.
    "Agent.agent.k8s.elastic.co": _elastic("spec.deployment", "spec.statefulSet"),
    "Beat.beat.k8s.elastic.co": _elastic("spec.deployment"),
    "Logstash.logstash.k8s.elastic.co": _sum("spec.count"),
    "PackageRegistry.packageregistry.k8s.elastic.co": _sum("spec.count"),
    "Alloy.collectors.grafana.com": KindRule(
        counts=(
            Count("spec.controller", only=("type", frozenset({"deployment", "statefulset"}))),
            Count(
                "spec", (), only=("controller.type", frozenset({None, "daemonset"})), per_node="controller"
            ),
        )
    ),
    "ClusterPolicy.nvidia.com": _daemons("nvidia.com/"),
    "DatadogAgent.datadoghq.com": KindRule(
        counts=(
            Count(
                fields=(),
                only=("override.nodeAgent.disabled", frozenset({None, False})),
                per_node="override.nodeAgent",
            ),
            Count(fields=("override.clusterAgent.replicas",)),
            Count("spec.override.clusterChecksRunner"),
        ),
        is_exact=False,
    ),
    "DeviceConfig.amd.com": _daemons("amd.com/"),
    "DynaKube.dynatrace.com": KindRule(
        counts=(
            Count("spec.oneAgent.classicFullStack", (), per_node=""),
            Count("spec.oneAgent.cloudNativeFullStack", (), per_node=""),
            Count("spec.oneAgent.hostMonitoring", (), per_node=""),
            Count("spec.activeGate"),
        ),
        is_exact=False,
    ),
    "GpuDevicePlugin.deviceplugin.intel.com": _daemons("gpu.intel.com/"),
    "OpenTelemetryCollector.opentelemetry.io": KindRule(
        counts=(
            Count(only=("mode", frozenset({None, "deployment", "statefulset"}))),
            Count(fields=(), only=("mode", frozenset({"daemonset"})), per_node=""),
        )
    ),
    **dict.fromkeys(
        (
            *("FluentBit.fluentbit.fluent.io", "FluentbitAgent.logging.banzaicloud.io"),
            *("InstanaAgent.instana.io", "Installation.operator.tigera.io", "NMState.nmstate.io"),
            *("NodeFeatureDiscovery.nfd.openshift.io", "NodeFeatureDiscovery.nfd.kubernetes.io"),
            *("ClusterLogForwarder.observability.openshift.io", "TridentOrchestrator.trident.netapp.io"),
            *("StorageCluster.core.libopenstorage.org", "OpaCluster.opa.stackable.tech"),
        ),
        _daemons(),
    ),
    # Objects that deliver manifests.
    "HelmRelease.helm.toolkit.fluxcd.io": _rendered("flux build or helm template"),
    "Kustomization.kustomize.toolkit.fluxcd.io": _rendered("flux build kustomization"),
    "ResourceSet.fluxcd.controlplane.io": _rendered("flux-operator build resourceset"),
    "Application.argoproj.io": _rendered("argocd app manifests"),
    "ApplicationSet.argoproj.io": _rendered("argocd appset generate with argocd app manifests"),
    "HelmChart.helm.cattle.io": _rendered("helm template"),
    "Release.helm.crossplane.io": _rendered("helm template"),
    "IstioOperator.install.istio.io": _rendered("istioctl manifest generate"),
}


# ---- kind table --------------------------------------------------------------------------------------------

AT_TIMES = "because they only make pods at their times"
_TIMED, _NONE, _READ = KindRule(why_none=AT_TIMES), KindRule(why_none=""), KindRule(why_none="", is_read=True)
_STEPS = KindRule(suspend="spec.suspend", is_batch=True, why_left_out="whose pods depend on its steps")


def _training(field: str) -> KindRule:
    return KindRule((TemplatePart(f"spec.{field}.*"),), suspend="spec.runPolicy.suspend", is_batch=True)


RULES: dict[str, KindRule] = {
    "CronWorkflow.argoproj.io": _TIMED,
    "ScheduledSparkApplication.sparkoperator.k8s.io": _TIMED,
    "ScaledJob.keda.sh": _TIMED,
    "Job.batch.volcano.sh": KindRule((TemplatePart("spec.tasks[*]"),), is_batch=True, scheduler="volcano"),
    "CronJob.batch.volcano.sh": _TIMED,
    "Sensor.argoproj.io": _TIMED,
    "RayCluster.ray.io": KindRule(groups=ray_pods(""), suspend="spec.suspend"),
    "RayJob.ray.io": KindRule(groups=ray_pods("rayClusterSpec"), suspend="spec.suspend", is_batch=True),
    "RayService.ray.io": KindRule(groups=ray_pods("rayClusterConfig"), suspend="spec.suspend"),
    "RayCronJob.ray.io": _TIMED,
    "JobSet.jobset.x-k8s.io": KindRule(
        (TemplatePart("spec.replicatedJobs[*]", is_job=True),), suspend="spec.suspend", is_batch=True
    ),
    "PyTorchJob.kubeflow.org": _training("pytorchReplicaSpecs"),
    "TFJob.kubeflow.org": _training("tfReplicaSpecs"),
    "XGBoostJob.kubeflow.org": _training("xgbReplicaSpecs"),
    "PaddleJob.kubeflow.org": _training("paddleReplicaSpecs"),
    "JAXJob.kubeflow.org": _training("jaxReplicaSpecs"),
    "MXJob.kubeflow.org": _training("mxReplicaSpecs"),
    "MPIJob.kubeflow.org": _training("mpiReplicaSpecs"),
    "TrainJob.trainer.kubeflow.org": KindRule(
        (TemplatePart("spec.replicatedJobs[*]", is_job=True),),
        complete=with_runtime,
        counts=(Count(fields=("trainer.numNodes",)),),
        suspend="spec.suspend",
        is_batch=True,
    ),
    "StrimziPodSet.core.strimzi.io": KindRule(
        (TemplatePart("spec.pods[*]", "{part}", "", (), "metadata.name"),)
    ),
    "AppWrapper.workload.codeflare.dev": KindRule(
        objects="spec.components[*].template", suspend="spec.suspend", is_batch=True
    ),
    "Sandbox.agents.x-k8s.io": KindRule((TemplatePart("spec", "{name}", "podTemplate"),)),
    # Pods that follow from more than the object has.
    "Workflow.argoproj.io": _STEPS,
    "PipelineRun.tekton.dev": _STEPS,
    "TaskRun.tekton.dev": _STEPS,
    # Simulated (`deployment_rollout`), unless their pods do not follow from their templates.
    "Rollout.argoproj.io": KindRule(
        counts=(Count(),), why_left_out="whose template is that of another workload"
    ),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": KindRule(
        counts=(Count(fields=("replicas", "leaderWorkerTemplate.size")),),
        why_left_out="whose groups each have a topology of their own",
    ),
    **COUNTED,
    # What others refer to, and objects that mirror the pods of others.
    **dict.fromkeys(
        ("ClusterTrainingRuntime.trainer.kubeflow.org", "TrainingRuntime.trainer.kubeflow.org"),
        _READ,
    ),
    **dict.fromkeys(
        (
            "VirtualMachineInstancetype.instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype.instancetype.kubevirt.io",
            *("KafkaTopic.kafka.strimzi.io", "SidecarSet.apps.kruise.io"),
            "ProvisioningRequest.autoscaling.x-k8s.io",
            *("ServingRuntime.serving.kserve.io", "ClusterServingRuntime.serving.kserve.io"),
            *("ClusterServiceVersion.operators.coreos.com", "Instrumentation.opentelemetry.io"),
            *("ServiceMonitor.monitoring.coreos.com", "PodMonitor.monitoring.coreos.com"),
            *("PrometheusRule.monitoring.coreos.com", "ScaledObject.keda.sh", "AppProject.argoproj.io"),
        ),
        _NONE,
    ),
}

QUEUED = frozenset(
    {
        *("JobSet.jobset.x-k8s.io", "RayCluster.ray.io", "RayJob.ray.io"),
        *("PyTorchJob.kubeflow.org", "TFJob.kubeflow.org", "XGBoostJob.kubeflow.org"),
        *("PaddleJob.kubeflow.org", "JAXJob.kubeflow.org", "MPIJob.kubeflow.org"),
    }
)
"""The kinds of other projects that go through queues of Kueue."""
PAST_QUEUES = frozenset(
    {
        *("RayService.ray.io", "TrainJob.trainer.kubeflow.org"),
        *("SparkApplication.sparkoperator.k8s.io", "AppWrapper.workload.codeflare.dev"),
    }
)
"""Those that Kueue holds in its queues as well, which is not simulated."""
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
        *("apiextensions.k8s.io", "cluster.x-k8s.io"),
        *("apiextensions.crossplane.io", "work.karmada.io", "work.open-cluster-management.io"),
        *("types.kubefed.io", "spdx.softwarecomposition.kubescape.io", "karpenter.sh", "karpenter.k8s.aws"),
        *("cert-manager.io", "acme.cert-manager.io", "external-secrets.io", "source.toolkit.fluxcd.io"),
        *("networking.istio.io", "security.istio.io", "cilium.io", "crd.projectcalico.org", "traefik.io"),
        *("kueue.x-k8s.io", "config.openshift.io", "route.openshift.io", "security.openshift.io"),
        *("machine.openshift.io", "machineconfiguration.openshift.io", "autoscaling.openshift.io"),
        *("eksctl.io", "cloud.google.com", "networking.gke.io"),
    }
)
"""Groups whose objects make no pods: definitions, policies, and mirrors of what other clusters have."""
POLICY_GROUPS = (
    *("kyverno.io", "policies.kyverno.io", "constraints.gatekeeper.sh", "mutations.gatekeeper.sh"),
    *("templates.gatekeeper.sh", "config.gatekeeper.sh"),
)
"""Groups of the policies of Kyverno and Gatekeeper."""
_TEMPLATES = ("Template", "Definition", "Binding", "NodeClass")
"""How kinds end of which others make their objects, or read how nodes are made."""


def rule_of(full_kind: str) -> KindRule | None:
    """Return what a kind makes; None for a kind that is not known.

    Parameters
    ----------
    full_kind : str
        Kind and API group: ``Job.batch.volcano.sh``.
    """
    kind, _, group = full_kind.partition(".")
    if full_kind in RULES:
        return RULES[full_kind]
    if group in POLICY_GROUPS:
        return _READ
    return _NONE if kind in MACHINES or group in _NO_PODS or kind.endswith(_TEMPLATES) else None


def is_not_read(full_kind: str) -> bool:
    """Whether a kind that is not read is known to make no pods of its own.

    Returns
    -------
    bool
        True for the kinds of Kubernetes itself; False for those that nothing is known of.
    """
    rule, group = rule_of(full_kind), full_kind.partition(".")[2]
    return "." not in group or group.endswith(".k8s.io") if rule is None else rule.why_none is not None


# ---- replacements ------------------------------------------------------------------------------------------
#
# The pods that operators make in place of those that are gone.


def replacement(pod: Pod, is_replica: bool = False) -> Pod | None:
    """Return the pod that an operator makes when one of its pods is gone: an equal one.

    Parameters
    ----------
    is_replica : bool
        Whether the pod is one of several that its controller keeps up.

    Returns
    -------
    Pod or None
        Of the same name, or with the prefix of a generated one. None for a pod that has ended by itself, for
        one of a batch workload, and for one whose controller is of no kind in the table of kinds.
    """
    meta = pod.metadata
    owner = meta.controller()
    rule = rule_of(full_kind(owner.kind, owner.api_version)) if owner is not None else None
    if not is_replica and (rule is None or rule.why_none is not None or rule.is_batch):
        return None
    if pod.status.phase in FINISHED and meta.deletion_timestamp is None:
        return None
    new = ObjectMeta(
        name="" if meta.generate_name else meta.name,
        generate_name=meta.generate_name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=meta.owner_references,
    )
    status = POD_GATED if pod.spec.scheduling_gates else POD_PENDING
    return Pod(metadata=new, spec=replace(pod.spec, node_name=""), status=status)
