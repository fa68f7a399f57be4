"""Processor time of a pass beside Karpenter's own code: `python -m bench.karpenter`.

Both get the same pods, of the five kinds of upstream's benchmark (plain, spread over zones, spread over
hosts, together in a zone, apart on hosts), one NodePool, and the same instance types of AWS. Karpenter's code
runs in a Go program, with one worker, which is its default; its time is that of NewTopology, NewScheduler and
Solve. moorage's is that of a whole pass, which also reads the instance types. They take turns; the least of
some rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from moorage.autoscalers.karpenter.cluster_view import ClusterObjects, ClusterView, PassInput
from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
from moorage.autoscalers.providers.type_files import read_instance_types
from moorage.kube import decode_object

Json = dict[str, Any]
HERE = Path(__file__).parent
SIZES = 500, 2000, 5000, 10000
TYPES, ROUNDS = 400, 2
MODULE = "sigs.k8s.io/karpenter"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
POOL: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [],
            }
        }
    },
}


def pods(count: int, seed: int = 1) -> Iterator[Json]:
    """Pods that wait, a fifth of each kind."""
    draw = random.Random(seed)
    for at in range(count):
        letter, kind = draw.choice("abcdefg"), at * 5 // count
        labels, spec = {"letter": letter}, dict[str, Any]()
        selector = {"labelSelector": {"matchLabels": {"letter": draw.choice("abcdefg")}}}
        if kind in (1, 2):
            spread = {"maxSkew": 1, "topologyKey": (ZONE, HOST)[kind - 1]}
            spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "DoNotSchedule", **selector}]
        elif kind == 3:
            labels = {"together": letter}
            spec["affinity"] = {"podAffinity": _required(ZONE, labels)}
        elif kind == 4:
            labels = {"apart": "yes"}
            spec["affinity"] = {"podAntiAffinity": _required(HOST, labels)}
        cpu, memory = draw.choice([100, 250, 500, 1000, 1500]), draw.choice([100, 256, 512, 1024, 2048, 4096])
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        spec["containers"] = [{"name": "c", "image": "c", "resources": {"requests": requests}}]
        name = f"{draw.getrandbits(32):08x}-{at}"
        meta = {"name": name, "namespace": "default", "uid": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _required(key: str, labels: dict[str, str]) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def build(target: Path) -> Path:
    """Build the Go program, and write some of AWS's types beside it, as the kwok provider has them."""
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false -mod=readonly"}
    run = partial(subprocess.run, cwd=HERE, env=environment, check=True, text=True)
    run(["go", "build", "-trimpath", "-o", target / "karpenter", "."])
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    found = run(asked, stdout=subprocess.PIPE)
    every = json.loads((Path(found.stdout.strip()) / "kwok/examples/aws_instance_types.json").read_text())
    linux = sorted(
        (one for one in every if one["operatingSystems"] == ["linux"]), key=lambda one: one["name"]
    )
    (target / "types.json").write_text(json.dumps(linux[:: len(linux) // TYPES][:TYPES]))
    return target / "karpenter"


def theirs(program: Path, made: Sequence[Json]) -> tuple[float, int]:
    """Seconds, and the number of claims."""
    question = {"types": str(program.parent / "types.json"), "pool": POOL, "pods": made}
    done = subprocess.run(
        [program], input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=True
    )
    answer = json.loads(done.stdout)
    _check("Karpenter", answer["errors"])
    return answer["seconds"], answer["claims"]


def ours(types_file: Path, made: Sequence[Json]) -> tuple[float, int]:
    """Seconds, and the number of claims."""
    objects = ClusterObjects(map(decode_object, (POOL, *made)))
    chosen = frozenset(f"default/{one['metadata']['name']}" for one in made)
    situation = PassInput({"default": read_instance_types(types_file)}, chosen=chosen)
    began = time.process_time()
    answer = ClusterView(objects, situation, KarpenterOptions()).provisioning
    seconds = time.process_time() - began
    _check("moorage", len(answer.errors) + len(answer.ignored))
    return seconds, len(answer.claims)


def _check(who: str, refused: int) -> None:
    if refused:
        raise SystemExit(f"bench.karpenter: {who} refused {refused} pods")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.karpenter", description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="PODS")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        print("| pods | Karpenter | moorage | ratio | claims |\n|---|---|---|---|---|")
        for size in options.sizes:
            made = [*pods(size)]
            turns = [
                (theirs(program, made), ours(program.parent / "types.json", made))
                for _ in range(options.rounds)
            ]
            (slow, there), (fast, here) = (min(one) for one in zip(*turns, strict=True))
            print(
                f"| {size:,} | {slow:.2f} s | {fast:.2f} s | {slow / fast:.0f} | {there}, {here} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
