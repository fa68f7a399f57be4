"""Rules of Jobs and CronJobs (kubernetes v1.36, pkg/apis/batch/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from moorage._core.base.selectors import LabelSelectorMatcher

from ..go_texts import go_json, parse_duration
from ..model.meta import MAX_DNS_LABEL, LabelSelector
from ..model.workload import CronJob, Job, JobSpec, PodFailurePolicyRule, SuccessPolicyRule, unselected

# ---- cron schedules ----------------------------------------------------------------------------------------
#
# Schedules of CronJobs and budgets: the grammar of robfig/cron v3 (ParseStandard), with its texts.

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_ZONE_PART = re.compile(r"(?!-|\.\.?$)[A-Za-z.\-_0-9+ ]{1,14}")
_MOST_DIGITS = 18


class _Bounds(NamedTuple):
    """The least and the greatest number of a field, and names of its numbers from the least one on."""

    least: int
    greatest: int
    names: tuple[str, ...] = ()


_FIELDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))
"""Minute, hour, day of the month, month, and day of the week."""


class CronField(NamedTuple):
    """The numbers of a field, and whether a star stands for them."""

    values: frozenset[int]
    is_any: bool


def schedule_error(schedule: str) -> str:
    """Return what is wrong with a schedule, "" if nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    try:
        parse_schedule(schedule)
    except ValueError as error:
        return str(error)
    return ""


def zone_error(name: str) -> str:
    """Return what is wrong with a time zone, "" if nothing is.

    Where this machine has no database of time zones, all names of a right form pass.
    """
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.casefold() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    if not all(map(_ZONE_PART.fullmatch, name.split("/"))):
        return f"unknown time zone {name}"
    return "" if _is_zone(name) or not _is_zone("Europe/Berlin") else f"unknown time zone {name}"


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few CronJobs name a zone

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@lru_cache(256)
def parse_schedule(schedule: str) -> tuple[CronField, ...]:
    """Return the five fields of a schedule; none for ``@every``, whose times are counted from its begin.

    Raises
    ------
    ValueError
        It is malformed.
    """
    if schedule.startswith(_EVERY):
        try:
            parse_duration(schedule.removeprefix(_EVERY))
        except ValueError as error:
            raise ValueError(f"failed to parse duration {schedule}: {error}") from None
        return ()
    if schedule.startswith("@") and schedule not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {schedule}")
    texts = _DESCRIPTORS.get(schedule, schedule).split()
    if len(texts) != len(_FIELDS):
        shown = f"[{' '.join(texts)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(texts)}: {shown}")
    fields = []
    for text, bounds in zip(texts, _FIELDS, strict=True):
        parts = [_parse_range(part, bounds) for part in text.split(",") if part]
        fields.append(
            CronField(frozenset().union(*(part.values for part in parts)), any(part.is_any for part in parts))
        )
    return tuple(fields)


def _parse_range(text: str, bounds: _Bounds) -> CronField:
    """Parse ``*``, ``1``, ``1-5``, each with ``/2`` or without."""
    ends, *steps = text.split("/")
    first, *rest = ends.split("-")
    start, end = bounds[:2]
    if first not in ("*", "?"):
        start = end = _number(first, bounds)
        if len(rest) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if rest:
            end = _number(rest[0], bounds)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and not rest:
        end = bounds.greatest
    if start < bounds.least:
        raise ValueError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.greatest:
        raise ValueError(f"end of range ({end}) above maximum ({bounds.greatest}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return CronField(frozenset(range(start, end + 1, step)), first in ("*", "?") and step == 1)


def _number(text: str, bounds: _Bounds) -> int:
    if (name := text.lower()) in bounds.names:
        return bounds.least + bounds.names.index(name)
    return _integer(text)


def _integer(text: str) -> int:
    """Parse a number as strconv.Atoi does; a minus sign has no place here."""
    if re.fullmatch(r"\+?[0-9]+", text) is None:
        why = "invalid syntax"
    elif len(text.lstrip("+0")) > _MOST_DIGITS:
        why = "value out of range"
    else:
        return int(text)
    raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {why}')


# ---- job rules ---------------------------------------------------------------------------------------------

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
    from ..cel.text_formats import format_errors  # few Jobs name one

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
        if name is not None and name not in {
            container.name for container in (*pod.containers, *pod.init_containers)
        }:
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
