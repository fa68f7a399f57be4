"""Measurements, besides the suites of `make bench`; and the pictures of the pages."""

from __future__ import annotations

from subprocess import PIPE

from tests.jobs.job import CHROMIUM, GO, JobError, given, job, program, python


@job("1 min")
def bench_front() -> None:
    """Whole operations alone: the table of docs/guide/performance.md and bench/RESULTS.md"""
    quiet = ["--benchmark-only", "--benchmark-quiet", "--benchmark-json=build/bench.json"]
    suite = "bench/test_whole_operations.py"
    python("-m", "pytest", suite, "-q", "-p", "no:randomly", "-p", "no:xdist", *quiet)
    python("-m", "bench.table", "build/bench.json", "--front")


@job("10 min on two idle cores; Go first builds for 12", needs=[GO], takes=["OPTIONS"])
def bench_picture() -> None:
    """Processor time per pod beside kube-scheduler's code, as the pictures of the front page"""
    python("-m", "bench.picture", "docs/pictures", *given("OPTIONS").split())


@job("1 min", needs=[program("chromium", CHROMIUM)])
def pictures() -> None:
    """docs/pictures, from the examples: terminals, and what Chromium shows of pages"""
    python("docs/make_pictures.py")


@job("5 min", takes=["BASE", "SUITES"])
def bench_compare() -> None:
    """Ratios to another revision: BASE=HEAD~3, and SUITES for others than the quick ones"""
    if not given("BASE"):
        raise JobError("bench-compare needs a revision to compare with, for example BASE=HEAD~3")
    python("-m", "bench.compare", given("BASE"), *given("SUITES").split())


@job("20 s", takes=["PICTURE"])
def bench_scale() -> None:
    """Cost per pod from 1,000 to 130,000 nodes; PICTURE=build/scale.svg draws it"""
    python("-m", "bench.scale", *(["--picture", given("PICTURE")] if given("PICTURE") else []))


@job("4 min; Go first builds for 13", needs=[GO])
def bench_live() -> None:
    """Bindings per second beside kube-scheduler's, on one API server"""
    servers = {"MOORAGE_SERVERS": python("-m", "tests.live.servers.build", stdout=PIPE)}
    python("-m", "bench.live.throughput", environment=servers)


@job("3 min; Go first builds for 8", needs=[GO])
def bench_karpenter() -> None:
    """Processor time of a pass over 500 to 10,000 pods beside Karpenter's code"""
    python("-m", "bench.karpenter")
