"""Traces of jobs: Alibaba's of 2020 and 2023, Microsoft's Philly, and the Standard Workload Format."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import InputError
from moorage.kube import Resources
from moorage.kube.apiserver.decode import UNREADABLE
from moorage.kube.read.files import read_file, source_name
from moorage.lazy import NamedTuple

from .trace_builder import GPU_MODEL, TraceBuilder, csv_rows, heading, lines, list_of, map_of, number_of

if TYPE_CHECKING:
    from ..event_columns import EventColumns


# ---- openb -------------------------------------------------------------------------------------------------
#
# openb: Alibaba's GPU cluster trace of 2023, as used in the FGD paper (USENIX ATC '23).

GPU_MILLI = "alibabacloud.com/gpu-milli"
"""Resource: thousandths of GPUs, of a node or a pod in all. Annotation: thousandths of each GPU of a pod."""
GPU_COUNT = "alibabacloud.com/gpu-count"
"""Resource of nodes, and annotation of pods: number of GPUs."""
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
    labels = {QOS: row.qos} if row.qos else {}
    return builder.template(row[1:7], requests, labels, annotations, models if row.gpus else ())


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


# ---- alibaba -----------------------------------------------------------------------------------------------
#
# Alibaba's trace of 2020: machine learning jobs on GPUs.
#
# The columns are those of the publisher's description (alibaba/clusterdata, cluster-trace-gpu-v2020). Files
# have no heading; which one is which is told by its name.

MACHINES_2020 = ("machine", "gpu_type", "cpu", "memory", "gpu")
TASKS_2020 = ("job", "task", "instances", "status", "start", "end", "cpu", "memory", "gpu", "gpu_type")
MOST_INSTANCES = 100_000
"""Instances of a task; a task with more is left out."""


def read_alibaba_2020(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read ``pai_machine_spec.csv`` and ``pai_task_table.csv`` of 2020 into an empty timeline.

    Each instance of a task is a pod from the start to the end of the task. GPUs are in thousandths, under the
    resource `GPU_MILLI`.

    Raises
    ------
    InputError
        A file cannot be read, or its name is neither.
    """
    builder = TraceBuilder(timeline)
    for path in paths:
        kind = kind_of(path, ("pai_machine_spec", "pai_task_table"))
        if kind == "pai_machine_spec":
            for row in csv_rows(path, MACHINES_2020):
                cpu, memory, gpus = (number_of(row[name]) for name in ("cpu", "memory", "gpu"))
                if cpu is None or memory is None:
                    builder.note("machines left out: a field is missing or not a number")
                    continue
                room: Resources = {"cpu": f"{cpu:g}", "memory": f"{int(memory * 1024)}Mi"}
                if gpus:
                    room[GPU_MILLI] = str(int(gpus * 1000))
                builder.node(row["machine"], room, {GPU_MODEL: row["gpu_type"]} if gpus else {})
        else:
            for row in csv_rows(path, TASKS_2020):
                cpu, memory, gpu = (number_of(row[name]) for name in ("cpu", "memory", "gpu"))
                share: Resources = {GPU_MILLI: str(int(gpu * 10))} if gpu else {}
                milli = 0 if cpu is None else int(cpu * 10)
                add_task(builder, row, milli, int((memory or 0.0) * 1024), share)
    builder.finish()


def kind_of(path: str | Path, names: Sequence[str]) -> str:
    """Return which of some names the name of a file has; InputError for none."""
    for name in names:
        if name in Path(path).name:
            return name
    raise InputError(f"its name has none of {', '.join(names)}", source=source_name(str(path)))


def add_task(
    builder: TraceBuilder, row: dict[str, str], milli: int | None, mib: int | None, more: Resources
) -> None:
    """Add the instances of a task as pods.

    Parameters
    ----------
    row : dict of str to str
        With job, task, instances, start, end and perhaps gpu_type.
    milli, mib : int or None
        Requests of cpu and memory; None leaves the task out.
    """
    start, end, count = (number_of(row[name]) for name in ("start", "end", "instances"))
    if not start or start < 0 or milli is None or mib is None:
        builder.note("tasks left out: start, cpu or memory is missing")
        return
    if not count or not 1 <= count <= MOST_INSTANCES:
        builder.note("tasks left out: the number of instances is missing")
        return
    ended = end if end and end > 0 else None
    requests: Resources = {"cpu": f"{milli}m", "memory": f"{mib}Mi", **more}
    model = row.get("gpu_type", "")
    models = (model,) if more and model not in ("", "MISC") else ()
    shape = (milli, mib, more.get(GPU_MILLI), models)
    template = builder.template(shape, requests, models=models)
    for number in range(int(count)):
        builder.pod(f"{row['job']}-{row['task']}-{number}", template, start, ended)


# ---- philly ------------------------------------------------------------------------------------------------
#
# Microsoft's Philly trace of 2017: deep learning jobs on GPUs.
#
# The files are ``cluster_job_log`` (JSON) and ``cluster_machine_list`` (CSV) of msr-fiddle/philly-traces.

GPU = "nvidia.com/gpu"


def read_philly(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read a log of jobs and a list of machines into an empty timeline.

    A job is one pod for each machine of its first attempt, with as many GPUs as it had there, from its
    submission to the end of its last attempt. Where they ran is recorded as their binding. The trace has no
    requests for cpu and memory. A machine has as many GPUs as the list says, or as a job had there at once.

    Raises
    ------
    InputError
        A file cannot be read, or the log is not a list of jobs.
    """
    builder, jobs, machines = TraceBuilder(timeline), list[dict[str, Any]](), dict[str, int]()
    for path in paths:
        text = read_file(str(path)) if "machine" not in Path(path).name else b""
        if text.lstrip().startswith((b"[", b"{")):
            try:
                jobs += msgspec.json.decode(text, type=list[dict[str, Any]])
            except UNREADABLE as error:
                raise InputError(f"is not a list of jobs: {error}", source=source_name(str(path))) from None
        else:
            for row in csv_rows(path):
                _read_machine(builder, row, machines)
    for job in jobs:
        _count_used(builder, job, machines)
    for name, gpus in machines.items():
        builder.node(name, {"cpu": "64", "memory": "512Gi", GPU: str(gpus)})
    builder.finish()
    starts = [time for job in jobs if (time := _time(job.get("submitted_time"))) is not None]
    first = min(starts, default=0.0)
    for job in jobs:
        _add_philly_job(builder, job, first)


def _read_machine(builder: TraceBuilder, row: dict[str, str], machines: dict[str, int]) -> None:
    """Read a machine; in a list that pandas has written, an index comes first."""
    values = [value for name, value in row.items() if name]
    gpus = number_of(values[1]) if len(values) > 1 else None
    if gpus is None:
        builder.note("machines left out: the number of GPUs is missing")
        return
    machines[values[0]] = max(int(gpus), machines.get(values[0], 0))


def _count_used(builder: TraceBuilder, job: dict[str, Any], machines: dict[str, int]) -> None:
    """Let machines have as many GPUs as a job had there; the publisher's list has too few for some."""
    for attempt in map(map_of, list_of(job.get("attempts"))):
        for part in map(map_of, list_of(attempt.get("detail"))):
            name, used = str(part.get("ip")), len(list_of(part.get("gpus")))
            if name in machines and used > machines[name]:
                machines[name] = used
                builder.note("machines with more GPUs in use than listed: they have as many as were in use")


def _add_philly_job(builder: TraceBuilder, job: dict[str, Any], first: float) -> None:
    submitted, attempts = _time(job.get("submitted_time")), list_of(job.get("attempts"))
    if submitted is None:
        builder.note("jobs left out: no time of submission")
        return
    attempts = list(map(map_of, attempts))
    detail = list_of(attempts[0].get("detail")) if attempts else None
    if not detail:
        builder.note("jobs left out: they were never run")
        return
    ended = _time(attempts[-1].get("end_time"))
    began = _time(attempts[0].get("start_time"))
    for number, part in enumerate(map(map_of, detail)):
        gpus = len(list_of(part.get("gpus")))
        template = builder.template(gpus, {GPU: str(gpus)})
        name = f"{job.get('jobid')}-{number}"
        added = builder.pod(name, template, submitted - first, None if ended is None else ended - first)
        if added and began is not None and part.get("ip"):
            builder.bind(name, max(began, submitted) - first, str(part["ip"]))


def _time(text: Any) -> float | None:
    """Return the seconds of a time such as ``2017-10-09 07:01:59 PDT``, its zone left out; None for none."""
    try:
        return datetime.fromisoformat(str(text)[:19] + "+00:00").timestamp()
    except ValueError:
        return None


# ---- swf ---------------------------------------------------------------------------------------------------
#
# Standard Workload Format of the Parallel Workloads Archive: jobs of parallel machines.

NUMBER, SUBMIT, WAIT, RUN, PROCESSORS, MEMORY, REQUESTED, REQUESTED_MEMORY = 0, 1, 2, 3, 4, 6, 7, 9
"""Indexes of the fields (18 in a line; -1 means unknown)."""
FIELDS = 18
_COMMENT = re.compile(r";\s*(MaxNodes|MaxProcs):\s*(\d+)")
MOST_PODS = 100_000


def read_swf(
    timeline: EventColumns,
    paths: Sequence[str | Path],
    *,
    cores: int = 0,
    memory_gib: float = 0.0,
) -> None:
    """Read a workload into an empty timeline.

    A job is one pod for each node that its processors fill, from its submission until it ended in the record:
    submission, wait and run time. Nodes are made as the header says: MaxProcs over MaxNodes.

    Parameters
    ----------
    cores : int, optional
        Processors of a node, instead of those of the header.
    memory_gib : float, optional
        Memory of a node; without it memory is not considered.

    Raises
    ------
    InputError
        The file cannot be read, or neither header nor options say how large a node is.
    """
    if len(paths) != 1:
        raise InputError(f"a workload is one file, not {len(paths)}")
    builder, header, per_node = TraceBuilder(timeline), dict[str, int](), int(cores)
    for line in lines(paths[0]):
        if size := _COMMENT.match(line):
            header[size[1]] = int(size[2])
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if not per_node:
            per_node = header.get("MaxProcs", 0) // max(header.get("MaxNodes", 0), 1)
        if per_node < 1:
            raise InputError("the header has no MaxProcs; give the option cores")
        fields = [number_of(field) for field in line.split()]
        if len(fields) < FIELDS:
            builder.note("jobs left out: the line is short")
            continue
        _add_swf_job(builder, fields, per_node, memory_gib > 0)
    processors = header.get("MaxProcs", 0)
    room: Resources = {"cpu": str(per_node), "memory": f"{memory_gib:g}Gi" if memory_gib else "1Ti"}
    for number in range(math.ceil(processors / per_node) if per_node else 0):
        builder.node(f"node-{number:05d}", room)
    builder.finish()


def _add_swf_job(
    builder: TraceBuilder, fields: Sequence[float | None], per_node: int, has_memory: bool
) -> None:
    def known(index: int) -> float:
        value = fields[index]
        return -1.0 if value is None else value

    processors = int(known(REQUESTED) if known(REQUESTED) > 0 else known(PROCESSORS))
    if known(SUBMIT) < 0 or processors < 1:
        builder.note("jobs left out: submission or processors are missing")
        return
    if known(RUN) < 0:
        builder.note("jobs left out: they did not run")
        return
    if processors > MOST_PODS * per_node:
        builder.note("jobs left out: too many processors")
        return
    end = known(SUBMIT) + max(known(WAIT), 0.0) + known(RUN)
    if end == known(SUBMIT):
        builder.note("jobs with run time 0: they end as they are created, and are not tried")
    kib = known(REQUESTED_MEMORY) if known(REQUESTED_MEMORY) > 0 else known(MEMORY)
    for part in range(math.ceil(processors / per_node)):
        cpus = min(per_node, processors - part * per_node)
        requests: Resources = {"cpu": str(cpus)}
        if has_memory and kib > 0:
            requests["memory"] = f"{int(kib * cpus)}Ki"
        template = builder.template(tuple(requests.items()), requests)
        builder.pod(f"job-{int(known(NUMBER))}-{part}", template, known(SUBMIT), end)
