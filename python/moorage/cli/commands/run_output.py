"""Output of ``moorage simulate`` and ``moorage compare``: pages, pictures, and what CI systems show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from moorage.answers.homeless_pods import HELD
from moorage.answers.runs.comparison import KEPT_MEASURE, Alternative, ComparisonAnswer
from moorage.answers.runs.simulation import EVICTED, PLACED, REPLACED, PodOutcome
from moorage.answers.runs.simulation_answer import SimulationAnswer
from moorage.answers.text_tables import PrintedTable

from .printing import (
    COMMENT_ROWS,
    PICTURES,
    first_rows,
    ignore_broken_pipe,
    notice,
    print_names,
    without_folders,
    write_answer,
    write_picture,
)

if TYPE_CHECKING:
    from .printing import PageOf


def write_simulation(form: str, answer: SimulationAnswer, bound: Sequence[PodOutcome] = ()) -> None:
    """Print the outcomes of pods and the summary.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name", "html", "png", "svg"}
        Format of the output: by workload in tables; by pod with ``wide`` and ``csv``. ``name`` prints
        ``pod/NAME`` of each placed pod, as kubectl prints created objects. CSV and names have no summary.
    bound : sequence of PodOutcome, optional
        Pods that ``wide`` and ``csv`` show, too.
    """
    simulation = answer.simulation
    if form == "name":
        shown = answer.outcomes or ()
        print_names(f"pod/{outcome.pod.name}" for outcome in shown if outcome.status == PLACED)
        return
    if form in PICTURES:
        from moorage.answers.figures import node_figure
        from moorage.answers.nodes.node_use import current_use

        write_picture(form, node_figure(current_use(simulation.scheduler)))
        return

    def page() -> PageOf:
        from moorage.answers.answer_pages import simulation_page
        from moorage.answers.explain.explain_document import document
        from moorage.answers.nodes.node_use import current_use

        fields, scheduler = answer.document(), simulation.scheduler
        use = current_use(scheduler)
        result = simulation_page(
            fields, use, lambda key: document(scheduler.ask.explain(key)), [*answer.lines()]
        )
        return result, [fields.release], fields.warnings

    tables = answer.tables(form == "wide", bound)
    write_answer(form, answer.document, answer.lines(), tables, lambda: answer.pod_table(bound=bound), page)


def write_comparison(form: str, answer: ComparisonAnswer) -> None:
    """Print runs side by side.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "github", "html"}
        A CSV file has the pods that differ.
    """
    alternatives, lines = answer.alternatives, [*answer.lines()]
    if form == "github":
        with ignore_broken_pipe():
            print("".join(_notices(alternatives, lines[0])), end="")
        return

    def page() -> PageOf:
        from moorage.answers.answer_pages import comparison_page

        names = [without_folders(run.name) for run in alternatives]
        each = [] if answer.releases else [run.simulation.cluster.release for run in alternatives]
        return comparison_page(answer.document(), names, lines), each, answer.warnings

    tables = answer.tables()
    if form == "markdown" and any(run.simulation.scale_up is not None for run in alternatives):
        pods = first_rows(_without_node(alternatives, answer.pods))
        measures = answer.measures
        differing = [row for row in measures.cells if row[0] in _IN_COMMENT and len({*row[1:]}) > 1]
        tables = iter([PrintedTable(measures.headings, differing), *[*tables][1:-1], pods])
    write_answer(form, answer.document, lines, tables, lambda: answer.pods, page)


def _without_node(alternatives: Sequence[Alternative], pods: PrintedTable) -> PrintedTable:
    """The pods that wait somewhere, or were evicted, for a comment."""
    named = {key for run in alternatives for key in (*run.reasons, *run.simulation.evicted)}
    return PrintedTable(pods.headings, [row for row in pods.cells if row[0] in named])


def _notices(alternatives: Sequence[Alternative], first: str) -> Iterator[str]:
    """Yield annotations of GitHub: nodes and price of each run, and who waits or is evicted."""
    yield notice("notice", "moorage compare", first)
    for run in alternatives[:COMMENT_ROWS]:
        shown = {name: value for name, value in run.measures.items() if name in _IN_COMMENT}
        yield notice("notice", run.name, ", ".join(f"{name} {value:g}" for name, value in shown.items()))
        evicted = run.simulation.evicted
        states = {outcome.key: _STATES.get(outcome.status, "waits") for outcome in run.simulation.outcomes}
        waiting = [f"{key} {states[key]}: {why}" for key, why in run.reasons.items() if key not in evicted]
        gone = [f"{key} is evicted: {each.reason}" for key, each in evicted.items()]
        most = max(1, COMMENT_ROWS // len(alternatives))
        for text in (*waiting, *gone)[:most]:
            yield notice("warning", run.name, text)
        if len(waiting) + len(gone) > most:
            yield notice(
                "warning", run.name, f"{len(waiting) + len(gone) - most} more wait, stay or are evicted"
            )


_STATES = {**dict.fromkeys(HELD, "stays on its node"), EVICTED: "is evicted", REPLACED: "is evicted"}
_IN_COMMENT = (
    *("nodes", "new nodes", "new nodes $/h", "nodes $/h"),
    *("placed", "without a node", "evicted", KEPT_MEASURE),
)
"""Measures that a comment has."""
