"""openb: Alibaba's GPU cluster trace of 2023, as used in the FGD paper (USENIX ATC '23)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from moorage.errors import InputError
from moorage.kube import Resources
from moorage.kube.read.files import source_name

from .trace_builder import TraceBuilder
from .trace_rows import csv_rows, heading, number_of

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

GPU_MILLI = "alibabacloud.com/gpu-milli"
"""Resource: thousandths of GPUs, of a node or a pod in all. Annotation: thousandths of each GPU of a pod."""
GPU_COUNT = "alibabacloud.com/gpu-count"
"""Resource of nodes, and annotation of pods: number of GPUs."""
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""Label of nodes: the model. Annotation of pods: the models that it may use, separated by bars."""
QOS = "qos"
PODS = "1001"
"""Pods of a node, as in the simulator of the paper."""
NODES, POD_LIST = (
    {"sn", "cpu_milli", "memory_mib"},
    {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
)


class Row(NamedTuple):
    """A pod of a list."""

    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: str
    qos: str
    created: float | None
    deleted: float | None


def is_openb(columns: set[str]) -> bool:
    """Whether a CSV file with these columns is a list of nodes or of pods."""
    return columns >= NODES or columns >= POD_LIST


def read_openb(
    timeline: EventColumns,
    paths: Sequence[str | Path],
    *,
    every: float = 1.0,
    seed: int | None = None,
    demand: float | None = None,
    shuffle_nodes: bool = False,
) -> None:
    """Read lists of nodes and of pods into an empty timeline.

    A GPU share is requested as a resource of the node, so the sum of a node's shares is respected; that a
    share has to be on one GPU needs a plugin, which finds count and share in the annotations.

    Parameters
    ----------
    paths : sequence of str or Path
        Which one is which is found from the columns.
    every : float, optional
        Seconds between two pods of a list without times, or with a seed.
    seed : int, optional
        With it times are ignored: the pods, sorted by name, arrive in a random order and stay, as in the
        experiments of the paper.
    demand : float, optional
        With a seed: pods drawn from the list with replacement follow, until the next one would request more
        than this share of the GPUs of all nodes; a list above it loses pods drawn at random. 1.3 in the
        paper.
    shuffle_nodes : bool, optional
        With a seed: whether the nodes come in a random order too. The published results broke ties of scores
        by names of nodes that are not those of the list, so no order is the right one.

    Raises
    ------
    InputError
        A file cannot be read, or is neither list.
    """
    for name, given in (("demand", demand is not None), ("shuffle_nodes", shuffle_nodes)):
        if given and seed is None:
            raise InputError("needs a seed", path=name)
    builder, listed, capacity = TraceBuilder(timeline), list[Row](), 0
    order = Random(f"nodes {seed}") if shuffle_nodes else None
    for path in paths:
        columns = set(heading(path))
        if columns >= NODES:
            capacity += _read_nodes(builder, path, order)
        elif columns >= POD_LIST:
            listed += _read_pods(builder, path)
        else:
            raise InputError("is not a list of nodes or pods of openb", source=source_name(str(path)))
    builder.finish()
    names = [row.name for row in listed]
    if seed is not None:
        listed, names = _drawn(listed, Random(seed), None if demand is None else demand * 1000 * capacity)
    for at, (row, name) in enumerate(zip(listed, names, strict=True)):
        template = _template(builder, row)
        if seed is None and row.created is not None:
            builder.pod(name, template, row.created, row.deleted)
        else:
            builder.pod(name, template, at * every)


def _read_nodes(builder: TraceBuilder, path: str | Path, order: Random | None) -> int:
    """Add the nodes of a list, in a random order if there is one; return the number of their GPUs."""
    total, rows = 0, list(csv_rows(path))
    if order is not None:
        order.shuffle(rows)
    for row in rows:
        cpu, memory = number_of(row["cpu_milli"]), number_of(row["memory_mib"])
        gpus = int(number_of(row.get("gpu", "")) or 0)
        if cpu is None or memory is None or not row["sn"]:
            builder.note("nodes left out: a field is missing or not a number")
            continue
        resources: Resources = {"cpu": f"{int(cpu)}m", "memory": f"{int(memory)}Mi", "pods": PODS}
        if gpus:
            resources |= {GPU_COUNT: str(gpus), GPU_MILLI: str(gpus * 1000)}
        builder.node(row["sn"], resources, {GPU_MODEL: row["model"]} if row.get("model") else {})
        total += gpus
    return total


def _read_pods(builder: TraceBuilder, path: str | Path) -> list[Row]:
    rows = []
    for row in csv_rows(path):
        numbers = [number_of(row[name]) for name in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")]
        if not row["name"] or any(number is None or number < 0 for number in numbers):
            builder.note("pods left out: a field is missing or not a number")
            continue
        cpu, memory, gpus, milli = (int(number or 0) for number in numbers)
        created, deleted = (number_of(row.get(name, "")) for name in ("creation_time", "deletion_time"))
        models, qos = row.get("gpu_spec", ""), row.get("qos", "")
        rows.append(Row(row["name"], cpu, memory, gpus, milli, models, qos, created, deleted))
    return rows


def _template(builder: TraceBuilder, row: Row) -> int:
    requests: Resources = {"cpu": f"{row.cpu}m", "memory": f"{row.memory}Mi"}
    annotations: dict[str, str] = {}
    models = tuple(sorted(filter(None, row.models.split("|"))))
    if row.gpus:
        requests[GPU_MILLI] = str(row.gpus * row.milli)
        annotations = {GPU_COUNT: str(row.gpus), GPU_MILLI: str(row.milli)}
        if models:
            annotations[GPU_MODEL] = "|".join(models)
    return builder.template(
        row[1:7],
        requests,
        labels={QOS: row.qos} if row.qos else {},
        annotations=annotations,
        models=models if row.gpus else (),
        model_label=GPU_MODEL,
    )


def _drawn(listed: list[Row], random: Random, most: float | None) -> tuple[list[Row], list[str]]:
    """Return the pods of an experiment in the order of their arrival, with their names."""
    out = sorted(listed, key=lambda row: row.name)
    random.shuffle(out)
    names = [row.name for row in out]
    if most is None or not listed:
        return out, names
    total = sum(row.gpus * row.milli for row in out)
    while total > most and out:
        at = random.randrange(len(out))
        total -= out[at].gpus * out[at].milli
        del out[at], names[at]
    if len(out) < len(listed) or not any(row.gpus for row in listed):
        return out, names
    for number in range(math.ceil(most) + 1):
        row = random.choice(listed)
        if total + row.milli > most:  # one GPU of it counts, as in the experiment
            break
        total += row.gpus * row.milli
        out.append(row)
        names.append(f"{row.name}-{number}")
    return out, names
