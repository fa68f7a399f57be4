"""What the table of kinds can say about a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moorage.errors import InputError
from moorage.lazy import NamedTuple

# ---- kind values -------------------------------------------------------------------------------------------
#
# JSON values of objects, and the groups of pods that follow from them.

Values = dict[str, Any]
"""An object as a JSON value."""
Find = Callable[[str, str, str], Values | None]
"""Returns a listed object by its kind with its group, its namespace and its name."""


class Group(NamedTuple):
    """Pods of one template that an object asks for.

    Attributes
    ----------
    name : str
        Name of the pods; one that ends in ``-`` is completed at random, and ``{index}`` counts the pods.
    template : dict
        Metadata and spec, as a JSON value.
    path : str
        Of the template in the object, for errors.
    first : int
        The first index.
    is_job : bool
        Whether the template is that of a Job.
    """

    name: str
    number: int
    template: Values
    path: str = "spec"
    first: int = 0
    is_job: bool = False


Groups = Iterator[Group]


def map_of(value: Any, *names: str) -> Values:
    """Return a map inside of a map; empty if there is none.

    Parameters
    ----------
    *names : str
        Keys from the outside in.
    """
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def maps_of(value: Any) -> list[Values]:
    """Return the maps in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number_of(value: Any, default: int, path: str) -> int:
    """Return a number of pods.

    Parameters
    ----------
    value : object
        None is the default.
    path : str
        Path of the field, for errors.

    Raises
    ------
    InputError
        It is not a whole number.
    """
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError("not a whole number", path=path)
    return value


def picked(value: Values, *names: str) -> Values:
    """Return those fields of a map that are set."""
    return {name: value[name] for name in names if value.get(name) is not None}


def name_of(obj: Values) -> str:
    """Return the name of an object."""
    return str(map_of(obj, "metadata").get("name", ""))


# ---- kind rules --------------------------------------------------------------------------------------------

NOT_SIMULATED = "which is not simulated"


class TemplatePart(NamedTuple):
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


class Count(NamedTuple):
    """How many pods a part of an object asks for that are not made; a part with ``enabled: false`` for none.

    Attributes
    ----------
    at : str
        Path of the maps that are such a part.
    fields : tuple of str
        Fields of the map whose product is the number.
    default : int
        What a missing field is.
    only : (str, frozenset), optional
        A field of the map, and the values with which it counts.
    per_node : str, optional
        Path of a map with node selector, affinity and tolerations: the number is for each node that they
        take. "" is the map itself.
    device : str
        Beginning of a resource or label that these nodes have.
    """

    at: str = "spec"
    fields: tuple[str, ...] = ("replicas",)
    default: int = 1
    only: tuple[str, frozenset[object]] = ("", frozenset())
    per_node: str | None = None
    device: str = ""


class KindRule(NamedTuple):
    """What a kind makes.

    Attributes
    ----------
    parts : tuple of TemplatePart
        The templates of pods or Jobs.
    groups : callable, optional
        Makes the groups of pods from the templates in the object, if more than their numbers follows from it.
    complete : callable, optional
        Returns the object with what other objects have that it refers to; a text says why there is none, as
        in `why_left_out`.
    objects : str
        Path of whole objects in the object.
    counts : tuple of Count
        What the object asks for if its pods are not made; without any it is one pod.
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
    renders : str
        What renders the manifests that the object delivers.
    is_exact : bool
        Whether the number of pods is that of the object, and not one that its controller changes.
    is_read : bool
        Whether other objects refer to one of a kind that makes no pods itself.
    """

    parts: tuple[TemplatePart, ...] = ()
    groups: Callable[[Values], Groups] | None = None
    complete: Callable[[Values, Find], Values | str] | None = None
    objects: str = ""
    counts: tuple[Count, ...] = ()
    suspend: str = ""
    is_batch: bool = False
    scheduler: str = ""
    why_none: str | None = None
    why_left_out: str = NOT_SIMULATED
    renders: str = ""
    is_exact: bool = True
    is_read: bool = False


# ---- ray ---------------------------------------------------------------------------------------------------
#
# The pods of Ray clusters, as KubeRay v1.7 makes them of their templates.


def _same(cpu: str, memory: str) -> Values:
    """Return resources with equal requests and limits."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


_AUTOSCALER = _same("500m", "512Mi")
_WAITS = {"name": "wait-gcs-ready", "image": "ray", "resources": _same("200m", "256Mi")}
"""The init container of a worker, which waits for the head."""
_SUBMITTER = {
    "name": "ray-job-submitter",
    "image": "ray",
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}


def ray_pods(field: str) -> Any:
    """Return a function that makes the head and the workers of a RayCluster, RayJob or RayService.

    A group has `replicas`, or `minReplicas`, times `numOfHosts` workers. An autoscaler may run beside the
    head, and a Job submits a RayJob.

    Parameters
    ----------
    field : str
        The field of the spec with the cluster; "" for a RayCluster.
    """

    def groups(obj: Values) -> Groups:
        spec, name = map_of(obj, "spec"), name_of(obj)
        cluster, path = (map_of(spec, field), f"spec.{field}") if field else (spec, "spec")
        if head := map_of(cluster, "headGroupSpec", "template"):
            if cluster.get("enableInTreeAutoscaling"):
                resources = map_of(cluster, "autoscalerOptions", "resources") or _AUTOSCALER
                autoscaler = {"name": "autoscaler", "image": "ray", "resources": resources}
                head = _with(head, "containers", autoscaler)
            yield Group(f"{name}-head-", 1, head, f"{path}.headGroupSpec.template")
        for at, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            where = f"{path}.workerGroupSpecs[{at}]"
            count = 0 if group.get("suspend") else _workers(group, where)
            template = _with(map_of(group, "template"), "initContainers", _WAITS)
            yield Group(f"{name}-{group.get('groupName')}-worker-", count, template, f"{where}.template")
        if obj.get("kind") == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
            template = map_of(spec, "submitterPodTemplate") or {"spec": {"containers": [_SUBMITTER]}}
            job = {"spec": {"template": template}}
            yield Group(name, 1, job, "spec.submitterPodTemplate", is_job=True)

    return groups


def _workers(group: Values, path: str) -> int:
    least = number_of(group.get("minReplicas"), 0, f"{path}.minReplicas")
    most = number_of(group.get("maxReplicas"), 2**31 - 1, f"{path}.maxReplicas")
    replicas = number_of(group.get("replicas"), least, f"{path}.replicas")
    return min(max(replicas, least), most) * number_of(group.get("numOfHosts"), 1, f"{path}.numOfHosts")


def _with(template: Values, field: str, container: Values) -> Values:
    """Return a template with one more container at the end of a list of them."""
    spec = map_of(template, "spec")
    return template | {"spec": spec | {field: [*(spec.get(field) or ()), container]}}


# ---- training ----------------------------------------------------------------------------------------------
#
# The Jobs of a TrainJob of Kubeflow Trainer, which a training runtime has the templates of.

_GROUP = "trainer.kubeflow.org"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_ONCE = ("trainer", "dataset-initializer", "model-initializer")
_NODE = "node"


def with_runtime(obj: Values, find: Find) -> Values | str:
    """Return a TrainJob with the replicated Jobs of its runtime, as the JobSet has them that it makes.

    The numbers of nodes and the resources per node are those of the TrainJob, else those of the runtime
    (Kubeflow Trainer v2.1).

    Returns
    -------
    dict or str
        Why its pods do not follow, if the runtime is not listed or the TrainJob patches it.
    """
    spec, namespace = map_of(obj, "spec"), str(map_of(obj, "metadata").get("namespace", ""))
    reference = map_of(spec, "runtimeRef")
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name", ""))
    runtime = find(f"{kind}.{_GROUP}", namespace if kind == "TrainingRuntime" else "", name)
    if runtime is None:
        return f"whose {kind} {name} is not in the input"
    for field in ("podTemplateOverrides", "runtimePatches"):
        if spec.get(field):
            return f"whose {field} change its runtime"
    policy = map_of(runtime, "spec", "mlPolicy")
    jobs = maps_of(map_of(runtime, "spec", "template", "spec").get("replicatedJobs"))
    jobs_made = [_with_numbers(job, map_of(spec, "trainer"), policy) for job in jobs]
    return obj | {"spec": spec | {"replicatedJobs": jobs_made}}


def _with_numbers(job: Values, trainer: Values, policy: Values) -> Values:
    """Return a replicated Job with its number of pods and the resources of its container."""
    template = map_of(job, "template")
    step, spec = map_of(template, "metadata", "labels").get(_STEP), map_of(template, "spec")
    mpi = policy.get("mpi")
    runs_launcher = bool(map_of(policy, "mpi").get("runLauncherAsNode"))
    count = number_of(spec.get("parallelism"), 1, "parallelism")
    nodes = trainer.get("numNodes")
    if step == "trainer" and policy:
        count = number_of(policy.get("numNodes"), 1, "spec.mlPolicy.numNodes")
    if nodes is not None and mpi is not None and job.get("name") == _NODE:
        count = max(nodes - 1, 1) if runs_launcher else nodes
    elif nodes is not None and mpi is None and step == "trainer":
        count = nodes
    pod = map_of(spec, "template", "spec")
    if (step == "trainer" and policy) or (runs_launcher and job.get("name") == _NODE):
        containers = [_with_resources(container, trainer) for container in maps_of(pod.get("containers"))]
        pod = pod | {"containers": containers}
    spec = spec | {"template": map_of(spec, "template") | {"spec": pod}}
    spec |= {"parallelism": count, "completions": count}
    once = {"replicas": 1} if step in _ONCE else {}
    return job | once | {"template": template | {"spec": spec}}


def _with_resources(container: Values, trainer: Values) -> Values:
    """Return a container with the resources per node, if it is that of a node."""
    given = map_of(trainer, "resourcesPerNode")
    if container.get("name") != _NODE or not given:
        return container
    own = map_of(container, "resources")
    merged = {field: map_of(own, field) | map_of(given, field) for field in ("requests", "limits")}
    return container | {"resources": own | merged}
