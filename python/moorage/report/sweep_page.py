"""The page of ``moorage sweep``: a view of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.errors import first_of

from .page import Cell, Drawn, Fact, Facts, Grid, Page, amount, shortened

KEYS = ("configuration", "timeline", "change")
ROWS = 5_000
"""Maximum number of means that are drawn."""


def sweep_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a sweep.

    Parameters
    ----------
    document : mapping
        ``sweep.moorage.dev/v1``.
    """
    means, runs = document["means"], document["runs"]
    page = Page("Sweep", _headline(means, runs))
    combinations = {tuple(one[key] for key in KEYS) for one in runs}
    facts = [Fact("replays", amount(len(runs))), Fact("combinations", amount(len(combinations)))]
    facts += [Fact(f"{key}s", amount(len({one[key] for one in runs}))) for key in KEYS]
    facts.append(Fact("seeds", amount(len({one["seed"] for one in runs}))))
    page.add("Summary", Facts(facts))
    page.add("Comparison", _intervals(means), _side_by_side(means))
    page.add("All means", _means(means))
    page.add("Replays", _runs(runs))
    return page


def _headline(means: Sequence[Mapping[str, Any]], runs: Sequence[Any]) -> str:
    names = dict.fromkeys(one["configuration"] for one in means)
    listed = first_of(list(names), 6)
    noun = "configuration" if len(names) == 1 else "configurations"
    return f"{amount(len(runs))} replays compare {len(names)} {noun}: {listed}."


def _intervals(means: Sequence[Mapping[str, Any]]) -> Drawn | None:
    if not means:
        return None
    choices = [(key.capitalize(), list(dict.fromkeys(one[key] for one in means))) for key in KEYS]
    note = "Dot: mean over seeds. Thick line: 95 % confidence interval. Thin line: least to greatest."
    varied, equal = varied_first(means)
    measures = [*varied, *equal]
    texts = {"measures": measures, "choices": [one for one in choices if len(one[1]) > 1], "note": note}
    names = ("measure", *KEYS, "mean", "margin", "least", "greatest")
    rows = [{name: one[name] for name in names if name in one} for one in means[:ROWS]]
    return Drawn("intervals", rows, texts)


def varied_first(means: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the measures that are not the same in every replay, and the others.

    Parameters
    ----------
    means : sequence of mapping
        Of ``sweep.moorage.dev/v1``.
    """
    values: dict[str, set[float]] = {}
    for one in means:
        values.setdefault(one["measure"], set()).update((one["least"], one["greatest"]))
    varied = [name for name, found in values.items() if len(found) > 1]
    return varied, [name for name in values if name not in varied]


def _side_by_side(means: Sequence[Mapping[str, Any]]) -> Grid | None:
    """Return a row per timeline, change and measure, a column per configuration."""
    names = list(dict.fromkeys(one["configuration"] for one in means))
    if not 2 <= len(names) <= 12:
        return None
    cells: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for one in means:
        cells.setdefault((one["measure"], one["timeline"], one["change"]), {})[one["configuration"]] = one
    rows: list[list[Cell]] = [
        [*key, *(_with_margin(found[name]) if name in found else None for name in names)]
        for key, found in cells.items()
    ]
    return shortened("Means side by side", ["measure", "timeline", "change", *names], rows, (0, 1, 2))


def _with_margin(mean: Mapping[str, Any]) -> str:
    margin = mean.get("margin")
    return f"{mean['mean']:.5g}" + (f" ± {margin:.2g}" if margin else "")


def _means(means: Sequence[Mapping[str, Any]]) -> Grid:
    names = (*KEYS, "measure", "runs", "mean", "least", "greatest", "margin")
    rows: list[list[Cell]] = [[one.get(name) for name in names] for one in means]
    return shortened("Means over seeds", (*names[:-1], "95 % ±"), rows, (0, 1, 2, 3), "-o json has them all.")


def _runs(runs: Sequence[Mapping[str, Any]]) -> Grid:
    measures = list(dict.fromkeys(name for one in runs for name in one["measures"]))
    rows: list[list[Cell]] = [
        [*(one[key] for key in KEYS), str(one["seed"]), *(one["measures"].get(name) for name in measures)]
        for one in runs
    ]
    return shortened(
        "Measures of each replay", (*KEYS, "seed", *measures), rows, (0, 1, 2), "-o csv has them all."
    )
