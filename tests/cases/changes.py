"""Blocks of changes: each line changes an object, and shows what is told of it when it is read."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from contextlib import chdir
from pathlib import Path
from typing import Any

from moorage import InputError, expanded, load
from tests.doors.kube import read_yaml

ARROW = " → "
CHANGED = "changed.yaml"
STEP = re.compile(r"\[(\d+)\]|\[([^\]]+)\]|([^.\[\]]+)")


def played(words: list[str], body: str, folder: Path) -> str:
    """The lines of a block ``changes [FILE [after|before FILE…]]`` with what is told now.

    The beginning of a text is left out if it names the object of FILE.
    """
    base = _parsed((folder / words[1]).read_text()) if words[1:] else {}
    name = f"{base.get('kind')} {base.get('metadata', {}).get('name')}: "
    lines = []
    for line in body.splitlines():
        change, _, _ = line.partition(ARROW)
        given = _parsed(change)
        text = given if isinstance(given, str) else json.dumps(with_changes(base, given))
        (folder / CHANGED).write_text(text)
        order = [CHANGED, *words[3:]] if words[2:3] == ["before"] else [*words[3:], CHANGED]
        texts = [text.removeprefix(f"{CHANGED}: ").removeprefix(name) for text in told(order, folder)]
        lines.append(f"{change}{ARROW}{' | '.join(texts) or 'nothing'}\n")
    return "".join(lines)


def _parsed(text: str) -> Any:
    (value,) = read_yaml(text, "case")
    return value


def with_changes(base: Any, changes: dict[str, Any]) -> Any:
    """A copy with values at paths such as ``spec.containers[0].name``; a null takes a field away."""
    value = copy.deepcopy(base)
    for path, new in changes.items():
        *before, last = [int(at) if at else key or name for at, key, name in STEP.findall(path)]
        inside = value
        for step in before:
            inside = inside[step] if isinstance(step, int) else inside.setdefault(step, {})
        if new is None:
            del inside[last]
        elif isinstance(last, int):
            inside[last:] = [new, *inside[last + 1 :]]
        else:
            inside[last] = new
    return value


def told(files: list[str], folder: Path) -> list[str]:
    """What reading files, one of them with the changed object, tells: the error, or what an API server
    refuses, or the warnings and the pods that have no node."""
    with chdir(folder):
        try:
            cluster = expanded(load(*files, refused="ignore"))
        except InputError as error:
            return [str(error)]
    refused = [each.message for each in (*cluster.refused_objects, *cluster.refused)]
    pods = Counter(pod.metadata.generate_name or pod.name for pod in cluster.pods if not pod.spec.node_name)
    names = [f"{name} ({count})" if count > 1 else name for name, count in pods.items()]
    return refused or [warning.removesuffix(".") for warning in cluster.warnings] + [
        f"pods: {', '.join(names)}" for _ in names[:1]
    ]
