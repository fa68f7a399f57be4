"""The contract of import-linter that `make lint` checks: circles of imports, and exceptions that nothing needs."""  # noqa: E501

from __future__ import annotations

import pytest
from grimp import ImportGraph
from importlinter import ContractCheck
from importlinter.domain.helpers import MissingImport

from tests.house.circles import CirclesContract

CHAIN = [("m.a", "m.b"), ("m.b", "m.c")]


def checked(imports: list[tuple[str, str]], *exceptions: str) -> ContractCheck:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    options = {"name": "Circles", "id": "c", "type": "circles", "ignore_imports": list(exceptions)}
    contract = CirclesContract("Circles", {"root_packages": ["m"]}, options)
    return contract.check(graph, verbose=False)


def test_a_chain_of_imports_is_no_circle() -> None:
    assert checked(CHAIN).kept


def test_a_circle_is_shown_in_the_order_of_its_imports() -> None:
    check = checked([*CHAIN, ("m.c", "m.a"), ("m.d", "m.a")])
    assert not check.kept
    first, *others = check.metadata["circle"]
    assert others[-1] == first
    assert {(first, others[0]), *zip(others, others[1:], strict=False)} == {*CHAIN, ("m.c", "m.a")}  # noqa: RUF007


@pytest.mark.parametrize("exception", ["m.c -> m.a", "m.c -> m.*"])
def test_an_exception_opens_a_circle(exception: str) -> None:
    assert checked([*CHAIN, ("m.c", "m.a")], exception).kept


def test_an_exception_that_closes_no_circle_breaks_the_contract() -> None:
    check = checked([*CHAIN, ("m.c", "m.a"), ("m.a", "m.d")], "m.c -> m.a", "m.a -> m.d")
    assert not check.kept
    assert check.metadata["needless"] == ["m.a -> m.d"]


def test_an_exception_for_an_import_that_is_gone_is_an_error() -> None:
    with pytest.raises(MissingImport, match=r"m\.c -> m\.a"):
        checked(CHAIN, "m.c -> m.a")
