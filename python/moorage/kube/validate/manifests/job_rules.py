"""Rules of Jobs and CronJobs (kubernetes v1.36, pkg/apis/batch/validation)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins
from msgspec.structs import replace

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.kube.go_texts import go_json
from moorage.kube.model.field_rules import MAX_DNS_LABEL
from moorage.kube.model.meta import LabelSelector
from moorage.kube.model.workload import (
    CronJob,
    Job,
    JobSpec,
    PodFailurePolicyRule,
    SuccessPolicyRule,
    unselected,
)

from .cron_schedules import schedule_error, zone_error

_MOST_INDEXED, _MOST_OF_MANY = 100_000, 10_000
_MAX_CRON_JOB_NAME = 52
_PREFIXES = ("batch.kubernetes.io/", "")
_NEW_UID = "UID"
"""Stands for the uid that the server makes."""


def job_errors(obj: Job) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the spec of a Job, and with the labels by which it knows its pods."""
    yield from _spec_errors(obj.spec, "spec.")
    yield from _selector_errors(obj)
    if len(obj.name) > MAX_DNS_LABEL:
        text = f"must be no more than {MAX_DNS_LABEL} bytes"
        yield "spec.template.labels", f"Invalid value: {go_json(obj.name)}: {text}"


def _selector_errors(job: Job) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with labels and selector: unless the user chose them, they have the uid that the
    server makes for a new Job, and its name."""
    spec, selector, labels = job.spec, job.spec.selector, job.spec.template.metadata.labels
    if not spec.manual_selector:
        uid = job.metadata.uid or _NEW_UID
        own = {f"{prefix}controller-uid": uid for prefix in _PREFIXES}
        own |= {f"{prefix}job-name": job.name for prefix in _PREFIXES}
        labels = own | labels
        for key in sorted(own):
            if labels[key] != own[key]:
                shown = go_json(dict(sorted(labels.items())))
                text = f"Invalid value: {shown}: must be '{own[key]}'"
                yield f"spec.template.metadata.labels[{key}]", text
        if selector is None:
            return
        uids = {f"{_PREFIXES[0]}controller-uid": uid}
        selector = replace(selector, match_labels=uids | selector.match_labels)
        if not LabelSelectorMatcher(selector).matches(own):
            yield "spec.selector", f"Invalid value: {_shown(selector)}: `selector` not auto-generated"
    if selector is None:
        yield "spec.selector", "Required value"
    if selector is None or not LabelSelectorMatcher(selector).matches(labels):
        yield "spec.template.metadata.labels", unselected(labels)


def _shown(selector: LabelSelector) -> str:
    return go_json(to_builtins(selector, order="sorted"))


def cron_job_errors(obj: CronJob) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the name and the schedule of a CronJob, and with its Jobs."""
    schedule, zone = obj.spec.schedule, obj.spec.time_zone
    if not schedule:
        yield "spec.schedule", "Required value"
    elif error := schedule_error(schedule):
        yield "spec.schedule", f"Invalid value: {go_json(schedule)}: {error}"
    if zone is not None and (error := zone_error(zone)):
        yield "spec.timeZone", f"Invalid value: {go_json(zone)}: {error}"
    spec = obj.spec.job_template.spec
    yield from _spec_errors(spec, "spec.jobTemplate.spec.")
    if spec.selector is not None:
        text = f"Invalid value: {_shown(spec.selector)}: `selector` will be auto-generated"
        yield "spec.jobTemplate.spec.selector", text
    if spec.manual_selector:
        text = 'Unsupported value: true: supported values: "nil", "false"'
        yield "spec.jobTemplate.spec.manualSelector", text
    if len(obj.name) > _MAX_CRON_JOB_NAME:
        text = f"Invalid value: {go_json(obj.name)}: must be no more than {_MAX_CRON_JOB_NAME} characters"
        yield "metadata.name", text


def _spec_errors(spec: JobSpec, path: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a spec, whose fields have names that begin with a path."""
    for field, text in _index_errors(spec):
        yield path + field, text
    if spec.managed_by is not None:
        for text in _manager_errors(spec.managed_by):
            yield f"{path}managedBy", f"Invalid value: {text}"
    policy, restarts = spec.pod_failure_policy, spec.template.spec.restart_policy
    for at, rule in enumerate(() if policy is None else policy.rules):
        for field, text in _failure_errors(spec, rule):
            yield f"{path}podFailurePolicy.rules[{at}]{field}", text
    if policy is not None and spec.pod_replacement_policy == "TerminatingOrFailed":
        text = 'Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
        yield f"{path}podReplacementPolicy", text
    if restarts in ("", "Always"):
        yield f"{path}template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"'
    elif policy is not None and restarts != "Never":
        text = f'Invalid value: "{restarts}": only "Never" is supported when podFailurePolicy is specified'
        yield f"{path}template.spec.restartPolicy", text


def _manager_errors(name: str) -> Iterator[str]:
    """Yield what is wrong with the name of what manages a Job instead of the controller of Jobs."""
    from moorage.kube.cel.library.named_formats import format_errors  # few Jobs name one

    domain, slash, _ = name.partition("/")
    if not slash:
        yield f'{go_json(name)}: must be a domain-prefixed path (such as "acme.io/foo")'
    else:
        yield from [f"{go_json(domain)}: {text}" for text in format_errors("dns1123Subdomain", domain)]


def _index_errors(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with numbers and indexes of pods."""
    per_index, failed, pods = spec.backoff_limit_per_index, spec.max_failed_indexes, spec.parallelism
    completions = spec.completions
    if failed is not None and per_index is None:
        yield "backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"
    if spec.completion_mode != "Indexed":
        for field, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                yield field, f"Invalid value: {value}: requires indexed completion mode"
        if spec.success_policy is not None:
            rules = [
                {"SucceededIndexes": rule.succeeded_indexes, "SucceededCount": rule.succeeded_count}
                for rule in spec.success_policy.rules
            ]
            shown = go_json({"Rules": rules})
            yield "successPolicy", f"Invalid value: {shown}: requires indexed completion mode"
        return
    for at, rule in enumerate(() if spec.success_policy is None else spec.success_policy.rules):
        for field, text in _success_errors(rule, completions or 0):
            yield f"successPolicy.rules[{at}]{field}", text
    if completions is None and pods is not None:
        yield "completions", "Required value: when completion mode is Indexed"
    bound = "must be less than or equal to"
    if pods is not None and pods > _MOST_INDEXED:
        yield "parallelism", f"Invalid value: {pods}: {bound} {_MOST_INDEXED} when completion mode is Indexed"
    if failed is not None and completions is not None and failed > completions:
        yield "maxFailedIndexes", f"Invalid value: {failed}: {bound} completions"
    if failed is not None and failed > _MOST_INDEXED:
        yield "maxFailedIndexes", f"Invalid value: {failed}: {bound} {_MOST_INDEXED}"
    if completions is None or completions <= _MOST_INDEXED or per_index is None:
        return
    many = f"completions are above {_MOST_INDEXED} and used with backoff limit per index"
    if failed is None:
        text = f"Required value: must be specified when completions is above {_MOST_INDEXED}"
        yield "maxFailedIndexes", text
    for field, value in (("parallelism", pods), ("maxFailedIndexes", failed)):
        if value is not None and value > _MOST_OF_MANY:
            yield field, f"Invalid value: {value}: {bound} {_MOST_OF_MANY} when {many}"


def _success_errors(rule: SuccessPolicyRule, completions: int) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a rule of a success policy: indexes rise, and stay below the completions."""
    if rule.succeeded_indexes is None and rule.succeeded_count is None:
        yield "", "Required value: at least one of succeededCount or succeededIndexes must be specified"
    number, before = completions, -1
    if rule.succeeded_indexes is not None:
        number = 0
        for item in filter(None, rule.succeeded_indexes.split(",")):
            first, _, last = item.partition("-")
            start, end = int(first), int(last or first)
            wrong = ""
            if start <= before:
                wrong = f"non-increasing order, previous: {before}, current: {start}"
            elif end < start:
                wrong = f"non-increasing order, previous: {start}, current: {end}"
            elif end >= completions:
                index = first if start >= completions else last
                wrong = f'too large index: "{index}"'
            if wrong:
                shown = go_json(rule.succeeded_indexes)
                yield ".succeededIndexes", f"Invalid value: {shown}: error parsing succeededIndexes: {wrong}"
                return
            number, before = number + end - start + 1, end
    if rule.succeeded_count is not None and rule.succeeded_count > number:
        bound = "completions"
        if rule.succeeded_indexes is not None:
            bound = f"{number} (the number of indexes in the specified succeededIndexes field)"
        text = f"Invalid value: {rule.succeeded_count}: must be less than or equal to {bound}"
        yield ".succeededCount", text


def _failure_errors(spec: JobSpec, rule: PodFailurePolicyRule) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a rule of a failure policy."""
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        yield ".action", 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'
    on_codes = rule.on_exit_codes
    if on_codes is not None and rule.on_pod_conditions:
        yield "", "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
    if on_codes is None and not rule.on_pod_conditions:
        yield "", "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
    if on_codes is not None:
        pod, name, codes = spec.template.spec, on_codes.container_name, [*on_codes.values]
        if name is not None and name not in {one.name for one in (*pod.containers, *pod.init_containers)}:
            what = "must be one of the container or initContainer names in the pod template"
            yield ".onExitCodes.containerName", f'Invalid value: "{name}": {what}'
        if not codes:
            yield ".onExitCodes.values", "Invalid value: []: at least one value is required"
        for at, code in enumerate(codes):
            if code == 0 and on_codes.operator == "In":
                yield f".onExitCodes.values[{at}]", "Invalid value: 0: must not be 0 for the In operator"
            if code in codes[:at]:
                yield f".onExitCodes.values[{at}]", f"Duplicate value: {code}"
        if codes != sorted(codes):
            yield ".onExitCodes.values", f"Invalid value: {go_json(codes)}: must be ordered"
    for at, condition in enumerate(rule.on_pod_conditions):
        if condition.status not in ("False", "True", "Unknown"):
            text = f'Unsupported value: "{condition.status}": supported values: "False", "True", "Unknown"'
            yield f".onPodConditions[{at}].status", text
