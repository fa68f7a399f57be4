"""Random runs, comparisons with kube-scheduler's code, and mutants."""

from __future__ import annotations

from tests.jobs.job import GO, ROOT, VALGRIND, Need, given, job, python

FILES = Need("FOLDER=… with the files that tests/inputs/real_files.py names", lambda: bool(given("FOLDER")))


@job("5 min; Go first builds for 12", needs=[GO], takes=["RELEASE", "SEED", "COUNT", "VECTORS"], nightly=True)
def parity() -> None:
    """Scenarios bred from the vectors, decided by kube-scheduler's own code as well

    VECTORS names another folder than the repository's, SEED and COUNT other scenarios, RELEASE 1.37.
    """
    numbers = [
        "--release",
        given("RELEASE", "1.36"),
        "--seed",
        given("SEED", "1"),
        "--count",
        given("COUNT", "1000"),
    ]
    python("-m", "tests.conformance.upstream", *numbers, *given("VECTORS").split())


@job("1 min", takes=["RECORDS"], nightly=True)
def records() -> None:
    """Which pods exist after changes of a real control plane: the records of the repository, or RECORDS"""
    python("-m", "tests.conformance", *given("RECORDS", "tests/conformance/data/cluster").split())


@job("25 s", needs=[VALGRIND], takes=["OPTIONS"], nightly=True)
def instructions() -> None:
    """The core's instructions on hot paths, at most 2 % from figures.json, which OPTIONS=--write renews"""
    python("-m", "bench.instructions", *given("OPTIONS").split())


@job("10 min", takes=["SECONDS"])
def soak() -> None:
    """Eight threads over caches, forks, a pool and a store, for ten minutes or SECONDS"""
    python("-m", "tests.campaign.soak", "build/campaign/soak.json", "--seconds", given("SECONDS", "600"))


@job("a day", takes=["OPTIONS"], extras=["campaign"])
def campaign() -> None:
    """The campaign, large, before a release; OPTIONS='--jobs fuzz --seed 7 --scale 0.1' runs a part"""
    python("-m", "tests.campaign", *given("OPTIONS").split())


@job("22 min beside other work, 14 of a processor", takes=["OPTIONS"], extras=["campaign"], nightly=True)
def campaign_short() -> None:
    """Every job of the campaign, small"""
    python("-m", "tests.campaign", "--short", *given("OPTIONS").split())


@job("hours", takes=["SAMPLE", "SEED", "OPTIONS"], extras=["campaign"])
def mutants() -> None:
    """Changes of the code that the tests have to notice: SAMPLE of each room, chosen by SEED

    OPTIONS are more of `python -m tests.campaign.mutants`: `--since COMMIT` draws from files that have
    changed, `--table` tells all tests that notice what no vector and no case does.
    build/campaign/mutants.json has the result of each; a report that is there is continued.
    """
    report = ROOT / "build/campaign/mutants.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    numbers = ["--sample", given("SAMPLE", "20"), "--seed", given("SEED", "1")]
    python("-m", "tests.campaign.mutants", str(report), *numbers, *given("OPTIONS").split())


@job("10 s", needs=[FILES], takes=["FOLDER", "OPTIONS"], nightly=True)
def real_files() -> None:
    """Real dumps, archives and traces of FOLDER, read whole

    OPTIONS=--write renews tests/inputs/RESULTS.md.
    """
    python("-m", "tests.inputs", given("FOLDER"), *given("OPTIONS").split())


@job("an hour, or SECONDS", takes=["SECONDS", "SEED", "OPTIONS"], nightly=True)
def agreement() -> None:
    """The same question by two ways, over drawn clusters and dumps, for an hour or SECONDS

    build/agreement has the files and the commands of each kind of difference, on a cluster that was made
    smaller. OPTIONS='--relations later-budget' asks only some relations.
    """
    numbers = ["--seconds", given("SECONDS", "3600"), "--seed", given("SEED", "1")]
    python("-m", "tests.agreement", *numbers, *given("OPTIONS").split())
