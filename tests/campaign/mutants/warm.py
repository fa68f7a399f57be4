"""A plugin of pytest that has imported and collected everything once. Each mutant is a child of its process.

First it learns which mutants each test reaches, and how long the test takes: a child for each file of tests.
Then a child for each mutant carries out the tests that reach it, the likeliest and fastest first, until one
fails.
"""

from __future__ import annotations

import faulthandler
import hashlib
import itertools
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.campaign.mutants import functions
from tests.campaign.mutants.bits import packed, unpacked
from tests.campaign.mutants.kernels import Switch
from tests.campaign.mutants.mutant import ROOT, Mutant
from tests.campaign.mutants.places import OUTER, ROOMS, reasons

OPTIONS = [
    "-q", "--capture=sys", "-p", "no:benchmark", "-p", "no:randomly", "-p", "no:xdist",
    "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0",
]  # fmt: skip
STUCK = 60.0
"""Seconds beyond its tests' time after which a child counts as one that does not end."""
LEARNED = 400.0
"""Seconds of processor time in which the tests of one file are learned; what is left of them is not used."""
MEMORY = 8 << 30
Result = dict[str, Any]


def pytest_configure(config: pytest.Config) -> None:
    """The same examples each time, and none made smaller: that a test fails is enough."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def stopped(number: int, frame: object) -> None:
    raise TimeoutError("a test takes ten times as long as without the mutant")


class Child:
    """A forked process that writes its result as JSON."""

    def __init__(self, work: Callable[[], Any], path: Path, seconds: float) -> None:
        self.path = path
        self.end = time.monotonic() + seconds
        self.path.unlink(missing_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                faulthandler.disable()
                nothing = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nothing, stream)
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                path.write_text(json.dumps(work()))
            finally:
                os._exit(0)
        self.handle = os.pidfd_open(self.pid)

    def result(self) -> tuple[Any, int, float]:
        """The result (None without one), the signal that ended the process, seconds of processor time."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what it has left behind, or itself
        _, state, used = os.wait4(self.pid, 0)
        os.close(self.handle)
        told = json.loads(self.path.read_text()) if self.path.exists() else None
        return told, os.WTERMSIG(state) if os.WIFSIGNALED(state) else 0, used.ru_utime + used.ru_stime


def in_children(
    tasks: Iterable[tuple[Any, Callable[[], Any], float]], folder: Path, jobs: int
) -> Iterator[tuple[Any, tuple[Any, int, float]]]:
    """The result of each task (name, work, seconds) as it comes, with so many at a time."""
    running: dict[int, tuple[Any, Child]] = {}
    places = list(range(jobs))
    used: dict[int, int] = {}

    def ended() -> Iterator[tuple[Any, tuple[Any, int, float]]]:
        ready, _, _ = select.select(list(running), [], [], 1.0)
        late = [handle for handle, (_, child) in running.items() if time.monotonic() > child.end]
        for handle in {*ready, *late}:
            name, child = running.pop(handle)
            places.append(used.pop(handle))
            yield name, child.result()

    for name, work, seconds in tasks:
        while not places:
            yield from ended()
        place = places.pop()
        child = Child(work, folder / f"child_{place}.json", seconds)
        running[child.handle], used[child.handle] = (name, child), place
    while running:
        yield from ended()


class Warm:
    """Tests a sample of mutants, and reports after each."""

    def __init__(self, mutants: list[Mutant], sample: list[int], options: Any) -> None:
        self.mutants, self.sample, self.options = mutants, sample, options
        self.folder = Path(options.folder)
        self.failed = False
        self.reach: dict[str, tuple[float, int]] = {}
        self.killers: dict[str, dict[str, int]] = defaultdict(dict)
        self.retried: set[int] = set()  # mutants that the report has already
        self.report: dict[str, Any] = {}

    # ---- pytest --------------------------------------------------------------------------------------------

    def pytest_configure(self, config: pytest.Config) -> None:
        pytest_configure(config)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("files that cannot be collected kill no mutants")
        self.items = {item.nodeid: item for item in session.items}
        self.switch = Switch(len(self.mutants))
        functions.gc.unfreeze()  # the functions that are there are looked up among what is not frozen
        self.functions = functions.functions_of(ROOT / "python/moorage")
        functions.gc.freeze()
        self.end = time.monotonic() + self.options.seconds
        if self.learn():
            self.test()
        return True

    def run(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Carry out a test; whether it passed."""
        self.failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self.failed

    # ---- which tests reach which mutants -------------------------------------------------------------------

    def learn(self) -> bool:
        """Read what is known of the tests, and learn the rest; false if the time ends before."""
        source = hashlib.sha256(json.dumps(self.mutants).encode()).hexdigest()
        path = self.folder / "reach.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if known.get("source") != source:
            known = {"source": source, "files": {}}
        by_file: dict[str, list[pytest.Item]] = defaultdict(list)
        for nodeid, item in self.items.items():
            by_file[nodeid.partition("::")[0]].append(item)
        now = {file: digest(ROOT / file) for file in by_file}
        known["files"] = {file: one for file, one in known["files"].items() if now.get(file) == one["digest"]}
        lines = self.lines()

        def tasks() -> Iterator[tuple[str, Callable[[], Any], float]]:
            for file, items in by_file.items():
                if file not in known["files"] and time.monotonic() < self.end:
                    yield file, lambda items=items: self.reached(items, lines), 1200  # type: ignore[misc]

        for file, (told, killed, seconds) in in_children(tasks(), self.folder, self.options.jobs):
            print(
                f"{file}: {seconds:.1f} s{f', ended by signal {killed}' if told is None else ''}", flush=True
            )
            known["files"][file] = {"digest": now[file], "tests": told or {}}
            path.write_text(json.dumps(known))
        self.reach = {
            nodeid: (seconds, unpacked(bits))
            for one in known["files"].values()
            for nodeid, (seconds, bits) in one["tests"].items()
            if nodeid in self.items
        }
        return known["files"].keys() >= by_file.keys()

    def lines(self) -> dict[str, dict[int, int]]:
        """The mutants of each line that is executed, as bits, by file."""
        by_file: dict[str, list[int]] = defaultdict(list)
        for number, mutant in enumerate(self.mutants):
            if mutant.file.endswith(".py"):
                by_file[mutant.file].append(number)
        found: dict[str, dict[int, int]] = {}
        for file, numbers in by_file.items():
            path = ROOT / file
            held: dict[int, int] = defaultdict(int)
            places = functions.statement_lines([self.mutants[one] for one in numbers], path.read_text())
            for number, place in zip(numbers, places, strict=True):
                for line in place:
                    held[line] |= 1 << number
            found[str(path)] = held
        return found

    def reached(
        self, items: list[pytest.Item], lines: dict[str, dict[int, int]]
    ) -> dict[str, tuple[float, str]]:
        """Seconds and mutants of the tests that pass."""
        measured = coverage.Coverage(
            data_file=None, config_file=False, source=[str(ROOT / room) for room in ROOMS]
        )
        measured.set_option(
            "run:disable_warnings", ["module-not-measured", "already-imported", "no-data-collected"]
        )
        measured.start()
        took: dict[str, tuple[float, int]] = {}
        signal.setitimer(signal.ITIMER_PROF, 1.25 * LEARNED)
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.process_time() > LEARNED:
                break
            measured.switch_context(item.nodeid)
            begun = time.process_time()
            self.switch.take_reached()
            if self.run(item, following):
                bits = sum(1 << number for number in self.switch.take_reached())
                took[item.nodeid] = time.process_time() - begun, bits
        measured.stop()
        data = measured.get_data()
        found = {nodeid: bits for nodeid, (_, bits) in took.items()}
        for path in data.measured_files():
            held = lines.get(os.path.realpath(path), {})
            for line, contexts in data.contexts_by_lineno(path).items():
                if line in held:
                    for nodeid in contexts:
                        if nodeid in found:
                            found[nodeid] |= held[line]
        return {nodeid: (round(took[nodeid][0], 4), packed(bits)) for nodeid, bits in found.items()}

    # ---- mutants -------------------------------------------------------------------------------------------

    def tests_of(self, number: int, folders: tuple[str, ...]) -> tuple[list[str], bool]:
        """The tests of folders that reach a mutant, in order; whether all fit the time of one mutant."""
        mutant = self.mutants[number]
        killers = self.killers[mutant.file]
        likeliest = sorted(killers, key=lambda nodeid: abs(killers[nodeid] - mutant.line))[:5]
        stem = f"test_{Path(mutant.file).stem}"
        reaching = sorted(
            (seconds, nodeid)
            for nodeid, (seconds, bits) in self.reach.items()
            if bits >> number & 1 and nodeid.startswith(folders)
        )
        skipped = self.options.skip if number in self.retried else 0.0
        spent, chosen, chance = 0.0, [], random.Random(number)
        for seconds, nodeid in reaching:
            spent += seconds
            if spent > skipped:
                order = 0 if nodeid in likeliest else 1 if stem in nodeid else 2
                chosen.append((order, seconds if not skipped else chance.random(), seconds, nodeid))
        left, kept = self.options.budget, []
        for _, _, seconds, nodeid in sorted(chosen):
            left -= seconds
            if left > 0 or not kept:
                kept.append(nodeid)
        return kept, len(kept) == len(chosen)

    def chosen(self, number: int) -> tuple[list[str], list[str], bool]:
        """The tests of which the first that fails ends the work, those that are all carried out, and whether
        these are all that reach the mutant."""
        if not self.options.table:
            room = next(one for one in ROOMS if self.mutants[number].file.startswith(f"{one}/"))
            tests, are_all = self.tests_of(number, (*ROOMS[room], *OUTER))
            return tests, [], are_all
        outer, all_outer = self.tests_of(number, tuple(OUTER))
        inner, all_inner = self.tests_of(number, tuple({one for room in ROOMS.values() for one in room}))
        return outer, inner, all_outer and all_inner

    def killed(self, number: int, first: list[str], all_of: list[str]) -> Result:
        """Make a mutant in this process, and carry out tests: until one fails, then all of the others."""
        mutant = self.mutants[number]
        if not mutant.file.endswith(".py"):
            self.switch.choose(number)
        elif not functions.replace(mutant, self.functions):
            return {"import": True}
        following = dict(itertools.pairwise([*first, *all_of]))
        for nodeid in first:
            if not self.passes(nodeid, following.get(nodeid)):
                return {"killed": nodeid}
        signal.signal(signal.SIGPROF, stopped)
        killers = [nodeid for nodeid in all_of if not self.passes(nodeid, following.get(nodeid))]
        signal.setitimer(signal.ITIMER_PROF, 0)
        return {"killed": killers[0] if killers else None, "killers": killers}

    def passes(self, nodeid: str, following: str | None) -> bool:
        """Whether a test passes within ten times its seconds."""
        signal.setitimer(signal.ITIMER_PROF, 10 * self.reach[nodeid][0] + 3)
        return self.run(self.items[nodeid], self.items[following] if following else None)

    def killed_at_import(self, number: int) -> Result:
        """The same in a new process of Python, in which the mutant's module is imported."""
        mutant = self.mutants[number]
        file = mutant.file
        near = sum(1 << at for at, one in enumerate(self.mutants) if one.file == file)
        folders = (*OUTER, *next(tests for room, tests in ROOMS.items() if file.startswith(f"{room}/")))
        chosen = sorted(
            (-(bits & near).bit_count() / (seconds + 0.05), nodeid)
            for nodeid, (seconds, bits) in self.reach.items()
            if bits & near and nodeid.startswith(folders)
        )[:200]
        environment = os.environ | {"MOORAGE_MUTANT": json.dumps(mutant), "PYTHONDONTWRITEBYTECODE": "1"}
        plugins = ["-p", "tests.campaign.mutants.warm"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", *OPTIONS, *plugins, *(nodeid for _, nodeid in chosen)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        told = done.stdout.splitlines()[-1:]
        if done.returncode and not (told and ("failed" in told[0] or "error" in told[0])):
            raise RuntimeError(done.stdout + done.stderr)
        return {"killed": f"import: {told[0]}" if done.returncode else None}

    def earlier(self, path: Path) -> dict[str, Result]:
        """The results of a report that is continued, without those of mutants beside the sample."""
        told = json.loads(path.read_text()).get("results", {}) if path.exists() else {}
        names = {str(self.mutants[number]): number for number in self.sample}
        self.retried = {names[name] for name in told if name in names}
        results = {
            name: one
            for name, one in told.items()
            if name in names and (one["killed"] or not self.options.again)
        }
        for name, one in results.items():
            file, _, rest = name.partition(":")
            if one["killed"] and "::" in one["killed"]:
                self.killers[file][one["killed"]] = int(rest.partition(" ")[0])
        return results

    def test(self) -> None:
        """Test what is left of the sample."""
        path = Path(self.options.report)
        results = self.earlier(path)
        names = {number: str(self.mutants[number]) for number in self.sample}
        whole: dict[int, bool] = {}

        def tasks() -> Iterator[tuple[tuple[int, bool], Callable[[], Any], float]]:
            waiting = [number for number in self.sample if names[number] not in results]
            random.Random(self.options.seed).shuffle(waiting)
            for number in waiting:
                if time.monotonic() > self.end:
                    return
                first, all_of, whole[number] = self.chosen(number)
                seconds = sum(self.reach[nodeid][0] for nodeid in [*first, *all_of])
                yield (
                    (number, False),
                    lambda n=number, t=(first, all_of): self.killed(n, *t),
                    10 * seconds + STUCK,
                )

        def work() -> Iterator[tuple[int, Any, int, float]]:
            anew = []
            for (number, _), (told, ended, used) in in_children(tasks(), self.folder, self.options.jobs):
                if told and told.get("import"):
                    anew.append(number)
                else:
                    yield number, told, ended, used
            imports = (((n, True), lambda n=n: self.killed_at_import(n), 300.0) for n in anew)
            for (number, _), (told, ended, used) in in_children(imports, self.folder, self.options.jobs):
                yield number, told, ended, used

        for number, told, ended, used in work():
            mutant = self.mutants[number]
            killed = (told["killed"] if told else None) or (f"signal {ended}" if ended else None)
            if killed and "::" in killed:
                self.killers[mutant.file][killed] = mutant.line
            results[names[number]] = {
                "killed": killed,
                "seconds": round(used, 2),
                "reached": sum(bits >> number & 1 for _, bits in self.reach.values()),
                "all": whole.get(number, False),
                **({"killers": told["killers"]} if told and "killers" in told else {}),
            }
            self.write(path, results)
        self.write(path, results)

    def write(self, path: Path, results: dict[str, Result]) -> None:
        counts, known = Counter[str](), reasons(self.mutants)
        for name, one in results.items():
            room = next(room for room in ROOMS if name.startswith(f"{room}/"))
            how = "killed" if one["killed"] else "equivalent" if name in known else "survived"
            counts[f"{room}: {how}"] += 1
        path.write_text(
            json.dumps(
                {
                    "seed": self.options.seed,
                    "mutants": len(self.mutants),
                    "tested": len(results),
                    "seconds": round(sum(one["seconds"] for one in results.values())),
                    "counts": dict(sorted(counts.items())),
                    "survivors": {
                        name: one | {"reason": known.get(name)}
                        for name, one in sorted(results.items())
                        if not one["killed"]
                    },
                    "results": results,
                },
                indent=1,
            )
        )
