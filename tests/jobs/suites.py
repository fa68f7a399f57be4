"""The test suite, whole and in parts, over the ordinary build and over its variants."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import PIPE

from building.variants import build, environment, folder, reports
from tests.jobs.job import (
    ALONE,
    CHROMIUM,
    GO,
    PARALLEL,
    PYTEST,
    ROOT,
    WHOLE,
    JobError,
    given,
    job,
    program,
    python,
    sanitizer,
)
from tests.live.servers.build import DEFAULT, MODULES, version

THOROUGH = {"MOORAGE_PROFILE": "nightly"}
OF_THE_SERVER = [
    f"tests/live/test_{name}.py"
    for name in ("client", "scheduler", "metrics", "controllers", "rights", "page")
]
LONG = {DEFAULT: ["same_placements", "memory"], "1.37": ["gangs"]}
"""Live tests that are slow, by the release that they need."""
RACES = [
    "tests/cache/test_threads.py", "tests/core/test_parallel.py", "tests/store/informers/test_threads.py",
    "tests/scheduler/placing/test_background_binding.py", "tests/campaign/test_soak.py",
]  # fmt: skip


def only() -> list[str]:
    """The tests that ONLY names; none stands for all."""
    return given("ONLY").split()


def over(variant: str, tests: Callable[[dict[str, str]], object]) -> None:
    """Build a variant, see that it is the one that is imported, and run tests with its environment."""
    build(variant, str(ROOT / ".venv/bin/python"))
    for report in reports(variant):
        report.unlink()
    found = environment(variant)
    imported = f"import moorage; assert 'build/{variant}/' in moorage.__file__, moorage.__file__"
    python("-c", imported, environment=found)
    try:
        tests(found)
    except JobError:
        for report in reports(variant):
            print(report.read_text(), flush=True)
        raise


@job("16 min beside other work, 22 of a processor", takes=["ONLY"], nightly=True)
def test_nightly() -> None:
    """The whole suite with all examples: the tests that repeat what a faster one shows as well"""
    python(*PARALLEL, *WHOLE, *only(), environment=THOROUGH)


@job(
    "50 min beside other work",
    needs=[sanitizer("libasan"), sanitizer("libubsan")],
    takes=["ONLY"],
    nightly=True,
)
def sanitize() -> None:
    """`make test` under AddressSanitizer and UndefinedBehaviorSanitizer; ONLY=tests/core runs a part

    --capture=sys leaves stderr open, or a stop in a worker loses what UBSan has said. In the core's tests
    CPython's small objects come from malloc, too. With it the others would take two and a half times as long,
    and the core's columns come from malloc anyway.
    """
    core = "tests/core"

    def tests(found: dict[str, str]) -> None:
        parts = (
            [(only(), {})]
            if only()
            else [([core], {"PYTHONMALLOC": "malloc"}), (["--ignore", core, "tests"], {})]
        )
        for part, more in parts:
            python(*PARALLEL, "--capture=sys", *part, environment=found | more)

    over("asan", tests)


@job("9 min beside other work, 5 of a processor", needs=[sanitizer("libtsan")], nightly=True)
def threads() -> None:
    """Threads over caches, informers and pools, and a minute of the soak, under ThreadSanitizer"""

    def tests(found: dict[str, str]) -> None:
        python(*ALONE, *WHOLE, *RACES, environment=found)
        report = str(folder("tsan") / "soak.json")
        python("-m", "tests.campaign.soak", report, "--seconds", "60", environment=found)

    over("tsan", tests)


@job("5 min", nightly=True)
def debug_test() -> None:
    """The core with assertions of capacity, bounds and logging; the tests that break each of them

    The assertions allocate memory themselves, so the failure of each allocation is tested without them.
    """
    rooms = [
        "tests/core",
        "tests/cache",
        "tests/scheduler",
        "tests/extenders",
        "tests/explain",
        "tests/debug",
    ]
    left_out = ["--ignore", "tests/core/state/test_failed_allocations.py"]
    over("debug", lambda found: python(*PARALLEL, "-m", "not slow", *rooms, *left_out, environment=found))


@job(
    "25 min beside other work, 22 of a processor",
    needs=[program("gcov", "of gcc")],
    takes=["ONLY"],
    extras=["campaign"],
    nightly=True,
)
def coverage() -> None:
    """Lines and branches of Python, lines of Cython and C that tests reach; ONLY=tests/core runs a part"""
    counted = folder("coverage")

    def tests(found: dict[str, str]) -> None:
        for counts in (*counted.glob("python*"), *counted.rglob("*.gcda")):
            counts.unlink()
        patient = ("-p", "tests.campaign.patience")
        python("-m", "coverage", "run", *PARALLEL, *patient, *WHOLE, *only(), environment=found)

    over("coverage", tests)
    python("-m", "coverage", "combine", "--quiet")
    python("-m", "coverage", "report", "--skip-covered", "--sort=miss")
    python("-m", "tests.campaign.line_counts", str(counted / "temp"))


@job("6 min", nightly=True)
def variants() -> None:
    """The kernels for any x86-64, for AVX2 and for AVX-512, each under its tests and the vectors"""
    python("-m", "tests.campaign.variants", environment=THOROUGH)


@job("9 min beside other work, 6 of a processor", nightly=True)
def machine() -> None:
    """Interrupts at every line, and state machines over a whole scheduler and over gangs, in many steps"""
    python(*PARALLEL, "-m", "slow", "tests/scheduler", "tests/explain")


@job("2 hours", nightly=True)
def leaks() -> None:
    """Each operation 100,000 times, each verb 200,000, and a million pods that come and go, in flat memory"""
    python(*PARALLEL, "-m", "slow", "-o", "faulthandler_timeout=7200", "tests/leaks")


@job("2 min", extras=["ray"], nightly=True)
def test_ray() -> None:
    """Sweeps on a Ray cluster of several nodes on this machine"""
    python(*ALONE, "-m", "ray", "tests/sim/sweep")


@job(
    "90 s",
    needs=[program("chromium", CHROMIUM), program("chromedriver", CHROMIUM)],
    packages=["selenium>=4.20", "axe-core-python>=0.1"],
    nightly=True,
)
def test_report() -> None:
    """Pages of reports, and the page of a twin, in a real browser, without its window"""
    python(*ALONE, "-m", "report", "tests/report")


def run_live(release: str, *tests: str, are_long: bool = False) -> None:
    """Build a control plane of a release, and run live tests against it.

    Short ones wait most of the time, for Leases, starts and timeouts, so three run at once, each with a
    control plane of its own.
    """
    servers = {"MOORAGE_SERVERS": python("-m", "tests.live.servers.build", release, stdout=PIPE)}
    how = ["-m", "live and not slow", "-n", "3", "-o", "faulthandler_timeout=1200"]
    if are_long:
        how = ["-m", "live and slow", "-p", "no:xdist", "-o", "faulthandler_timeout=7200"]
    python("-X", "faulthandler", *PYTEST, *how, *(tests or ["tests/live"]), environment=servers)


@job(
    "10 min beside other work, 6 of a processor; Go first builds for 25 min",
    needs=[GO],
    takes=["RELEASE", "ONLY"],
    nightly=True,
)
def test_live() -> None:
    """Against a real control plane on loopback, of RELEASE (1.36); ONLY=tests/live/test_client.py: a part

    No image is built or pulled: the test that follows docs/live.md runs each container as a process.
    """
    run_live(given("RELEASE", DEFAULT), *only())


@job(
    "10 min; Go first builds for 25 min",
    needs=[GO],
    takes=["RELEASE", "SEED", "SECONDS", "OUT"],
    nightly=True,
)
def fuzz_admission() -> None:
    """Valid objects with changes, which a real API server and moorage accept or refuse alike

    Its log has the seed, which SEED gives again. Each difference is a vector in OUT; SECONDS are 600.
    """
    servers = {
        "MOORAGE_SERVERS": python("-m", "tests.live.servers.build", given("RELEASE", DEFAULT), stdout=PIPE)
    }
    options = {name: given(name) for name in ("SEED", "SECONDS", "OUT")}
    named = [word for name, value in options.items() if value for word in (f"--{name.lower()}", value)]
    least = ["--least", "0"] if given("SECONDS") else []
    python("-m", "tests.campaign.admission_fuzz", *named, *least, environment=servers)


@job("11 min beside other work, 6 of a processor; Go first builds for an hour", needs=[GO], nightly=True)
def live_releases() -> None:
    """The live tests that depend on the API server, for each release; says which were built

    Raises
    ------
    JobError
        Some release could not be built, or its tests have failed.
    """
    results = {}
    for release in MODULES:
        try:
            run_live(release, *OF_THE_SERVER)
            results[release] = "ok"
        except JobError as error:
            results[release] = str(error)
    print("\n".join(f"{version(release)}: {result}" for release, result in results.items()), flush=True)
    if failed := [release for release, result in results.items() if result != "ok"]:
        raise JobError(f"failed: {', '.join(failed)}")


@job("70 min beside other work, 33 of a processor; Go first builds for 20 min", needs=[GO], nightly=True)
def live_long() -> None:
    """Live tests that take long: 10,000 pods and gangs beside kube-scheduler, memory over 12,000 pods"""
    for release, names in LONG.items():
        run_live(release, *(f"tests/live/test_{name}.py" for name in names), are_long=True)
