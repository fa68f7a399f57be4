"""Checks a new or changed object by all rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage.errors import InputError
from moorage.objects.model.admission_policies import LimitRange, ResourceQuota
from moorage.objects.model.autoscaling import HorizontalPodAutoscaler
from moorage.objects.model.meta import Object
from moorage.objects.model.workload import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

from .job_rules import of_cron_job, of_job
from .quota_rules import of_limit_range, of_quota
from .workload_rules import (
    of_autoscaler,
    of_containers,
    of_deployment,
    of_lasting_pods,
    of_priority_class,
    of_replication_controller,
    of_selector,
    of_stateful_set,
)

_LASTING = (of_containers, of_lasting_pods)
_RULES: Mapping[type[Object], tuple[Callable[[Any], Iterator[tuple[str, str]]], ...]] = {
    Deployment: (of_selector, *_LASTING, of_deployment),
    ReplicaSet: (of_selector, *_LASTING),
    StatefulSet: (of_selector, *_LASTING, of_stateful_set),
    DaemonSet: (of_selector, *_LASTING),
    ReplicationController: (of_replication_controller, *_LASTING),
    HorizontalPodAutoscaler: (of_autoscaler,),
    Job: (of_containers, of_job),
    CronJob: (of_cron_job,),
    ResourceQuota: (of_quota,),
    LimitRange: (of_limit_range,),
    PriorityClass: (of_priority_class,),
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
