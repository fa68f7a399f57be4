"""Which real files there are, and what `moorage check` and `moorage replay` make of each.

The folder of the files is given by the caller; `tests/data/README.md` says where cut copies are from. An
exit code of 1 is right only where a cluster had left a pod pending, or an object is missing; `why` says so.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from moorage.cli import main


class Input(NamedTuple):
    """Files that are read together.

    Attributes
    ----------
    files : tuple of str
        Patterns of paths in the folder; the first one names the row.
    code : int
        The exit code that is right.
    why : str
        The proven reason of a code that is not 0, or what else is to know.
    command : tuple of str
        What is run with ``-f`` and each file; a replay gets the files alone.
    """

    files: tuple[str, ...]
    code: int = 0
    why: str = ""
    command: tuple[str, ...] = ("check",)


DUMPS = re.compile(r"/(cluster_dumps|objects)/")
"""Folders of files that are no traces."""
NO_NODE = "no node in the file: single objects, as the API server returned them"
EVENTS = tuple(
    f"traces/kubectl-events/must-gather-aws.{kind}.json.gz" for kind in ("events", "nodes", "pods")
)


def replay(*files: str, form: str, code: int = 0, why: str = "") -> Input:
    """A trace and its format; cluster dumps among the files follow ``-f``."""
    return Input(files, code, why, ("replay", "--format", form))


INPUTS = (
    Input(("dumps/must-gather-aws-cut.tar.gz",), why="all pods have nodes, as in the cluster"),
    Input(
        ("dumps/must-gather-aws-cut.tar.gz",),
        1,
        "four pods of catalogs have no controller that is simulated, so the drain leaves them; all others "
        "find a node, those of a priority class that the archive does not have, too",
        ("check", "--drain", "ip-10-0-254-204.ec2.internal"),
    ),
    Input(
        ("dumps/insights-archive-sample.tar.gz",),
        1,
        "the router waited in its cluster for a host port of a pod that the archive does not have, so "
        "it finds a node; the files of the sample are of several clusters. An OpenStackControlPlane, a "
        "ClusterLogging and a DataHub have pods that the archive does not have",
    ),
    Input(("dumps/troubleshoot-supportbundle-2025.tar.gz",), why="all pods have nodes, as in the cluster"),
    Input(("cluster_dumps/openshift_insights_sample.json",), why="as the archive that it is from"),
    Input(("cluster_dumps/troubleshoot_nodes7.json",), why="nodes alone"),
    Input(
        ("cluster_dumps/troubleshoot_bundle.json",),
        1,
        "the excerpt has no pods, so all are made again. Three of rook-ceph are for the node kurl-002, and "
        "those of two StatefulSets need claims: node, claims and storage classes are not in the file",
    ),
    Input(
        ("cluster_dumps/open_simulator_examples.yaml",),
        1,
        "manifests of 51 examples in one file, which no cluster ran: they do not fit on the 9 nodes",
    ),
    *(Input((f"objects/k9s/{name}.json",), why="one node") for name in ("no", "n1")),
    Input(("objects/k9s",), 2, "the node minikube is in two files, as two readings that differ"),
    Input(("objects/argo-cd",), 2, NO_NODE),
    Input(
        ("dra_slices/aws_try.yaml", "dra_slices/dranet_aws_*-class.yaml",
         "dra_slices/dranet_aws_*slice-*.yaml", "dra_slices/dranet_aws_*-template.yaml"),
        1,
        "of 10 pods that want a GPU and a network device of one PCIe root, 4 fit: there are 4 such pairs",
    ),
    Input(
        ("dra_slices/oci_try.yaml", "dra_slices/dranet_oci_*class.yaml",
         "dra_slices/dranet_oci_*slice-*.yaml", "dra_slices/dranet_oci_*-template.yaml"),
        1,
        "both pods want the GPU of one bus address, which the first one gets",
    ),
    Input(("traces/swf/NASA-iPSC-1993-3.1-cln.head1500.swf",), command=("replay",)),
    Input(
        ("traces/simkube/bare-pods.sktrace",), 2, "no node in the trace, and none is given", ("replay",)
    ),
    replay("traces/swf/NASA-iPSC-1993-3.1-cln.head1500.swf", form="swf"),
    replay("traces/swf/LCG-2005-1.head1500.swf", form="swf"),
    replay("traces/alibaba2020/pai_machine_spec.csv", form="alibaba2020", why="machines alone"),
    replay("traces/philly/cluster_machine_list", "traces/philly/cluster_job_log", form="philly"),
    replay("traces/philly/revised_machine_list.csv", "traces/philly/cluster_job_log", form="philly"),
    *(
        replay(
            f"traces/simkube/{name}", "cluster_dumps/troubleshoot_nodes7.json", form="simkube",
            why="on seven small nodes of another cluster, as the trace has none",
        )
        for name in (
            "bare-pods.sktrace", "dsb-scaling.sktrace", "simkube_small.json", "simkube_validation.json",
        )
    ),
    replay(
        "traces/simkube/cronjob.sktrace", "cluster_dumps/troubleshoot_nodes7.json", form="simkube", code=2,
        why="CronJobs alone, which are not read",
    ),
    replay(
        "traces/audit/audit2rbac_demo.log", form="audit", code=2,
        why="requests that list and get, of which none changes a pod or a node",
    ),
    replay(
        "traces/audit/falco_pods_created.log", "cluster_dumps/troubleshoot_nodes7.json", form="audit"
    ),
    replay(
        "traces/not-accepted/request_level.log", "cluster_dumps/troubleshoot_nodes7.json", form="audit"
    ),
    replay("traces/not-accepted/aks_wrapped.log", "cluster_dumps/troubleshoot_nodes7.json", form="audit"),
    replay(*EVENTS, form="kubectl-events", why="all 183 pods of the cluster, 12 older than the events"),
    replay(
        "traces/not-accepted/batch_task.v2017.csv", form="auto", code=2,
        why="the trace of 2017, under the name of a table of 2018",
    ),
    replay(
        "traces/not-accepted/alibaba-v2026-spot-gpu.node_info_df.csv", form="alibaba2020", code=2,
        why="a table of a format that is not read",
    ),
)  # fmt: skip


class Result(NamedTuple):
    """What a command made of an input: its exit code, the number of pods without a node, and a reason."""

    code: int
    without_node: int | None
    reason: str


def run(one: Input, folder: Path) -> Result | None:
    """Run the command of an input; None if the folder does not have its first file."""
    paths = [sorted(folder.glob(pattern)) for pattern in one.files]
    if not paths[0]:
        return None
    files = [str(path) for listed in paths for path in listed]
    if one.command[0] == "check":
        arguments = [part for path in files for part in ("-f", path)]
    else:  # a trace without nodes needs those of a cluster
        dumps = [path for path in files if DUMPS.search(path)]
        arguments = [path for path in files if path not in dumps]
        arguments += [part for path in dumps for part in ("-f", path)]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*one.command, *arguments, "-o", "json"])
    if code == 2:
        return Result(code, None, err.getvalue().strip().replace(f"{folder}/", "").removeprefix("error: "))
    document = json.loads(out.getvalue())
    if one.command[0] == "replay":
        return Result(code, int(document["summary"]["pending"]), "")
    return Result(code, document["failed"], "; ".join(_findings(document)))


def _findings(document: dict[str, Any]) -> Iterator[str]:
    for finding in document["findings"]:
        text = re.sub(r" (no new claims|still not|preemption:).*", "", finding["reason"])
        yield f"{finding['workload']}: {text}"


def table(results: list[tuple[Input, Result]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| input | command | exit code | pods without a node | reason |"
    yield "|---|---|---|---|---|"
    for one, result in results:
        name = one.files[0] if len(one.files) == 1 else f"{one.files[0]} and {len(one.files) - 1} more"
        count = "" if result.without_node is None else str(result.without_node)
        said = result.reason if result.code == 2 else ""
        reason = ": ".join(filter(None, (one.why, said))).replace("|", "\\|")
        yield f"| {name} | {' '.join(one.command)} | {result.code} | {count} | {reason} |"
