"""Reads the files of scheduler_perf: cases, workloads, and operations with parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.engine.framework.configuration import dependents_off
from moorage.engine.framework.configuration import feature_gates as all_gates
from moorage.errors import InputError, located
from moorage.kube.apiserver.decode import decode
from moorage.kube.read.documents import read_yaml
from moorage.kube.read.files import read_text, source_name
from moorage.kube.releases import DEFAULT, release_named
from moorage.kube.releases.feature_gates import gates_of, releases_with

from .object_templates import fold_case, read_template
from .ops import OPS, UNBUILT_OPS, CountedOp, Op, UnbuiltOp

GROUPS = "GenericWorkload"
"""The gate of pod groups."""
DEFAULT_RATE = 500
"""Scheduling attempts per second of virtual time, for a workload without a threshold."""
THROUGHPUT = "SchedulingThroughput"
QUEUE_GATES = frozenset({"SchedulerQueueingHints"})
"""Gates of the scheduling queue, whose values in a workload have no effect here."""


class _MetricSelector(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The metric that a threshold is about."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = ""
    expect_lower: bool = False


class _Workload(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    params: dict[str, Any] = {}
    labels: tuple[str, ...] = ()
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: _MetricSelector | None = None
    feature_gates: dict[str, bool] = {}


class _Case(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A case.

    The collected metrics and the rates of API clients have no effect in virtual time.
    """

    name: str
    workload_template: tuple[dict[str, Any], ...]
    workloads: tuple[_Workload, ...]
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: Any = None
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: tuple[str, ...] = ()
    default_threshold_metric_selector: _MetricSelector = _MetricSelector()
    scheduler_api_client_qps: float = msgspec.field(default=0.0, name="schedulerApiClientQPS")
    scheduler_api_client_burst: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload with its operations.

    Attributes
    ----------
    source : str
        Path of the file, for errors; template paths are relative to it.
    threshold : float or None
        Upstream's minimum in pods per second; None where the threshold is about another metric.
    feature_gates : dict of str to bool
        Gates of the case and the workload, without those of the scheduling queue.
    kubernetes_version : str
        The release that it is run as.
    ops : tuple of Op
        Operations with the parameters filled in.
    scheduler_config : Path or None
        Path of the scheduler configuration.
    pod_template : str
        Path of the template of pods whose operation names none; "" for the default of scheduler_perf.
    failure : str
        Why it cannot run: an operation that is not supported, or a parameter that it lacks, so that it fails
        upstream too; "" if it can.
    warnings : tuple of str
        Parameters that no operation uses, as upstream's own tests may.
    """

    source: str
    case: str
    name: str
    threshold: float | None
    feature_gates: Mapping[str, bool]
    kubernetes_version: str
    ops: tuple[Op, ...]
    scheduler_config: Path | None
    pod_template: str
    failure: str
    warnings: tuple[str, ...] = ()

    @property
    def rate(self) -> Fraction:
        """Scheduling attempts per second of virtual time; by default the threshold, else `DEFAULT_RATE`."""
        return Fraction(str(self.threshold or DEFAULT_RATE))

    @property
    def full_name(self) -> str:
        """The names of case and workload, with a slash between them."""
        return f"{self.case}/{self.name}"

    def path(self, relative: str) -> Path:
        """Resolve a path relative to the file.

        Parameters
        ----------
        relative : str
            The path.
        """
        return Path(self.source).parent / relative


def read_workloads(file: str, only: str = "", version: str | None = None) -> list[Workload]:
    """Read the workloads of a file, case by case.

    Parameters
    ----------
    file : str
        Path of the YAML file.
    only : str, optional
        ``CASE`` or ``CASE/WORKLOAD``; other cases are checked only for their shape.
    version : str, optional
        The release that workloads are run as; by default `DEFAULT` of `moorage.kube.releases`, or the
        first that has the pod groups of a workload.

    Returns
    -------
    list of Workload
        The selected workloads.

    Raises
    ------
    InputError
        The file is not YAML, has unknown or missing fields, unknown operations, unknown feature gates or
        unreadable template files, or the case does not exist; names workload and field.
    """
    source = source_name(file)
    documents = list(read_yaml(read_text(file), source))
    if len(documents) != 1 or not isinstance(documents[0], list):
        raise InputError("not a list of test cases", source=source)
    workloads: list[Workload] = []
    case_name, _, workload_name = only.partition("/")
    for number, document in enumerate(documents[0]):
        with located(source=source, obj=f"case {_name(document, number)}"):
            case = _decode(document, _Case)
        if only and case.name != case_name:
            continue
        chosen = [workload for workload in case.workloads if workload_name in ("", workload.name)]
        workloads += [_workload(case, workload, source, version) for workload in chosen]
    if only and not workloads:
        raise InputError(f"there is no case or workload {only}", source=source)
    return workloads


def _name(document: Any, number: int) -> str:
    name = document.get("name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else str(number + 1)


def _decode(document: Any, struct: type[Any]) -> Any:
    return decode(fold_case(document, struct), struct)


def _workload(case: _Case, workload: _Workload, source: str, version: str | None) -> Workload:
    params, failure, ops = _Params(workload.params), "", tuple[Op, ...]()
    try:
        ops = _operations(case.workload_template, params)
    except InputError as error:
        if not params.is_lacking:
            raise error.located(source=source, obj=f"{case.name}/{workload.name}") from None
        failure = str(error)
    unbuilt = (f"{op.opcode} not built yet" for op in ops if isinstance(op, UnbuiltOp))
    threshold = workload.threshold
    selector = workload.threshold_metric_selector or case.default_threshold_metric_selector
    if isinstance(threshold, dict):
        threshold = threshold.get(THROUGHPUT, 0.0)
    version, gates = _gates(case.feature_gates | workload.feature_gates, version)
    ready = Workload(
        source=source,
        case=case.name,
        name=workload.name,
        threshold=(threshold or None) if selector.name == THROUGHPUT else None,
        kubernetes_version=version,
        feature_gates=gates,
        ops=ops,
        scheduler_config=Path(source).parent / case.scheduler_config_path
        if case.scheduler_config_path
        else None,
        pod_template=case.default_pod_template_path,
        failure=failure or next(unbuilt, ""),
        warnings=tuple(
            f"{case.name}/{workload.name}: no operation uses params.{name}."
            for name in (() if failure else sorted(params.unused))
        ),
    )
    if not ready.failure:
        _check_runnable(ready)
    return ready


def _operations(documents: Sequence[dict[str, Any]], params: _Params) -> tuple[Op, ...]:
    ops = []
    for number, document in enumerate(documents):
        with located(path=f"workloadTemplate[{number}]"):
            ops.append(_op(document, params))
    for number, op in enumerate(ops):
        with located(path=f"workloadTemplate[{number}]"):
            op.check()
    return tuple(ops)


def _gates(gates: dict[str, bool], version: str | None) -> tuple[str, dict[str, bool]]:
    """The release that a workload is run as, and its feature gates; OpportunisticBatching is off by default.

    A workload with pod groups is run as the first release that has them. Gates that need one which is off are
    off, as where upstream's tests set gates.
    """
    if version is None:
        version = releases_with(GROUPS)[0] if gates.get(GROUPS) else DEFAULT
    others = {name: value for name, value in gates.items() if name not in QUEUE_GATES}
    release = release_named(version)
    given = {name: False for name in ("OpportunisticBatching",) if name in gates_of(release)} | others
    return version, dependents_off(given, release) | given


def _check_runnable(workload: Workload) -> None:
    """Refuse unknown feature gates and unreadable template files."""
    with located(ValueError, source=workload.source, obj=workload.full_name, path="featureGates"):
        all_gates(workload.feature_gates, release_named(workload.kubernetes_version))
    for path in (workload.pod_template, *(path for op in workload.ops for path in op.templates())):
        if path:
            read_template(workload.path(path))


class _Params:
    """The parameters of a workload."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.unused = set(values)
        self.is_lacking = False

    def get(self, reference: Any) -> Any:
        """The value of ``$name``, or of ``$name|default``.

        Raises
        ------
        InputError
        """
        if not isinstance(reference, str) or not reference.startswith("$"):
            raise InputError(f"{reference!r} is not the name of a parameter with $ before it")
        name, has_default, default = reference[1:].partition("|")
        if name not in self.values and not has_default:
            self.is_lacking = True
            raise InputError(f"the workload has no parameter {name}")
        self.unused.discard(name)
        return self.values.get(name, default)

    def note(self, value: Any) -> None:
        """Count all parameters that an operation names as used, without reading its fields."""
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                self.note(item)
        elif isinstance(value, str):
            self.unused.discard(value.removeprefix("$"))


def _op(document: dict[str, Any], params: _Params) -> Op:
    opcode = document.get("opcode")
    if opcode in UNBUILT_OPS:
        params.note(document)
        return UnbuiltOp(opcode=opcode)
    if opcode not in OPS:
        raise InputError(f"unknown: {opcode!r}", path="opcode")
    op: Op = _decode(document, OPS[opcode])
    filled, fields = _fill(op, params)
    # Converted again, because a parameter may have a wrong type.
    return _decode(msgspec.to_builtins(filled), OPS[opcode]) if fields else filled


def _fill(op: Op, params: _Params) -> tuple[Op, Sequence[str]]:
    """The operation with its parameters filled in, and the changed fields."""
    changes: dict[str, Any] = {}
    multiplier = 1
    for field, wire in zip(op.__struct_fields__, op.__struct_encode_fields__, strict=True):
        value = getattr(op, field)
        with located(path=wire):
            if isinstance(value, Op):
                changes[field] = _fill(value, params)[0]
            elif field == "template_params":
                changes[field] = {
                    name: params.get(item) if isinstance(item, str) and item.startswith("$") else item
                    for name, item in value.items()
                }
            elif field == "count_multiplier_param" and value:
                multiplier = params.get(value)
                if type(multiplier) is not int:
                    raise InputError(f"{multiplier!r} is not an integer")
            elif field.endswith("_param") and value:
                changes[field.removesuffix("_param")] = params.get(value)
    if isinstance(op, CountedOp) and multiplier != 1:
        changes["count"] = changes.get("count", op.count) * multiplier
    return replace(op, **changes), list(changes)
