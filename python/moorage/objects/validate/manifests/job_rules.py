"""Rules of Jobs and CronJobs (kubernetes v1.36, pkg/apis/batch/validation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from moorage.go_texts import go_json
from moorage.objects.model.workload import CronJob, Job, JobSpec, PodFailurePolicyRule

from .cron_schedules import schedule_error, zone_error
from .rule import Breaches, Rule, when

_MOST_INDEXED, _MOST_OF_MANY = 100_000, 10_000
_MAX_CRON_JOB_NAME = 52


def _above(value: int | None, most: int | None) -> bool:
    return value is not None and most is not None and value > most


def _is_indexed(spec: JobSpec) -> bool:
    return spec.completion_mode == "Indexed"


def _has_many(spec: JobSpec) -> bool:
    return (
        _is_indexed(spec)
        and _above(spec.completions, _MOST_INDEXED)
        and spec.backoff_limit_per_index is not None
    )


def _only_indexed(name: str) -> Callable[[JobSpec], Breaches]:
    """Return the rule that a field needs the completion mode Indexed."""

    def breaches(spec: JobSpec) -> Breaches:
        value = getattr(spec, name)
        return when(value is not None and not _is_indexed(spec), value)

    return breaches


def _at_most(
    name: str, most: int, applies: Callable[[JobSpec], bool] = _is_indexed
) -> Callable[[JobSpec], Breaches]:
    """Return the rule that a number of some Jobs is limited."""
    return lambda spec: when(applies(spec) and _above(getattr(spec, name), most), getattr(spec, name), most)


def _never_only(spec: JobSpec) -> Breaches:
    policy = spec.template.spec.restart_policy
    return when(spec.pod_failure_policy is not None and policy not in ("", "Always", "Never"), policy)


def _replaced_early(spec: JobSpec) -> Breaches:
    policy = spec.pod_replacement_policy
    return when(spec.pod_failure_policy is not None and policy == "TerminatingOrFailed", policy)


def _of_failures(
    breaches: Callable[[JobSpec, PodFailurePolicyRule], Iterable[tuple[object, ...]]],
) -> Callable[[JobSpec], Breaches]:
    """Return a rule about each rule of a failure policy; the index of that comes first in a breach."""

    def of_all(spec: JobSpec) -> Iterator[tuple[object, ...]]:
        policy = spec.pod_failure_policy
        for at, rule in enumerate(() if policy is None else policy.rules):
            yield from ((at, *values) for values in breaches(spec, rule))

    return of_all


def _unknown_container(spec: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    name = None if rule.on_exit_codes is None else rule.on_exit_codes.container_name
    names = {one.name for one in (*spec.template.spec.containers, *spec.template.spec.init_containers)}
    return when(name is not None and name not in names, name)


def _codes(rule: PodFailurePolicyRule) -> list[int]:
    return [] if rule.on_exit_codes is None else [*rule.on_exit_codes.values]


def _zero_codes(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    is_in = rule.on_exit_codes is not None and rule.on_exit_codes.operator == "In"
    return [(at,) for at, code in enumerate(_codes(rule)) if code == 0 and is_in]


def _repeated_codes(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    codes = _codes(rule)
    return [(at, code) for at, code in enumerate(codes) if code in codes[:at]]


def _unordered_codes(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    codes = _codes(rule)
    return when(codes != sorted(codes), go_json(codes))


def _lacks_codes(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    return when(rule.on_exit_codes is not None and not _codes(rule))


def _odd_conditions(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    statuses = [one.status for one in rule.on_pod_conditions]
    return [(at, one) for at, one in enumerate(statuses) if one not in ("False", "True", "Unknown")]


def _succeeds_early(spec: JobSpec) -> Breaches:
    policy = spec.success_policy
    if policy is None or _is_indexed(spec):
        return []
    shown = [
        {"SucceededIndexes": one.succeeded_indexes, "SucceededCount": one.succeeded_count}
        for one in policy.rules
    ]
    return when(True, go_json({"Rules": shown}))


def _fails_index(spec: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    return when(rule.action == "FailIndex" and spec.backoff_limit_per_index is None)


def _many_reasons(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    return when(rule.on_exit_codes is not None and bool(rule.on_pod_conditions))


def _no_reason(_: JobSpec, rule: PodFailurePolicyRule) -> Breaches:
    return when(rule.on_exit_codes is None and not rule.on_pod_conditions)


_FAILURE = "podFailurePolicy.rules[{}]"
_CODES = f"{_FAILURE}.onExitCodes"

_OF_JOB_SPECS: tuple[tuple[str, Callable[[JobSpec], Breaches], str], ...] = (
    (
        "backoffLimitPerIndex",
        lambda spec: when(spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None),
        "Required value: when maxFailedIndexes is specified",
    ),
    (
        "completions",
        lambda spec: when(_is_indexed(spec) and spec.completions is None and spec.parallelism is not None),
        "Required value: when completion mode is Indexed",
    ),
    (
        "parallelism",
        _at_most("parallelism", _MOST_INDEXED),
        "Invalid value: {}: must be less than or equal to {} when completion mode is Indexed",
    ),
    (
        "maxFailedIndexes",
        lambda spec: when(
            _is_indexed(spec) and _above(spec.max_failed_indexes, spec.completions), spec.max_failed_indexes
        ),
        "Invalid value: {}: must be less than or equal to completions",
    ),
    (
        "maxFailedIndexes",
        _at_most("max_failed_indexes", _MOST_INDEXED),
        "Invalid value: {}: must be less than or equal to {}",
    ),
    (
        "maxFailedIndexes",
        lambda spec: when(_has_many(spec) and spec.max_failed_indexes is None, _MOST_INDEXED),
        "Required value: must be specified when completions is above {}",
    ),
    (
        "parallelism",
        _at_most("parallelism", _MOST_OF_MANY, _has_many),
        "Invalid value: {}: must be less than or equal to {} when completions are above 100000 and used with "
        "backoff limit per index",
    ),
    (
        "maxFailedIndexes",
        _at_most("max_failed_indexes", _MOST_OF_MANY, _has_many),
        "Invalid value: {}: must be less than or equal to {} when completions are above 100000 and used with "
        "backoff limit per index",
    ),
    *(
        (field, _only_indexed(name), "Invalid value: {}: requires indexed completion mode")
        for field, name in (
            ("backoffLimitPerIndex", "backoff_limit_per_index"),
            ("maxFailedIndexes", "max_failed_indexes"),
        )
    ),
    ("successPolicy", _succeeds_early, "Invalid value: {}: requires indexed completion mode"),
    (
        f"{_FAILURE}.action",
        _of_failures(_fails_index),
        'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
    ),
    (
        _FAILURE,
        _of_failures(_many_reasons),
        "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
    ),
    (
        _FAILURE,
        _of_failures(_no_reason),
        "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
    ),
    (
        f"{_CODES}.containerName",
        _of_failures(_unknown_container),
        'Invalid value: "{}": must be one of the container or initContainer names in the pod template',
    ),
    (f"{_CODES}.values", _of_failures(_lacks_codes), "Invalid value: []: at least one value is required"),
    (
        f"{_CODES}.values[{{}}]",
        _of_failures(_zero_codes),
        "Invalid value: 0: must not be 0 for the In operator",
    ),
    (f"{_CODES}.values[{{}}]", _of_failures(_repeated_codes), "Duplicate value: {}"),
    (f"{_CODES}.values", _of_failures(_unordered_codes), "Invalid value: {}: must be ordered"),
    (
        f"{_FAILURE}.onPodConditions[{{}}].status",
        _of_failures(_odd_conditions),
        'Unsupported value: "{}": supported values: "False", "True", "Unknown"',
    ),
    ("podReplacementPolicy", _replaced_early, 'Unsupported value: "{}": supported values: "Failed"'),
    (
        "template.spec.restartPolicy",
        lambda spec: when(spec.template.spec.restart_policy in ("", "Always")),
        'Required value: valid values: "OnFailure", "Never"',
    ),
    (
        "template.spec.restartPolicy",
        _never_only,
        'Invalid value: "{}": only "Never" is supported when podFailurePolicy is specified',
    ),
)


def _of_template(breaches: Callable[[JobSpec], Breaches]) -> Callable[[CronJob], Breaches]:
    return lambda obj: breaches(obj.spec.job_template.spec)


def _of_job(breaches: Callable[[JobSpec], Breaches]) -> Callable[[Job], Breaches]:
    return lambda obj: breaches(obj.spec)


def _wrong_schedule(obj: CronJob) -> Breaches:
    schedule = obj.spec.schedule
    error = schedule_error(schedule)
    return when(bool(schedule and error), go_json(schedule), error)


def _wrong_zone(obj: CronJob) -> Breaches:
    zone = obj.spec.time_zone
    error = "" if zone is None else zone_error(zone)
    return when(bool(error), go_json(zone), error)


RULES = (
    *(Rule("Job", f"spec.{field}", _of_job(breaches), text) for field, breaches, text in _OF_JOB_SPECS),
    Rule("CronJob", "spec.schedule", lambda obj: when(not obj.spec.schedule), "Required value"),
    Rule("CronJob", "spec.schedule", _wrong_schedule, "Invalid value: {}: {}"),
    Rule("CronJob", "spec.timeZone", _wrong_zone, "Invalid value: {}: {}"),
    *(
        Rule("CronJob", f"spec.jobTemplate.spec.{field}", _of_template(breaches), text)
        for field, breaches, text in _OF_JOB_SPECS
    ),
    Rule(
        "CronJob",
        "metadata.name",
        lambda obj: when(len(obj.name) > _MAX_CRON_JOB_NAME, go_json(obj.name), _MAX_CRON_JOB_NAME),
        "Invalid value: {}: must be no more than {} characters",
    ),
)
