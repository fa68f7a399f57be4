"""Reads sweeps (``kind: Sweep``, sweep.moorage.dev/v1) and lists their cells."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from moorage._version import __version__
from moorage.errors import InputError, located
from moorage.kube.read.files import read_file, source_name
from moorage.kube.strict_documents import Strict, decode_document, read_document, read_value

API_VERSION, KIND = "sweep.moorage.dev/v1", "Sweep"
Seed = Annotated[int, msgspec.Meta(ge=0)]


def _default(value: Any) -> Any:
    """A default value of a field that is made anew for each object."""
    return msgspec.field(default_factory=partial(copy.deepcopy, value))


class TimelineSource(Strict, frozen=True):
    """Files of a timeline, as `Timeline.read` takes them.

    Attributes
    ----------
    files : list of str
        Relative to the folder of the sweep.
    options : dict
        Of the format; ``$seed`` stands for the seed of the cell.
    """

    files: list[str]
    format: str = "auto"
    options: dict[str, Any] = {}


class Seeds(Strict, frozen=True):
    """Consecutive seeds."""

    first: Seed = 0
    count: int = 1


class ReplayOptions(Strict, frozen=True):
    """How timelines are replayed; see `replay` and `Scheduler`."""

    until: str | float | None = None
    on_failure: Literal["retry", "drop"] = "retry"
    tie_break: Literal["go-heap", "first", "random"] = "go-heap"


class SweepSpec(Strict, frozen=True):
    """The axes of a sweep, and what is measured.

    Attributes
    ----------
    configurations : dict of str to (str or dict)
        KubeSchedulerConfigurations: paths, or documents in place. ``$seed`` stands for the seed of the cell,
        ``$typicalPods`` for the typical pods of the timeline (`typical_pods`).
    seeds : list of int or Seeds
        Different ones, from 0 on.
    changes : dict of str to list of dict
        Events of a scenario (``kind: Scenario``) that are added to the timeline.
    measures : list of str or dict
        Names of `MEASURES`, or ``module:function``, or ``{name: options}``; by default those of
        `History.summary`. Placeholders stand for the same as in configurations.
    """

    timelines: dict[str, TimelineSource]
    configurations: dict[str, str | dict[str, Any]] = _default({"default": {}})
    seeds: list[Seed] | Seeds = _default([0])
    changes: dict[str, list[dict[str, Any]]] = _default({"none": []})
    measures: list[str | dict[str, dict[str, Any]]] = _default(["summary"])
    replay: ReplayOptions = ReplayOptions()


class Sweep(Strict, frozen=True):
    """A sweep, as a file has it."""

    api_version: str = API_VERSION
    kind: str = KIND
    spec: SweepSpec = msgspec.field(default_factory=lambda: SweepSpec({}))
    metadata: dict[str, Any] = {}


class Cell(msgspec.Struct, frozen=True):
    """One replay of a sweep. Its result depends on these fields alone.

    Attributes
    ----------
    names : tuple of str
        Of its configuration, timeline and change.
    key : str
        Digest of the inputs, contents of files included.
    """

    names: tuple[str, str, str]
    seed: int
    timeline: TimelineSource
    configuration: dict[str, Any]
    change: list[dict[str, Any]]
    measures: tuple[str | dict[str, dict[str, Any]], ...]
    replay: ReplayOptions
    key: str = ""


def read_sweep(path: str | Path) -> Sweep:
    """Read a sweep from a YAML file.

    Raises
    ------
    InputError
        The file cannot be read or is no sweep; names the field.
    """
    with located(source=source_name(str(path))):
        return read_document(path, Sweep, API_VERSION, KIND)


def decode_sweep(document: Any) -> Sweep:
    """Decode a sweep.

    Raises
    ------
    InputError
        It is no sweep of a known version, or a field is unknown or has a wrong type.
    """
    return decode_document(document, Sweep, API_VERSION, KIND)


def cells_of(sweep: Sweep, folder: Path, plugins: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of a sweep: configurations, by these timelines, changes and seeds.

    Parameters
    ----------
    folder : Path
        To which paths are relative.
    plugins : sequence of str, optional
        What tells the user's own plugins from others.

    Raises
    ------
    InputError
        An axis is empty, a seed is there twice, or a file cannot be read.
    """
    return list(_cells(sweep.spec, folder, plugins))


def _cells(spec: SweepSpec, folder: Path, plugins: Sequence[str]) -> Iterator[Cell]:
    seeds = spec.seeds
    if not isinstance(seeds, list):
        if seeds.count < 1:
            raise InputError(f"must be at least 1, not {seeds.count}", path="spec.seeds.count")
        seeds = list(range(seeds.first, seeds.first + seeds.count))
    axes = {
        "configurations": spec.configurations,
        "timelines": spec.timelines,
        "changes": spec.changes,
        "seeds": seeds,
        "measures": spec.measures,
    }
    for name, axis in axes.items():
        if not axis:
            raise InputError("must not be empty", path=f"spec.{name}")
    if len(set(seeds)) < len(seeds):  # they would count as independent replays
        raise InputError("must differ from each other", path="spec.seeds")
    configurations = {
        name: _configuration(name, value, folder) for name, value in spec.configurations.items()
    }
    timelines = {
        name: msgspec.structs.replace(source, files=[str(folder / file) for file in source.files])
        for name, source in spec.timelines.items()
    }
    digests = {name: [_digest(path) for path in source.files] for name, source in timelines.items()}
    for config, timeline, change, seed in product(configurations, timelines, spec.changes, seeds):
        cell = Cell(
            (config, timeline, change),
            seed,
            timelines[timeline],
            configurations[config],
            spec.changes[change],
            tuple(spec.measures),
            spec.replay,
        )
        yield msgspec.structs.replace(cell, key=_key(cell, digests[timeline], plugins))


def _configuration(name: str, value: str | Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a configuration as a document; errors name the field, and then the file."""
    if not isinstance(value, str):
        return dict(value)
    path = str(folder / value)
    try:
        with located(source=source_name(path)):
            document = read_value(path)
            if not isinstance(document, dict):
                raise InputError("must be one KubeSchedulerConfiguration")
    except InputError as error:
        raise InputError(str(error), path=f"spec.configurations.{name}") from None
    return document


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except InputError:  # which the check of its cells tells
        return ""


def _key(cell: Cell, digests: list[str], plugins: Sequence[str]) -> str:
    """Return a digest of everything on which the result of a cell depends."""
    inputs = msgspec.to_builtins(cell)
    inputs["timeline"]["files"] = digests  # contents, wherever the files are
    del inputs["names"]
    inputs["version"] = __version__
    if plugins:
        inputs["plugins"] = list(plugins)
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def with_placeholders(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a JSON value in which texts such as ``$seed`` are replaced.

    Parameters
    ----------
    values : mapping of str to object
        Values by text; one that is callable is called when it is needed.
    """
    if isinstance(value, str) and value in values:
        replacement = values[value]
        return replacement() if callable(replacement) else replacement
    if isinstance(value, dict):
        return {name: with_placeholders(part, values) for name, part in value.items()}
    if isinstance(value, list):
        return [with_placeholders(part, values) for part in value]
    return value
