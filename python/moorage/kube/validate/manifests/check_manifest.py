"""Checks a new or changed object by all rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.errors import InputError
from moorage.kube.model.admission_policies import LimitRange, ResourceQuota
from moorage.kube.model.autoscaling import HorizontalPodAutoscaler
from moorage.kube.model.meta import Object
from moorage.kube.model.workload import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

from .job_rules import cron_job_errors, job_errors
from .quota_rules import limit_range_errors, quota_errors
from .workload_rules import (
    autoscaler_errors,
    container_errors,
    deployment_errors,
    lasting_pod_errors,
    priority_class_errors,
    replication_controller_errors,
    selector_errors,
    stateful_set_errors,
)

_LASTING = (container_errors, lasting_pod_errors)
_RULES: Mapping[type[Object], tuple[Callable[[Any], Iterator[tuple[str, str]]], ...]] = {
    Deployment: (selector_errors, *_LASTING, deployment_errors),
    ReplicaSet: (selector_errors, *_LASTING),
    StatefulSet: (selector_errors, *_LASTING, stateful_set_errors),
    DaemonSet: (selector_errors, *_LASTING),
    ReplicationController: (replication_controller_errors, *_LASTING),
    HorizontalPodAutoscaler: (autoscaler_errors,),
    Job: (container_errors, job_errors),
    CronJob: (cron_job_errors,),
    ResourceQuota: (quota_errors,),
    LimitRange: (limit_range_errors,),
    PriorityClass: (priority_class_errors,),
}
"""By kind, what yields fields that the API server refuses, with its texts. Objects have no defaults yet."""


def check_manifest(obj: Object, before: Object | None = None) -> None:
    """Check an object as the API server does that creates or changes it.

    Objects that are in a cluster have passed these rules once, and are not looked at.

    Parameters
    ----------
    obj : Object
        Valid (see `validate`), without defaults.
    before : Object, optional
        What it changes. The API server has accepted what is wrong with that as well.

    Raises
    ------
    InputError
        It is refused. The text has all causes, in the order of the rules.
    """
    known = () if before is None else {*_causes(before)}
    causes = [cause for cause in dict.fromkeys(_causes(obj)) if cause not in known]
    if len(causes) == 1:
        path, _, text = causes[0].partition(": ")
        raise InputError(text, path=path)
    if causes:
        raise InputError(f"[{', '.join(causes)}]")


def _causes(obj: Object) -> Iterator[str]:
    """Yield field and text of what is wrong."""
    for rules in _RULES.get(type(obj), ()):
        yield from (f"{field}: {text}" for field, text in rules(obj))
