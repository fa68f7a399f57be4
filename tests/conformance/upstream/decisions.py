"""The Go program of this folder: how it is built, and what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

HERE = Path(__file__).parent
DETERMINED = {
    "schedule_one.go": {"go sched.runBinding": "defer sched.runBinding"},
    "schedule_one_podgroup.go": {"go sched.runBinding": "defer sched.runBinding"},
    "framework/runtime/batch.go": {"500 * time.Millisecond": "time.Hour"},
    "framework/plugins/topologyaware/topology_placement.go": {
        "nodesPerTopologyDomain := ": "domains := []string{}\n\tnodesPerTopologyDomain := ",
        "nodesPerTopologyDomain[domain] = append": (
            "if nodesPerTopologyDomain[domain] == nil {\n\t\t\t\t\tdomains = append(domains, domain)\n"
            "\t\t\t\t}\n\t\t\t\tnodesPerTopologyDomain[domain] = append"
        ),
        "for topologyDomain, nodes := range nodesPerTopologyDomain {\n": (
            "for _, topologyDomain := range domains {\n\t\tnodes := nodesPerTopologyDomain[topologyDomain]\n"
        ),
    },
    "framework/plugins/dynamicresources/dynamicresources.go": {
        'New("device binding timeout")': 'New("device binding timeout")\n\twaited time.Duration',
        "metav1.Time{Time: time.Now()}": "metav1.Time{Time: time.Now().Add(waited)}",
        "Add(pl.bindingTimeout).Before(time.Now())": "Add(pl.bindingTimeout).Before(time.Now().Add(waited))",
        "5*time.Second, pl.bindingTimeout, true": "5*time.Second, time.Millisecond, true",
        "if errors.Is(err, context.DeadlineExceeded) {\n\t\terr = fmt": (
            "if errors.Is(err, context.DeadlineExceeded) {\n\t\twaited += pl.bindingTimeout\n\t\terr = fmt"
        ),
    },
    "backend/queue/scheduling_queue.go": {
        "return &framework.PodInfo{Pod: pod}\n": (
            "known, _ := p.nominator.podLister.Pods(pod.Namespace).Get(pod.Name)\n"
            "\tinfo, _ := framework.NewPodInfo(known)\n\treturn info\n"
        ),
    },
}
"""What is replaced in files of kube-scheduler, so that pods are bound when their attempt ends, members of
groups are in the order of their creation, placements in that of their nodes, no time passes unless pods wait
for devices in vain, and a nominated pod in flight keeps its specification, as it does in the vectors."""
DETERMINED_IN_1_36 = {
    "schedule_one_podgroup.go": {
        "ptr.Deref(pInfo1.InitialAttemptTimestamp, time.Time{})": "pInfo1.Pod.CreationTimestamp.Time",
        "ptr.Deref(pInfo2.InitialAttemptTimestamp, time.Time{})": "pInfo2.Pod.CreationTimestamp.Time",
        '\t"k8s.io/utils/ptr"\n': "",
    },
}
"""Later releases sort the members of a group themselves."""


class Upstream(NamedTuple):
    """What the program of a release is built of."""

    modules: str
    """The file of its modules; its sums are beside it."""
    tags: str
    determined: tuple[dict[str, dict[str, str]], ...]


RELEASES = {
    "1.36": Upstream("go.mod", "", (DETERMINED, DETERMINED_IN_1_36)),
    "1.37": Upstream("v1.37.mod", "v1_37", (DETERMINED,)),
}


def build(target: Path, release: str) -> Path:
    """Build the Go program of a release, and return its path."""
    modules, tags, determined = RELEASES[release]
    modfile = f"-modfile={modules}"
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false -mod=readonly"}
    run = partial(subprocess.run, cwd=HERE, env=environment, check=True, text=True)
    run(["go", "mod", "download", modfile, "k8s.io/kubernetes"])  # go list names what is there
    found = run(["go", "list", "-m", modfile, "-f", "{{.Dir}}", "k8s.io/kubernetes"], stdout=subprocess.PIPE)
    module = Path(found.stdout.strip())
    for part in ("pkg", "third_party"):
        shutil.copytree(module / part, target / "kubernetes" / part)
    shutil.copy(module / "go.mod", target / "kubernetes")
    for name, changes in (one for table in determined for one in table.items()):
        file = target / "kubernetes/pkg/scheduler" / name
        text = file.read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        file.unlink()
        file.write_text(text)
    for end in (".mod", ".sum"):
        shutil.copy((HERE / modules).with_suffix(end), (target / "go").with_suffix(end))
    run(["go", "mod", "edit", f"-replace=k8s.io/kubernetes={target / 'kubernetes'}", target / "go.mod"])
    flags = ["-trimpath", "-tags", tags, f"-modfile={target / 'go.mod'}", "-o", target / "decisions"]
    run(["go", "build", *flags, "."])
    return target / "decisions"


def upstream(program: Path, made: Iterable[Json]) -> list[Json]:
    """The results of kube-scheduler's code."""
    text = "".join(json.dumps(one) + "\n" for one in made)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line)["result"] for line in done.stdout.splitlines()]
