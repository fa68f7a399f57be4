"""Pages of commands as the tests read them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

TRACE = ["tests/data/openb/nodes.csv", "tests/data/openb/pods.csv"]
COMMANDS = {
    "simulate": ["simulate", "-f", "examples"],
    "capacity": ["capacity", "-f", "examples", "--pod", "tests/data/web_pod.yaml"],
    "compare": ["compare", "as-is", "drain worker-1", "-f", "examples"],
    "explain": ["explain", "--all-pending", "-f", "examples"],
    "replay": ["replay", *TRACE],
    "check": ["check", "-f", "examples"],
    "nodes": ["nodes", "-f", "examples"],
    "plan": ["plan", "nodes", "-f", "examples", "--like", "node-1"],
    "sweep": ["sweep", "tests/data/openb/sweep.yaml", "--executor", "serial"],
}
EVIL = "</script><script>document.title='gotcha'</script><img src=x onerror=alert(1)>"


class Read(HTMLParser):
    """The elements of a page, its texts, its tables and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.title = ""
        self.headings: set[str] = set()
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self._scripts: list[str] = []
        self.feed(text)
        self.data: Any = json.loads(self._scripts[0])

    @property
    def text(self) -> str:
        """All that is shown."""
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "caption":
            self._rows = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
        if tag == "script":
            self._scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self._scripts[-1] += data
        elif inside == "caption":
            self._rows = self.tables.setdefault(data, [])
        elif inside != "style":
            self.title += data if inside == "title" else ""
            self.headings |= {data} if inside == "h2" else set()
            self.texts.append(data)
            if "td" in self._open or "th" in self._open:
                self._rows[-1][-1] += data.strip()
