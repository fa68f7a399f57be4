"""The Jobs of a TrainJob of Kubeflow Trainer, which a training runtime has the templates of."""

from __future__ import annotations

from .kind_values import Find, Values, map_of, maps_of, number_of

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
    found = find(f"{kind}.{_GROUP}", namespace if kind == "TrainingRuntime" else "", name)
    if found is None:
        return f"whose {kind} {name} is not in the input"
    for field in ("podTemplateOverrides", "runtimePatches"):
        if spec.get(field):
            return f"whose {field} change its runtime"
    policy = map_of(found, "spec", "mlPolicy")
    jobs = maps_of(map_of(found, "spec", "template", "spec").get("replicatedJobs"))
    made = [_with_numbers(job, map_of(spec, "trainer"), policy) for job in jobs]
    return obj | {"spec": spec | {"replicatedJobs": made}}


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
        containers = [_with_resources(one, trainer) for one in maps_of(pod.get("containers"))]
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
