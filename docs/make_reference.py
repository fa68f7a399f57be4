"""Writes the generated parts of the pages: `python docs/make_reference.py`.

A part stands between a comment that says what it is made from and one that ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from front_doors import reference
from schema_tables import SCHEMAS, table

from moorage.cli.app import app
from moorage.cluster.verbs import VERBS

DOCS = Path(__file__).parent
PAGES = [*sorted((DOCS / "reference").glob("*.md")), DOCS / "changes.md"]
PART = re.compile(r"(<!-- made from (\S+): ([^>\n]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def commands(name: str) -> Iterator[str]:
    """Iterate over the lines of ``--help-all`` of a command and its subcommands."""
    waiting: list[tuple[str, click.Command, click.Context | None]] = [(name, app, None)]
    while waiting:
        path, command, parent = waiting.pop(0)
        name = path.rpartition(" ")[2]
        context = command.make_context(name, [], parent, resilient_parsing=True, terminal_width=100)
        yield from ("", f"## {path}", "", "```text", command.whole_help(context).rstrip(), "```")
        if isinstance(command, click.Group):
            for one in command.list_commands(context):
                found = command.get_command(context, one)
                assert found is not None
                waiting.append((f"{path} {one}", found, context))


def schemas(pattern: str) -> Iterator[str]:
    """Iterate over the lines of the tables of schemas."""
    for file in sorted(SCHEMAS.glob(pattern)):
        yield from table(file)


def verbs(_: str) -> Iterator[str]:
    """Iterate over the lines of the table of verbs."""
    yield from ("| method | option |", "|---|---|")
    for verb in VERBS:
        words = f"--{verb.name} {verb.metavar}".rstrip().replace("|", "\\|")
        yield f"| `{verb.method}` | `{words}` |"


MAKERS: dict[str, Callable[[str], Iterable[str]]] = {
    "module": reference,
    "command": commands,
    "schemas": schemas,
    "verbs": verbs,
}


def made(page: str) -> str:
    """Return a page with its parts made anew."""

    def part(found: re.Match[str]) -> str:
        lines = "\n".join(MAKERS[found[2]](found[3])).strip("\n")
        return f"{found[1]}\n{re.sub(r'[ ]+$', '', lines, flags=re.MULTILINE)}\n\n{found[4]}"

    return PART.sub(part, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(made(path.read_text()))
