"""Pods bound per second by ``moorage scheduler`` and by kube-scheduler, in turn on one API server.

``python -m bench.live.throughput [pods] [rounds]``, 2,000 and 5 by default, on 1,000 nodes; `make bench-live`
builds the servers before. Both may send 5,000 requests per second, and all pods exist before they start. A
rate is that between the first and the last binding that a watch tells, so start and lists are left out.
Requests are those that the API server has counted, watches apart.
"""

from __future__ import annotations

import os
import re
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.live.kit.cluster_workload import PATHS, create, objects
from tests.live.kit.control_plane import ControlPlane
from tests.live.kit.live_process import CONFIGURATION, Process

from moorage.kube import Pod
from moorage.live.client import ApiClient, connect
from moorage.store import Informer

NODES = 1_000
TICK = os.sysconf("SC_CLK_TCK")
LIMIT = 600.0
_COUNTED = re.compile(r'^apiserver_request_total\{.*verb="([A-Z]+)".*\} (\S+)$', re.MULTILINE)


class Measured(NamedTuple):
    """One run: pods bound per second, pods whose events are written as well per second, requests per pod, and
    seconds of processor time by process."""

    rate: float
    written: float
    requests: float
    scheduler: float
    apiserver: float
    etcd: float


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def requests(plane: ControlPlane) -> float:
    """Requests that the API server has answered, watches apart."""
    head = {"Authorization": "Bearer admin-token"}
    context = ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
    with urllib.request.urlopen(
        urllib.request.Request(f"{plane.url}/metrics", headers=head), context=context
    ) as answer:
        text = answer.read().decode()
    return sum(float(count) for verb, count in _COUNTED.findall(text) if verb != "WATCH")


def await_quiet(plane: ControlPlane) -> tuple[float, float]:
    """Wait until the last events are written; return the number of requests so far, and when that was."""
    sent, at = requests(plane), time.monotonic()
    while True:
        time.sleep(0.5)
        now = requests(plane)
        if now - sent < 10.0:  # leases and health checks go on
            return now, at
        sent, at = now, time.monotonic()


def bound_rate(client: ApiClient, count: int) -> tuple[float, float]:
    """Wait until all pods are bound; return how many were per second, and when the first was."""
    informer, until = Informer(client, Pod), time.monotonic() + LIMIT
    first = before = 0.0
    known = 0
    while known < count:
        seen = client.arrivals.count
        informer.run_once()
        now = time.monotonic()
        known = sum(bool(one.spec.node_name) for one in informer.indexer.values())
        if known and not first:
            first, before = now, known
        assert now < until, f"{known} of {count} pods are bound"
        client.arrivals.wait(seen, 1.0)
        time.sleep(0.05)
    return (count - before) / (now - first), first


def measure(plane: ControlPlane, admin: ApiClient, count: int, *, is_ours: bool) -> Measured:
    """Create the pods, let one of the schedulers bind them, and delete them."""
    create(admin, [value for value in objects(0, count) if value["kind"] == "Pod"])
    servers = [plane.processes[name].pid for name in ("kube-apiserver", "etcd")]
    with connect(plane.kubeconfig()) as watcher:
        watcher.list(Pod)
        before, sent = [cpu_seconds(pid) for pid in servers], requests(plane)
        if is_ours:
            process = Process(plane, "ours", CONFIGURATION)
            pid = process.process.pid
        else:
            plane.start_scheduler(parallelism=16)
            pid = plane.processes["kube-scheduler"].pid
        rate, began = bound_rate(watcher, count)
        total, ended = await_quiet(plane)
        used = [cpu_seconds(pid) - at for pid, at in zip(servers, before, strict=True)]
        done = Measured(rate, count / (ended - began), (total - sent) / count, cpu_seconds(pid), *used)
    if is_ours:
        assert process.end() == 0, process.log.read_text()
    else:
        plane.end("kube-scheduler")
    admin.connection.request(
        "DELETE", PATHS["Pod"], None, msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1"})
    )
    return done


def main(count: int, rounds: int) -> None:
    """Measure in turn, and print each run and the medians."""
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(os.environ["MOORAGE_SERVERS"]), Path(folder))
        try:
            plane.start()
            with connect(plane.kubeconfig()) as admin:
                create(admin, objects(NODES, 0))
                print(
                    f"{'':16}{'bound/s':>8}{'+ events/s':>11}{'requests/pod':>14}{'CPU s: scheduler':>18}",
                    end="",
                )
                print(f"{'apiserver':>11}{'etcd':>6}")
                found: dict[str, list[Measured]] = {"kube-scheduler": [], "moorage": []}
                for at in range(rounds):
                    for name in sorted(found, reverse=bool(at % 2)):
                        found[name].append(measure(plane, admin, count, is_ours=name == "moorage"))
                        _print(name, found[name][-1])
                medians = {name: _median(runs) for name, runs in found.items()}
                print("median")
                for name, one in medians.items():
                    _print(name, one)
                print(f"ratio {medians['moorage'].rate / medians['kube-scheduler'].rate:.2f}")
        finally:
            plane.stop()


def _median(runs: list[Measured]) -> Measured:
    return Measured(*(statistics.median(values) for values in zip(*runs, strict=True)))


def _print(name: str, one: Measured) -> None:
    print(f"{name:16}{one.rate:8.0f}{one.written:11.0f}{one.requests:14.2f}", end="")
    print(f"{one.scheduler:18.1f}{one.apiserver:11.1f}{one.etcd:6.1f}", flush=True)


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:], *("2000", "5")[len(sys.argv) - 1 :])))
