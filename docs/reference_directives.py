"""Directives of the reference: `front-door` for a module, `json-schemas` for what ``-o json`` prints."""

from __future__ import annotations

from docutils.nodes import Node, container
from docutils.statemachine import StringList
from front_doors import reference
from schema_tables import SCHEMAS, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class _Generated(SphinxDirective):
    """Parses lines that it makes."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[Node]:
        node = container()
        self.state.nested_parse(StringList(self.lines(), source=self.name), self.content_offset, node)
        return list(node.children)


class FrontDoor(_Generated):
    """A table of the public names of a module, then the docstring of each."""

    required_arguments = 1

    def lines(self) -> list[str]:
        return reference(self.arguments[0])


class JsonSchemas(_Generated):
    """A table of the fields of each schema."""

    def lines(self) -> list[str]:
        return [line for file in sorted(SCHEMAS.glob("*.json")) for line in table(file)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives to Sphinx."""
    app.add_directive("front-door", FrontDoor)
    app.add_directive("json-schemas", JsonSchemas)
    return {"parallel_read_safe": True}
