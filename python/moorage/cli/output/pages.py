"""Pages of commands: what a result is about stands on each."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ..options.change_options import requested_changes
from ..options.decorators import TITLE
from ..options.option_groups import ARGUMENTS, GroupedCommand

if TYPE_CHECKING:
    from moorage.answers.page import Page

Release = Mapping[str, str]
"""``version`` and ``reason`` of a release that decides; the reason may be ""."""
FOLDERS = re.compile(r"(^|[=, '])/(?:(?:[^/=,; ]| (?!-))*/)+")
"""The folders of an absolute path: where a command ran is not what it was asked."""


def write_page(page: Page, releases: Iterable[Release], warnings: Iterable[str]) -> None:
    """Print a page, with the title, input, changes, release and warnings of the current command."""
    context = click.get_current_context()
    texts = (f"{one['version']} ({one['reason']})".replace(" ()", "") for one in releases)
    command = [*context.command_path.split(), *map(without_folders, context.meta[ARGUMENTS])]
    about = {
        "Input": " + ".join(_inputs(context.params)),
        "Changes": "; ".join(_changes(context)),
        "Kubernetes": ", ".join(dict.fromkeys(texts)),
        "Command": shlex.join(command),
    }
    page.about = {name: text for name, text in about.items() if text}
    page.subject = ", ".join(filter(None, (about["Input"], about["Changes"])))
    if given := context.meta.get(TITLE):
        page.title, page.subject = given, ""
    folders = {f"{os.path.dirname(name)}/" for name in _files(context.params) if os.path.isabs(name)}
    for folder in sorted(folders, key=len, reverse=True):
        warnings = [one.replace(folder, "") for one in warnings]
    page.warnings = list(dict.fromkeys(warnings))
    print(page.html(), end="")


def without_folders(text: str) -> str:
    """Return an argument, or a command, in which an absolute path is the name of its file."""
    return FOLDERS.sub(r"\1", text)


def _inputs(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what a command has read."""
    if any(params.get(name) for name in ("kubeconfig", "context", "in_cluster")):
        yield "API server" + (f" of context {params['context']}" if params["context"] else "")
    if params.get("synthetic"):
        yield f"synthetic {params['synthetic']}"
    for name in _files(params):
        yield "standard input" if name == "-" else without_folders(name)


def _files(params: Mapping[str, Any]) -> list[str]:
    file = params.get("file")
    return [*params.get("files", ()), *params.get("cluster", ()), *([file] if file else [])]


def _changes(context: click.Context) -> Iterator[str]:
    if isinstance(context.command, GroupedCommand) and context.command.changes:
        for one in requested_changes():
            yield without_folders(one.text.removeprefix("--"))
