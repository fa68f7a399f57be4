"""What a twin takes to follow a cluster and to answer, over the tests' server of the wire format.

``python -m bench.live.twin [seconds] [nodes] [pods] [clients]``: 60, 5,000, 50,000 and 1 by default, with 200
events per second; each client pauses for half a second after an answer. It prints the processor time of
following per second; that of an answer beyond its fork, its wall clock (p50, p99), and how many questions
were refused; the processor time of what is prepared; and memory, shared pages counted once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

from bench import kubectl_dump as dump
from tests.cli.options.test_cluster_options import KUBECONFIG
from tests.store.api.wire_server import WireServer

from moorage.kube import Pod, decode_object
from moorage.store import ObjectStore

EVENTS, PAUSE, TICK = 200, 0.05, os.sysconf("SC_CLK_TCK")
OWNED = 50
URL = "http://127.0.0.1:{}/v1/check?new-only"


def workloads(pods: int) -> Iterator[dict[str, Any]]:
    """The Deployments and ReplicaSets of the pods of a dump, which have its templates."""
    for at in range(0, pods, OWNED):
        pod = dump.pod(at, 1)
        meta, reference = pod["metadata"], pod["metadata"]["ownerReferences"][0]
        if reference["kind"] == "StatefulSet":
            continue
        name = reference["name"].rpartition("-")[0]
        labels = meta["labels"]
        common = {key: value for key, value in labels.items() if key != "pod-template-hash"}
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "volumes")}
        for kind, named, uid, mine in (
            ("Deployment", name, f"deployment {name}", common),
            ("ReplicaSet", reference["name"], "", labels),
        ):
            owner = {**reference, "kind": "Deployment", "name": name, "uid": dump._uid(f"deployment {name}")}
            own = {
                "name": named,
                "namespace": meta["namespace"],
                "uid": dump._uid(uid) if uid else reference["uid"],
                "creationTimestamp": dump.CREATED,
                **({} if uid else {"labels": labels, "ownerReferences": [owner]}),
            }
            template = {"metadata": {"labels": mine}, "spec": spec}
            wanted = {"replicas": OWNED, "selector": {"matchLabels": mine}, "template": template}
            yield {"apiVersion": "apps/v1", "kind": kind, "metadata": own, "spec": wanted}


def serve(folder: Path, nodes: int, pods: int) -> None:
    """Serve a cluster, and change it all the time: statuses of pods, and pods that go and come on nodes."""
    dump.PODS_PER_TEMPLATE = OWNED
    store = ObjectStore(time.time)
    spaces = ["default", *sorted({dump.pod(at, 1)["metadata"]["namespace"] for at in range(0, pods, OWNED)})]
    store.create_many(
        decode_object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}}) for one in spaces
    )
    store.create_many(map(decode_object, (dump.node(at) for at in range(nodes))))
    store.create_many(sorted(map(decode_object, workloads(pods)), key=lambda one: one.kind))
    store.create_many(decode_object(dump.pod(at, nodes)) for at in range(pods))
    keys = [(pod.name, pod.namespace) for pod in store.list(Pod)[0]]
    server = WireServer(store)
    server.version = "v1.36.2"
    (folder / "config").write_text(KUBECONFIG.format(url=server.url))
    at = 0
    while (folder / "config").exists():
        for _ in range(int(EVENTS * PAUSE)):
            at += 1
            name, space = keys[at * 7919 % pods]
            if at % 5:
                store.patch(Pod, name, space, {"status": {"podIP": f"10.0.{at % 250}.{at // 250 % 250}"}})
            else:
                old = store.get(Pod, name, space)
                store.delete(Pod, name, space)
                store.create(old)
        time.sleep(PAUSE)


def cpu(process: int, waited: bool = False) -> float:
    """Processor time of a process so far, or of the children that it has waited for."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    first = 13 if waited else 11
    return (int(fields[first]) + int(fields[first + 1])) / TICK


def children(process: int) -> list[int]:
    """The children of all threads of a process."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def shared_once(*processes: int) -> float:
    """Memory of processes in MiB, each shared page counted once."""
    texts = (Path(f"/proc/{one}/smaps_rollup").read_text() for one in processes)
    return (
        sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line[:4] == "Pss:") / 1024
    )


def ask(port: int, number: int) -> float:
    """Ask about one manifest; return the seconds that the answer took."""
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}
    template = {"metadata": {"labels": {"app": "new"}}, "spec": spec}
    wanted = {"replicas": 3, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    new = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"new-{number}"},
        "spec": wanted,
    }
    began = time.perf_counter()
    with urllib.request.urlopen(URL.format(port), json.dumps(new).encode(), timeout=120) as answer:
        assert json.load(answer)["placed"] >= 3
    return time.perf_counter() - began


def ask_until(port: int, numbers: Iterator[int], until: float) -> tuple[list[float], int]:
    """Ask again and again; return the seconds of each answer, and how many questions were refused."""
    walls, refused = list[float](), 0
    while time.monotonic() < until:
        try:
            walls.append(ask(port, next(numbers)))
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            refused += 1
        time.sleep(0.5)
    return walls, refused


def main(seconds: float = 60.0, nodes: float = 5_000, pods: float = 50_000, clients: float = 1) -> None:
    """Start a server and a twin, ask, and print."""
    port = 8897
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        words = [sys.executable, "-m", "bench.live.twin", "serve", name, str(int(nodes)), str(int(pods))]
        server = stack.enter_context(subprocess.Popen(words))
        stack.callback(server.kill)
        while not (folder / "config").exists():
            time.sleep(1.0)
        words = ["serve", "twin", "--kubeconfig", f"{name}/config", "--port", str(port)]
        twin = stack.enter_context(subprocess.Popen([sys.executable, "-m", "moorage", *words]))
        stack.callback(twin.send_signal, signal.SIGTERM)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except OSError:
                time.sleep(1.0)
        began = cpu(twin.pid)
        time.sleep(10.0)
        print(f"following: {(cpu(twin.pid) - began) / 10.0:.3f} of a processor")
        print(f"memory: {shared_once(twin.pid):.0f} MiB; first answer after {ask(port, 0):.2f} s")
        spent, prepared, most = dict[int, float](), dict[int, float](), 0.0
        began, until, numbers = cpu(twin.pid), time.monotonic() + seconds, count(1)
        asking = stack.enter_context(ThreadPoolExecutor(int(clients)))
        asked = [asking.submit(ask_until, port, numbers, until) for _ in range(int(clients))]
        while time.monotonic() < until:
            for one in children(twin.pid):
                spent[one], prepared[one] = cpu(one, waited=True), cpu(one)
            most = max(most, shared_once(twin.pid, *children(twin.pid)))
            time.sleep(0.5)
        answers = [client.result() for client in asked]
        walls = sorted(wall for listed, _ in answers for wall in listed)
        print(
            f"an answer: {1000 * sum(spent.values()) / (len(walls) + 1):.0f} ms of a processor ({len(walls)},"
            f" {sum(refused for _, refused in answers)} refused)"
        )
        print(f"wall: p50 {walls[len(walls) // 2]:.3f} s, p99 {walls[len(walls) * 99 // 100]:.3f} s")
        print(f"prepared: {len(prepared)} states, {sum(prepared.values()) / len(prepared):.2f} s each")
        print(f"memory while answering: {most:.0f} MiB")
        print(f"the twin itself: {(cpu(twin.pid) - began) / seconds:.3f} of a processor")
        (folder / "config").unlink()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(*map(float, sys.argv[1:]))
