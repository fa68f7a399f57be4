"""Scenarios: timelines as YAML (``kind: Scenario``, replay.moorage.dev/v1), and arrivals that are drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from moorage.autoscalers.group_settings import Time
from moorage.cluster.verbs import EVENTS
from moorage.errors import InputError, located
from moorage.kube import Cluster, Object, Pod, write_cluster
from moorage.kube.apiserver.decode import decode_object
from moorage.kube.plain import object_to_dict
from moorage.kube.read.files import source_name
from moorage.kube.read.load import load
from moorage.kube.read.python_values import dump_yaml
from moorage.kube.strict_documents import Strict, decode_part, parse_duration, read_document

from .event_columns import AutoscalerSpec, Verb, checked, spec_value

if TYPE_CHECKING:
    from .event_columns import EventColumns


# ---- arrivals ----------------------------------------------------------------------------------------------
#
# Arrival times and lifetimes of pods, drawn from the distributions that workload models use.
#
# Numbers are those of numpy's RandomState, whose streams are the same in all versions of numpy.

DAY = 86400.0
Times = npt.NDArray[np.float64]
_MOST = 100_000_000


def poisson(rate: float, until: float, *, start: float = 0.0, seed: int = 0) -> Times:
    """Draw the arrivals of a Poisson process.

    Parameters
    ----------
    rate : float
        Arrivals per second.
    until : float
        Seconds; all arrivals are before it.
    start : float, optional
        Seconds.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        The rate is not positive, or there would be more than 10^8 arrivals.
    """
    _check(rate, start, until)
    random = np.random.RandomState(seed)
    number = random.poisson(rate * (until - start))
    return np.sort(random.uniform(start, until, number))


def bursts(
    size: int, every: float, until: float, *, start: float = 0.0, spread: float = 0.0, seed: int = 0
) -> Times:
    """Draw bursts of arrivals at regular times.

    Parameters
    ----------
    size : int
        Arrivals in a burst.
    every : float
        Seconds between the starts of two bursts.
    until : float
        Seconds; all bursts start before it.
    start : float, optional
        Start of the first burst, in seconds.
    spread : float, optional
        Seconds over which the arrivals of a burst are distributed evenly at random; 0 for one instant.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        A number is out of range, or there would be more than 10^8 arrivals.
    """
    if size < 0 or spread < 0 or not every > 0:
        raise InputError("size and spread must not be negative, and every must be positive", obj="bursts")
    _check(max(size, 1) / every, start, until)
    starts = np.repeat(np.arange(start, until, every), size)
    return np.sort(starts + np.random.RandomState(seed).uniform(0, spread, len(starts)))


def diurnal(  # noqa: PLR0913
    rate: float,
    until: float,
    *,
    amplitude: float = 0.5,
    peak: float = 14 * 3600.0,
    period: float = DAY,
    start: float = 0.0,
    seed: int = 0,
) -> Times:
    """Draw arrivals whose rate follows a cosine over the day.

    The rate at t is ``rate * (1 + amplitude * cos(2 pi (t - peak) / period))``. The process is a Poisson
    process of the highest rate, thinned (Lewis and Shedler, 1979).

    Parameters
    ----------
    rate : float
        Mean arrivals per second.
    until : float
        Seconds.
    amplitude : float, optional
        0 to 1.
    peak : float, optional
        Seconds after the start of the period.
    period : float, optional
        Seconds.
    start : float, optional
        Seconds.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        A number is out of range, or there would be more than 10^8 arrivals.
    """
    if not (0 <= amplitude <= 1 and period > 0):
        raise InputError("amplitude must be between 0 and 1, and period positive", obj="diurnal")
    most = rate * (1 + amplitude)
    times = poisson(most, until, start=start, seed=seed)
    now = rate * (1 + amplitude * np.cos(2 * math.pi * (times - peak) / period))
    kept = np.random.RandomState([seed, 1]).uniform(0, most, len(times)) < now
    return times[kept]


def exponential(mean: float, count: int, *, seed: int = 0) -> Times:
    """Draw exponential lifetimes.

    Parameters
    ----------
    mean : float
        Seconds.

    Returns
    -------
    (count,) float64 array
        Seconds.

    Raises
    ------
    InputError
        The mean or the count is negative.
    """
    if mean < 0 or count < 0:
        raise InputError("mean and count must not be negative", obj="exponential")
    # Another stream than that of the arrivals with the same seed.
    return np.random.RandomState([seed, 2]).exponential(mean, count)


def lognormal(median: float, sigma: float, count: int, *, seed: int = 0) -> Times:
    """Draw log-normal lifetimes, which have the long tail of batch jobs.

    Parameters
    ----------
    median : float
        Seconds.
    sigma : float
        Standard deviation of the logarithm, a number without a unit.

    Returns
    -------
    (count,) float64 array
        Seconds.

    Raises
    ------
    InputError
        The median is not positive, or sigma or the count is negative.
    """
    if not median > 0 or sigma < 0 or count < 0:
        raise InputError("median must be positive, sigma and count must not be negative", obj="lognormal")
    return np.random.RandomState([seed, 3]).lognormal(math.log(median), sigma, count)


def _check(rate: float, start: float, until: float) -> None:
    if not (rate > 0 and start >= 0 and math.isfinite(until)):
        raise InputError("the rate must be positive, start at least 0, and until finite", obj="arrivals")
    if rate * max(0.0, until - start) > _MOST:
        raise InputError(f"more than {_MOST} arrivals", obj="arrivals")
    if until < start:
        raise InputError("must not be before the start", obj="arrivals", path="until")


# ---- scenario ----------------------------------------------------------------------------------------------

API_VERSION, KIND = "replay.moorage.dev/v1", "Scenario"


class Lifetime(Strict, frozen=True):
    """How long pods live: one of the fields."""

    constant: Time | None = None
    exponential: Time | None = None
    lognormal: tuple[Time, float] | None = None
    """Median, and standard deviation of the logarithm."""


class Arrivals(Strict, frozen=True):
    """Pods of a template that arrive at random; see `poisson`, `bursts` and `diurnal`."""

    template: str
    process: str
    until: Time
    rate: float = 1.0
    size: int = 1
    every: Time = 60
    spread: Time = 0
    amplitude: float = 0.5
    peak: Time = "14h"
    start: Time = 0
    seed: int = 0
    name: str = ""
    lifetime: Lifetime | None = None


class EventItem(Strict, frozen=True):
    """One event: a time, one verb with what it is about, and what the verb needs besides."""

    time: Time
    create: str | dict[str, Any] | None = None
    apply: str | dict[str, Any] | None = None
    delete: str | None = None
    patch: str | None = None
    scale: str | None = None
    join: str | dict[str, Any] | None = None
    leave: str | None = None
    drain: str | None = None
    cordon: str | None = None
    uncordon: str | None = None
    taint: str | None = None
    label: str | None = None
    measure: str | None = None
    bind: str | None = None
    name: str = ""
    count: int = 1
    node: str = ""
    replicas: int | None = None
    with_: dict[str, Any] | list[str] | None = msgspec.field(default=None, name="with")


class Spec(Strict, frozen=True):
    """What is in a scenario."""

    cluster: list[str] = []
    templates: dict[str, dict[str, Any]] = {}
    arrivals: list[Arrivals] = []
    events: list[EventItem] = []
    measures: list[str | dict[str, dict[str, Any]]] = []
    autoscaler: AutoscalerSpec | None = None


class Scenario(Strict, frozen=True):
    """A file of a timeline."""

    api_version: str
    kind: str
    spec: Spec = Spec()
    metadata: dict[str, Any] = {}


MAKING = ("create", "apply", "join")
VERBS = (*MAKING, *[verb.name.lower() for verb in Verb if verb.name.lower() not in MAKING])
FIELDS = {"patch": "with", "bind": "node"} | {name: verb.field for name, verb in EVENTS.items()}
"""The fields of events that have what a verb needs besides its subject."""


def read_scenario(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read a scenario into an empty timeline.

    Raises
    ------
    InputError
        The file cannot be read or is no scenario; names the event and the field.
    """
    if len(paths) != 1:
        raise InputError(f"a scenario is one file, not {len(paths)}")
    path = paths[0]
    with located(source=source_name(str(path))):
        scenario = read_document(path, Scenario, API_VERSION, KIND)
        spec = scenario.spec
        folder = Path(path).parent
        if spec.cluster:
            timeline.start_with(load(*[folder / name for name in spec.cluster]))
        templates = dict[str, Object]()
        for name, value in spec.templates.items():
            with located(path=f"spec.templates.{name}"):
                templates[name] = decode_object(dict(value))
        for at, item in enumerate(spec.arrivals):
            with located(path=f"spec.arrivals[{at}]"):
                _add_arrivals(timeline, item, templates)
        for at, event in enumerate(spec.events):
            with located(path=f"spec.events[{at}]"):
                _add_event(timeline, event, templates)
        timeline.measures = spec.measures
        if spec.autoscaler is not None:
            with located(path="spec.autoscaler"):
                timeline.autoscaler = checked(spec.autoscaler, templates)


def add_events(timeline: EventColumns, items: Sequence[Mapping[str, Any]]) -> None:
    """Add events to a timeline.

    Parameters
    ----------
    items : sequence of mapping
        JSON values, as ``spec.events`` of a scenario has them.

    Raises
    ------
    InputError
        Names the event and the field.
    """
    for at, item in enumerate(items):
        with located(path=f"events[{at}]"):
            _add_event(timeline, decode_part(item, EventItem), {})


def _made(what: str | dict[str, Any], templates: Mapping[str, Object]) -> Object:
    """Return the object that an event creates: a template by name, or an object in place."""
    if isinstance(what, dict):
        return decode_object(what)
    if what not in templates:
        raise InputError(f'there is no template "{what}"')
    return templates[what]


def _add_event(timeline: EventColumns, item: EventItem, templates: Mapping[str, Object]) -> None:
    verbs = [verb for verb in VERBS if getattr(item, verb) is not None]
    if len(verbs) != 1:
        raise InputError(f"must have one of {', '.join(VERBS)}, not {len(verbs)}")
    verb, time = verbs[0], parse_duration(item.time)
    given = {"name": item.name != "", "count": item.count != 1, "with": item.with_ is not None}
    given |= {"replicas": item.replicas is not None, "node": item.node != ""}
    taken = {"name", "count"} if verb in ("create", "join") else {FIELDS.get(verb)}
    extras = {name for name, is_given in given.items() if is_given} - taken
    if extras:
        raise InputError(f"{verb} has no field {min(extras)}")
    subject = getattr(item, verb)
    if verb in ("create", "join"):
        _create(timeline, time, _made(subject, templates), item)
    elif verb == "apply":
        timeline.apply(time, _made(subject, templates))
    else:
        getattr(timeline, verb)(time, subject, *_arguments(verb, item))


def _arguments(verb: str, item: EventItem) -> Sequence[Any]:
    """Return what a verb needs besides its subject."""
    field = FIELDS.get(verb)
    if not field:
        return ()
    value = item.with_ if field == "with" else getattr(item, field)
    kind, what = (dict, "merge patch") if verb == "patch" else (list, f"list of {verb}s")
    if field == "with" and not isinstance(value, kind):
        raise InputError(f"must be a {what}", path=field)
    if value in (None, ""):
        raise InputError("required", path=field)
    return value if isinstance(value, list) else (value,)


def _create(timeline: EventColumns, time: float, obj: Object, item: EventItem) -> None:
    if item.join is not None and obj.kind != "Node":
        raise InputError(f"must be a Node, not a {obj.kind}", path="join")
    if item.count < 1:
        raise InputError(f"must be at least 1, not {item.count}", path="count")
    base = item.name or obj.name
    for number in range(item.count):
        timeline.create(time, obj, f"{base}-{number}" if item.count > 1 else base)


def _add_arrivals(timeline: EventColumns, item: Arrivals, templates: Mapping[str, Object]) -> None:
    template = _made(item.template, templates)
    if not isinstance(template, Pod):
        raise InputError(f"must be a Pod, not a {template.kind}", path="template")
    until, start = parse_duration(item.until), parse_duration(item.start)
    if item.process == "poisson":
        times = poisson(item.rate, until, start=start, seed=item.seed)
    elif item.process == "bursts":
        every, spread = parse_duration(item.every), parse_duration(item.spread)
        times = bursts(item.size, every, until, start=start, spread=spread, seed=item.seed)
    elif item.process == "diurnal":
        wave = {"amplitude": item.amplitude, "peak": parse_duration(item.peak)}
        times = diurnal(item.rate, until, start=start, seed=item.seed, **wave)
    else:
        raise InputError(f'must be poisson, bursts or diurnal, not "{item.process}"', path="process")
    timeline.add_pods(template, times, _lifetimes(item, len(times)), item.name or item.template)


def _lifetimes(item: Arrivals, count: int) -> Times | None:
    life = item.lifetime
    if life is None:
        return None
    given = [name for name in life.__struct_fields__ if getattr(life, name) is not None]
    if len(given) != 1:
        raise InputError("must have one of constant, exponential, lognormal", path="lifetime")
    if life.constant is not None:
        return np.full(count, parse_duration(life.constant))
    if life.exponential is not None:
        return exponential(parse_duration(life.exponential), count, seed=item.seed)
    assert life.lognormal is not None
    median, sigma = life.lognormal
    return lognormal(parse_duration(median), sigma, count, seed=item.seed)


# ---- writing -----------------------------------------------------------------------------------------------


def write_scenario(timeline: EventColumns, path: str | Path) -> None:
    """Write a timeline as a scenario; its cluster goes into a second file, ``NAME.cluster.yaml``.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    target = Path(path)
    names = {at: f"template-{at}" for at, obj in enumerate(timeline.arguments) if isinstance(obj, Object)}
    spec: dict[str, Any] = {}
    try:
        if timeline.cluster != Cluster():
            beside = target.with_name(f"{target.stem}.cluster.yaml")
            write_cluster(beside, timeline.cluster)
            spec["cluster"] = [beside.name]
        if names:
            spec["templates"] = {name: object_to_dict(timeline.template_at(at)) for at, name in names.items()}
        if len(timeline):
            spec["events"] = [_item(timeline, at, names) for at in range(len(timeline))]
        if timeline.measures:
            spec["measures"] = timeline.measures
        if timeline.autoscaler is not None:
            spec["autoscaler"] = spec_value(timeline.autoscaler)
        document = {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
        target.write_text(dump_yaml(document))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=source_name(str(path))) from None


def _item(timeline: EventColumns, at: int, names: Mapping[int, str]) -> dict[str, Any]:
    """Return one event as a JSON value."""
    event, number = timeline.event(at), timeline.argument_number(at)
    time = int(event.time) if event.time == math.floor(event.time) else event.time
    verb, subject = event.verb.name.lower(), event.subject
    head: dict[str, Any] = {"time": time}
    if event.verb is Verb.CREATE:
        return head | {verb: names[number], "name": subject.rpartition("/")[2]}
    if event.verb is Verb.APPLY:
        return head | {verb: names[number]}
    extra: dict[str, Any] = {}
    if event.argument is not None:
        value = list(event.argument) if isinstance(event.argument, tuple) else event.argument
        extra = {FIELDS[verb]: value}
    return head | {verb: subject} | extra
