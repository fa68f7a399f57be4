"""Asks for some time: `python -m tests.agreement --seconds 60 --seed 1 --relations later-budget`.

Of each kind of difference the first is made smaller; a folder keeps its files, and what was asked of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.agreement.asking import Difference
from tests.agreement.clusters import Cluster, fixed
from tests.agreement.drawing import draw
from tests.agreement.dumps import share
from tests.agreement.judge import Verdict, judge
from tests.agreement.known import KNOWN
from tests.agreement.reducing import reduced
from tests.agreement.relation import RELATIONS

LONG = 1800
"""From so many seconds on each line of known.toml has to be met."""


def main(arguments: list[str]) -> int:
    """Ask, and print what differs; 1 if the docs do not state it, or state what agrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--relations", default="", help="their names; all by default")
    parser.add_argument("--folder", type=Path, default=Path("build/agreement"))
    parser.add_argument("--reduce", type=float, default=10, metavar="SECONDS", help="for each kind")
    given = parser.parse_args(arguments)
    names = given.relations.split(",") if given.relations else list(RELATIONS)
    if unknown := [name for name in names if name not in RELATIONS]:
        parser.error(f"no relation is named {', '.join(unknown)}; there are {', '.join(RELATIONS)}")
    with TemporaryDirectory() as folder:
        verdict = judge(clusters(given.seed), Path(folder), names, within(given.seconds))
    count_out(verdict)
    for number, difference in enumerate(first_of_each(verdict)):
        with TemporaryDirectory() as folder:
            cluster = verdict.clusters[difference.cluster]
            difference = reduced(difference, cluster, Path(folder), within(given.reduce))
        keep(difference, given.folder / f"seed-{given.seed}" / f"{number:02}-{difference.relation}")
    asked, wrong = sum(verdict.comparisons.values()), len(verdict.wrong)
    print(
        f"\n{wrong} differences in {asked} comparisons, {len(verdict.clusters)} clusters, seed {given.seed}"
    )
    unmet = (
        KNOWN.keys() - {one.known for one in verdict.differences}
        if given.seconds >= LONG and not given.relations
        else ()
    )
    for name in sorted(unmet):
        print(f"known.toml: the answers of {name} agree; take the line out")
    return bool(wrong or unmet)


def within(seconds: float) -> Callable[[], bool]:
    """Whether there is time left of so many seconds from now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def clusters(seed: int) -> Iterator[Cluster]:
    """Drawn clusters and shares of dumps, without end, and between them the fixed clusters."""
    others = fixed()
    for number in count():
        yield draw(seed, number)
        yield from islice(others, 1)
        if number % 4 == 3:
            yield share(seed, number // 4)


def count_out(verdict: Verdict) -> None:
    """Print a line for each relation, and one for each of its comparisons that differed."""
    for name in RELATIONS:
        mine = [one for one in verdict.differences if one.relation == name]
        stated = sum(bool(one.known) for one in mine)
        numbers = f"{verdict.comparisons[name]:6} asked {len(mine) - stated:5} differ {stated:5} stated"
        print(f"{name:24} {numbers} {verdict.seconds[name]:8.1f} s")
        for about, number in Counter(one.known or one.about for one in mine).most_common():
            print(f"    {number:5} {about}")


def first_of_each(verdict: Verdict) -> list[Difference]:
    """The first difference of each kind that no page states."""
    first: dict[tuple[str, str], Difference] = {}
    for one in verdict.wrong:
        first.setdefault((one.relation, one.about), one)
    return list(first.values())


def keep(difference: Difference, folder: Path) -> None:
    """Write the files of a difference, and what was asked about them, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in difference.files.items():
        (folder / name).write_text(text)
    (folder / "asked.txt").write_text(f"{difference.text}\n")
    about = f"{difference.relation}, {difference.about}, on {difference.cluster}: {folder}"
    print(f"\n{about}\n{difference.text[:1500]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
