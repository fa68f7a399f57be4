"""A contract of import-linter: no modules import one another in a circle.

The contracts that come with import-linter look at packages; this one looks at modules. Imports for type checkers
count as well. What ``ignore_imports`` lists are exceptions, and each has to be needed.
"""  # noqa: E501

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application.contract_utils import AlertLevel, remove_ignored_imports_and_report

Graph = dict[str, set[str]]


def circle(edges: Graph) -> list[str]:
    """The modules of one circle of imports, each imported by the one before it; none if there is no circle."""  # noqa: E501
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def reaches(edges: Graph, start: str, goal: str) -> bool:
    """Whether a module imports another one, directly or by way of others."""
    seen, todo = {start}, [start]
    while todo:
        new = edges.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return goal in seen


class CirclesContract(Contract):
    type_name = "circles"

    ignore_imports = fields.ListField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        exceptions = {
            str(one): graph.find_matching_direct_imports(str(one)) for one in self.ignore_imports or ()
        }
        removed = remove_ignored_imports_and_report(graph, self.ignore_imports, AlertLevel.ERROR)
        edges = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
        found = circle(edges)
        needless = [
            exception
            for exception, imports in exceptions.items()
            if not found and not any(reaches(edges, one["imported"], one["importer"]) for one in imports)
        ]
        return ContractCheck(
            kept=not found and not needless,
            ignored_import_count=removed.ignored_import_count,
            metadata={"circle": found, "needless": needless},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        if check.metadata["circle"]:
            output.print_error("These modules import one another in a circle:")
            output.print_error("  " + "\n    imports ".join(check.metadata["circle"]), bold=False)
        for exception in check.metadata["needless"]:
            output.print_error(f"Remove the exception {exception}: there is no circle without it.")
