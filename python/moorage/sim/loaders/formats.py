"""The formats of traces by name, and which one a file has. Their readers are imported when one reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moorage.errors import InputError
from moorage.kube.read.files import YAML_SUFFIXES, has_suffix, source_name

if TYPE_CHECKING:
    from ..event_columns import EventColumns

FORMATS = {
    "alibaba2020": "moorage.sim.loaders.job_traces:read_alibaba_2020",
    "audit": "moorage.sim.loaders.recorded_objects:read_audit_log",
    "kubectl-events": "moorage.sim.loaders.recorded_objects:read_kubectl_events",
    "openb": "moorage.sim.loaders.job_traces:read_openb",
    "philly": "moorage.sim.loaders.job_traces:read_philly",
    "scenario": "moorage.sim.scenario:read_scenario",
    "simkube": "moorage.sim.loaders.recorded_objects:read_simkube",
    "swf": "moorage.sim.loaders.job_traces:read_swf",
}
"""Name of a format to the module and the function that read it. The function takes an empty timeline, the
paths, and the options of the format."""


_SUFFIXES = {".swf": "swf", ".sktrace": "simkube"}
_NAMES = {
    **dict.fromkeys(("pai_machine_spec", "pai_task_table"), "alibaba2020"),
    **dict.fromkeys(("cluster_machine_list", "cluster_job_log", "revised_machine_list"), "philly"),
}
_MARKS = {'"applied_objs"': "simkube", "audit.k8s.io/": "audit"}
"""What only files of one format have, and have at the beginning."""
_HEAD = 1 << 16


def fill(
    timeline: EventColumns, paths: Sequence[str | Path], format: str, options: Mapping[str, Any]
) -> None:
    """Read files of a format into an empty timeline.

    Parameters
    ----------
    format : str
        A name of `FORMATS`, or ``auto``.

    Raises
    ------
    InputError
        There is no such format, an option is unknown, a file cannot be read, or nothing of it was used.
    """
    if not paths:
        raise InputError("give at least one file", obj="Timeline")
    name = detect(paths) if format == "auto" else format
    if name not in FORMATS:
        raise InputError(f'there is no format "{name}"; known are {", ".join(FORMATS)}')
    read = reader(name)
    names = read.__kwdefaults__ or {}
    unknown = sorted(set(options) - set(names))
    if unknown:
        known = f"known are {', '.join(names)}" if names else "it has none"
        raise InputError(f'the format {name} has no option "{unknown[0]}"; {known}')
    read(timeline, paths, **options)
    if not len(timeline) and not timeline.cluster.nodes and name != "scenario":
        notes = "".join(f"; {number} {what}" for what, number in timeline.notes.items())
        raise InputError(f"no line was used as {name}{notes}", source=source_name(str(paths[0])))


def reader(name: str) -> Any:
    """Return the function that reads a format.

    Parameters
    ----------
    name : str
        A name of `FORMATS`.
    """
    module, _, function = FORMATS[name].partition(":")
    return getattr(import_module(module), function)


def detect(paths: Sequence[str | Path]) -> str:
    """Return the format of files.

    Raises
    ------
    InputError
        The format has to be named.
    """
    if name := recognized(paths[0]):
        return name
    names, source = ", ".join(FORMATS), source_name(str(paths[0]))
    raise InputError(
        f"cannot tell its format: name it with --format (in Python format), one of {names}", source=source
    )


def recognized(path: str | Path) -> str:
    """Return the format of a file that its name or its first lines tell; "" for another file.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    from .job_traces import is_openb
    from .trace_builder import CUT_OFF, heading, open_text

    if has_suffix(str(path), YAML_SUFFIXES):
        return "scenario"
    by_suffix = (form for suffix, form in _SUFFIXES.items() if has_suffix(str(path), (suffix,)))
    by_name = (form for part, form in _NAMES.items() if part in Path(path).name)
    if named := next(by_suffix, "") or next(by_name, ""):
        return named
    if is_openb(set(heading(path))):
        return "openb"
    with open_text(path) as file:
        try:
            head = file.read(_HEAD)
        except CUT_OFF as error:
            raise InputError(f"cannot be read: {error}", source=source_name(str(path))) from None
    if head.startswith(";"):
        return "swf"
    return next((form for mark, form in _MARKS.items() if mark in head), "")
