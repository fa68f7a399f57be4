"""The contract of import-linter that `make lint` checks: circles of imports."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import ContractCheck

from tests.house.circles import CirclesContract

CHAIN = [("m.a", "m.b"), ("m.b", "m.c")]


def checked(imports: list[tuple[str, str]]) -> ContractCheck:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    options = {"name": "Circles", "id": "c", "type": "circles"}
    return CirclesContract("Circles", {"root_packages": ["m"]}, options).check(graph, verbose=False)


def test_a_chain_of_imports_is_no_circle() -> None:
    assert checked(CHAIN).kept


def test_a_circle_is_shown_in_the_order_of_its_imports() -> None:
    check = checked([*CHAIN, ("m.c", "m.a"), ("m.d", "m.a")])
    assert not check.kept
    first, *others = check.metadata["circle"]
    assert others[-1] == first
    assert {(first, others[0]), *zip(others, others[1:], strict=False)} == {*CHAIN, ("m.c", "m.a")}  # noqa: RUF007
