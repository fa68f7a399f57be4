"""A contract of import-linter: no modules import one another in a circle.

The contracts that come with import-linter look at packages; this one looks at modules. Imports for type checkers
count as well.
"""  # noqa: E501

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

Graph = dict[str, set[str]]


def circle(edges: Graph) -> list[str]:
    """The modules of one circle of imports, each imported by the one before it; none if there is no circle."""  # noqa: E501
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


class CirclesContract(Contract):
    type_name = "circles"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        edges = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
        modules = circle(edges)
        return ContractCheck(kept=not modules, metadata={"circle": modules})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error("These modules import one another in a circle:")
        output.print_error("  " + "\n    imports ".join(check.metadata["circle"]), bold=False)
