"""New configurations from those of the vectors: each takes parts from others, and values that are wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.vectors import lines
from tests.doors.kube import dump_yaml, read_first

Json = dict[str, Any]

VALUES = (
    0,
    1,
    -1,
    5,
    50,
    100,
    101,
    2**31 - 1,
    2**31,
    1.5,
    "1",
    "x",
    "",
    "a/b",
    None,
    True,
    False,
    [],
    {},
    "5s",
    "-1s",
)
"""What a value becomes."""


def configurations(folder: Path) -> list[Json]:
    """The configurations of the vectors that are one mapping.

    Parameters
    ----------
    folder : Path
        Of files of vectors.

    Returns
    -------
    list of dict
    """
    told = [json.loads(line) for line in lines(folder / "configurations.jsonl.gz")]
    read = [read_first(one["yaml"], one["name"])[0] for one in told if one.get("stage") != "load"]
    return [found for found in read if isinstance(found, dict)]


def configured(parents: list[Json], seed: int, count: int) -> Iterator[Json]:
    """Yield scenarios of mode configuration; equal arguments give equal ones.

    Parameters
    ----------
    parents : list of dict
        Configurations.
    seed, count : int

    Yields
    ------
    dict
    """
    random = Random(seed)
    for number in range(count):
        child = copy.deepcopy(random.choice(parents))
        for _ in range(random.choice([1, 1, 2, 3])):
            random.choice([_graft, _graft, _graft, _alter])(child, random.choice(parents), random)
        text = dump_yaml(child) if random.random() < 0.5 else json.dumps(child)
        yield {"name": f"configured-{seed}-{number}", "mode": "configuration", "yaml": text}


def _queue(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _queue(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _graft(child: Json, donor: Json, random: Random) -> None:
    """Take a part of another configuration, at its place or at the end of a list there."""
    places = [path for path in _queue(donor) if path[0] not in ("apiVersion", "kind")]
    if not places:
        return
    path = random.choice(places)
    value, target = copy.deepcopy(_at(donor, path)), child
    for key, after in pairwise(path):
        inner = (
            target[key] if isinstance(target, list) and isinstance(key, int) and key < len(target) else None
        )
        if isinstance(target, dict):
            inner = target.setdefault(key, [] if isinstance(after, int) else {})
        if not isinstance(inner, list if isinstance(after, int) else dict):
            return
        target = inner
    if isinstance(target, dict) or (path[-1] < len(target) and random.random() < 0.5):
        target[path[-1]] = value
    else:
        target.append(value)


def _alter(child: Json, donor: Json, random: Random) -> None:
    """Change, drop or double one value."""
    path = random.choice(list(_queue(child)))
    target, key = _at(child, path[:-1]), path[-1]
    lot = random.random()
    if lot < 0.6:
        target[key] = copy.deepcopy(random.choice(VALUES))
    elif lot < 0.8:
        del target[key]
    elif isinstance(target, list):
        target.append(copy.deepcopy(target[key]))
    else:
        target[f"{key}s"] = target[key]
