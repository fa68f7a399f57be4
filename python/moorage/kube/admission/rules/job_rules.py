"""Rules of Jobs and CronJobs (kubernetes v1.36, pkg/apis/batch/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from moorage.lazy import NamedTuple

from ...field_errors import Fault, Json, invalid, part, parts, required, unsupported
from ...go_texts import go_json, parse_duration
from ...model.meta import MAX_DNS_LABEL, is_dns_label
from ...model.workload import unselected
from ...workloads.job_state import OF_JOB, job_labels
from ..field_checks import Rules, of_new
from .scheduling_rules import selector_causes, selects

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
_NEW_UID = "UID"
"""Stands for the uid that the server makes."""


def _name(root: Json) -> str:
    return str(part(root, "metadata").get("name") or "")


def _job_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    """The spec of a Job, or of the Jobs of a CronJob."""
    yield from _index_errors(spec, path)
    if root.get("kind") == "Job":
        yield from _host_errors(spec, part(root, "metadata"))
    if (manager := spec.get("managedBy")) is not None:
        for value, why in _manager_errors(manager):
            yield Fault(f"{path}.managedBy", invalid(value, why))
    policy, restarts = spec.get("podFailurePolicy"), _pod(spec).get("restartPolicy") or "Always"
    for at, rule in enumerate(parts(part(spec, "podFailurePolicy"), "rules")):
        yield from _failure_errors(spec, rule, f"{path}.podFailurePolicy.rules[{at}]")
    field = f"{path}.template.spec.restartPolicy"
    if restarts == "Always":
        yield Fault(field, required('valid values: "OnFailure", "Never"'))
    elif restarts not in ("OnFailure", "Never"):
        yield Fault(field, unsupported(restarts, ("OnFailure", "Never")))
    elif policy is not None and restarts != "Never":
        yield Fault(field, invalid(restarts, 'only "Never" is supported when podFailurePolicy is specified'))
    if root.get("kind") == "Job":
        yield from _selector_errors(spec, root)
        if len(_name(root)) > MAX_DNS_LABEL:
            why = f"must be no more than {MAX_DNS_LABEL} bytes"
            yield Fault("spec.template.labels", invalid(_name(root), why))


def _pod(spec: Json) -> Json:
    return part(part(spec, "template"), "spec")


def _selector_errors(spec: Json, root: Json) -> Iterator[Fault]:
    """Labels and selector: unless the user chose them, they have the uid that the server makes for a new Job,
    and its name."""
    selector = spec.get("selector")
    if isinstance(selector, dict) and selector_causes(selector):
        return
    field, labels = "spec.template.metadata.labels", part(part(part(spec, "template"), "metadata"), "labels")
    if not spec.get("manualSelector"):
        uid = part(root, "metadata").get("uid") or _NEW_UID
        own = job_labels(uid, _name(root))
        labels = own | labels
        for key in sorted(own):
            if labels[key] != own[key]:
                yield Fault(f"{field}[{key}]", invalid(dict(sorted(labels.items())), f"must be '{own[key]}'"))
        if selector is None:
            return
        wanted = dict(sorted(({OF_JOB: uid} | part(selector, "matchLabels")).items()))
        selector = selector | {"matchLabels": wanted}
        if not selects(selector, own):
            yield Fault("spec.selector", invalid(selector, "`selector` not auto-generated"))
    if selector is None:
        yield Fault("spec.selector", required())
    if selector is None or not selects(selector, labels):
        yield Fault(field, unselected(labels))


def _cron_job_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    """The name and the schedule of a CronJob, and what its Jobs may not have."""
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if schedule and (why := schedule_error(schedule)):
        yield Fault(f"{path}.schedule", invalid(schedule, why))
    if zone is not None and (why := zone_error(zone)):
        yield Fault(f"{path}.timeZone", invalid(zone, why))
    if len(_name(root)) > _MAX_CRON_JOB_NAME:
        why = f"must be no more than {_MAX_CRON_JOB_NAME} characters"
        yield Fault("metadata.name", invalid(_name(root), why))


def _manager_errors(name: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the name of what manages a Job instead of the controller of Jobs."""
    domain, slash, _ = name.partition("/")
    if not slash:
        yield name, 'must be a domain-prefixed path (such as "acme.io/foo")'
    else:
        from ...cel.text_formats import format_errors  # few Jobs name a manager

        yield from ((domain, text) for text in format_errors("dns1123Subdomain", domain))


def _host_errors(spec: Json, meta: Json) -> Iterator[Fault]:
    """The name of an Indexed Job, of which its pods have their host names."""
    name, completions = meta.get("name") or "", spec.get("completions")
    is_generated = not name and meta.get("generateName")
    if spec.get("completionMode") != "Indexed" or not completions or is_generated:
        return
    last = f"{name}-{completions - 1}"
    if not is_dns_label(last):
        why = f"will not able to create pod with invalid DNS label: {last}"
        yield Fault("metadata.name", invalid(name, why))


def _completion_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    """An Indexed Job without a number of pods; one without parallelism, too, has 1 of them."""
    is_given = spec.get("parallelism") is not None or root.get("kind") == "CronJob"
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None and is_given:
        yield Fault(f"{path}.completions", required("when completion mode is Indexed"))


def _index_errors(spec: Json, path: str) -> Iterator[Fault]:
    """Numbers and indexes of pods."""
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    completions, pods = spec.get("completions"), spec.get("parallelism")
    rules = parts(part(spec, "successPolicy"), "rules")
    if spec.get("completionMode") != "Indexed":
        if spec.get("successPolicy") is not None:
            names = {"SucceededIndexes": "succeededIndexes", "SucceededCount": "succeededCount"}
            shown = [{name: rule.get(field) for name, field in names.items()} for rule in rules]
            why = "requires indexed completion mode"
            yield Fault(f"{path}.successPolicy", invalid({"Rules": shown}, why))
        return
    for at, rule in enumerate(rules):
        yield from _success_errors(rule, completions or 0, f"{path}.successPolicy.rules[{at}]")
    bound = "must be less than or equal to"
    if failed is not None and completions is not None and failed > completions:
        yield Fault(f"{path}.maxFailedIndexes", invalid(failed, f"{bound} completions"))
    if completions is None or completions <= _MOST_INDEXED or per_index is None:
        return
    many = f"completions are above {_MOST_INDEXED} and used with backoff limit per index"
    if failed is None:
        why = f"must be specified when completions is above {_MOST_INDEXED}"
        yield Fault(f"{path}.maxFailedIndexes", required(why))
    for name, value in (("parallelism", pods), ("maxFailedIndexes", failed)):
        if value is not None and value > _MOST_OF_MANY:
            yield Fault(f"{path}.{name}", invalid(value, f"{bound} {_MOST_OF_MANY} when {many}"))


def _success_errors(rule: Json, completions: int, path: str) -> Iterator[Fault]:
    """A rule of a success policy: indexes rise, and stay below the completions."""
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield Fault(path, required("at least one of succeededCount or succeededIndexes must be specified"))
    number = completions
    if indexes is not None:
        number, ranges = 0, list[range]()
        with suppress(ValueError):  # which another rule tells
            ranges = _ranges_of(indexes)
        for each in ranges:
            number += each.stop - each.start
            if each[-1] >= completions:
                index = each[0] if each[0] >= completions else each[-1]
                why = f'error parsing succeededIndexes: too large index: "{index}"'
                yield Fault(f"{path}.succeededIndexes", invalid(indexes, why))
                break
    if count is not None and count > number:
        bound = "completions"
        if indexes is not None:
            bound = f"{number} (the number of indexes in the specified succeededIndexes field)"
        yield Fault(f"{path}.succeededCount", invalid(count, f"must be less than or equal to {bound}"))


def _success_index_errors(rule: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Indexes that are no numbers, or do not rise."""
    indexes = rule.get("succeededIndexes") or ""
    try:
        _ranges_of(indexes)
    except ValueError as error:
        yield Fault(f"{path}.succeededIndexes", invalid(indexes, f"error parsing succeededIndexes: {error}"))


def _ranges_of(indexes: str) -> list[range]:
    """Return the indexes that a text such as ``1,3-5`` has.

    Raises
    ------
    ValueError
        It is malformed.
    """
    ranges, before = list[range](), -1
    for item in filter(None, indexes.split(",")):
        first, _, last = item.partition("-")
        for text in (first, last or first):
            if re.fullmatch("[0-9]+", text) is None:
                raise ValueError(f"cannot convert string to integer for index: {go_json(text)}")
        start, end = int(first), int(last or first)
        if start <= before:
            raise ValueError(f"non-increasing order, previous: {before}, current: {start}")
        if end < start:
            raise ValueError(f"non-increasing order, previous: {start}, current: {end}")
        ranges.append(range(start, end + 1))
        before = end
    return ranges


def _failure_errors(spec: Json, rule: Json, path: str) -> Iterator[Fault]:
    """A rule of a failure policy."""
    action, on_codes, conditions = rule.get("action"), rule.get("onExitCodes"), parts(rule, "onPodConditions")
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield Fault(f"{path}.action", invalid(action, "requires the backoffLimitPerIndex to be set"))
    if on_codes is not None and conditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield Fault(path, f"Invalid value: {why}")
    if on_codes is None and not conditions:
        why = "specifying one of OnExitCodes and OnPodConditions is required"
        yield Fault(path, f"Invalid value: {why}")
    if isinstance(on_codes, dict):
        yield from _exit_code_errors(spec, on_codes, f"{path}.onExitCodes")


def _exit_code_errors(spec: Json, on_codes: Json, path: str) -> Iterator[Fault]:
    pod, operator = _pod(spec), on_codes.get("operator")
    name, codes = on_codes.get("containerName"), on_codes.get("values") or []
    names = {item.get("name") for which in ("containers", "initContainers") for item in parts(pod, which)}
    if name is not None and name not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield Fault(f"{path}.containerName", invalid(name, why))
    if not codes:
        yield Fault(f"{path}.values", invalid([], "at least one value is required"))
    for at, code in enumerate(codes):
        if code == 0 and operator == "In":
            yield Fault(f"{path}.values[{at}]", invalid(0, "must not be 0 for the In operator"))
    if codes != sorted(codes):
        yield Fault(f"{path}.values", invalid(codes, "must be ordered"))


RULES: Rules = {
    "batch.v1.JobSpec": (of_new(_job_errors), _completion_errors),
    "batch.v1.SuccessPolicyRule": (_success_index_errors,),
    "batch.v1.CronJobSpec": (_cron_job_errors,),
}
"""By struct, the rules between its fields."""
