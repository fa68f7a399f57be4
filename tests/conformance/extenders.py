"""The extenders that vectors ask: what one says follows from its name, the pod's labels and nodes' names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from string import ascii_lowercase
from typing import Any
from unittest.mock import patch

from tests.doors.engine import ExtendedSearch
from tests.extenders.extender_server import Answer, ExtenderServer

Json = dict[str, Any]

URL = b"http://127.0.0.1:18931/"
"""What begins the URLs of all extenders in the vectors."""

FAILS = Answer(b"{}", status=500)


@contextmanager
def served(line: bytes) -> Iterator[bytes]:
    """A line of vectors in which the extenders are at a server of ours, as long as that is needed."""
    if URL not in line:
        yield line
        return
    with ExtenderServer(**REPLIES) as server:
        yield line.replace(URL, f"{server.url}/".encode())


@contextmanager
def totals_of_plugins() -> Iterator[list[Any]]:
    """Totals as vectors give them, of every search that extenders have a say in: without their scores, and of
    nodes as they are. A search itself adds these scores, and takes nodes that were sent back for empty."""
    seen: list[Any] = []
    score = ExtendedSearch.score

    def seen_too(search: ExtendedSearch, rows: Any) -> Any:
        seen.append(search.engine.placer.decider.score(rows, *search.state.target))
        return score(search, rows)

    with patch.object(ExtendedSearch, "score", seen_too):
        yield seen


def filter_nodes(who: str, message: Json) -> Json | Answer:
    """Of seven nodes about one is rejected and one for good; extender c drops another one without a word.
    Extender b knows no pods of app cache, e breaks on those of app db."""
    app = app_of(message)
    if (who, app) == ("b", "cache"):
        return {"Error": "no caches here"}
    if (who, app) == ("e", "db"):
        return FAILS
    lots = {name: draw(who, app, name) % 7 for name in names_of(message)}
    passed = [name for name, lot in lots.items() if lot > 1 and (lot, who) != (2, "c")]
    answer: Json = {
        "FailedNodes": {name: f"extender {who} says no" for name, lot in lots.items() if lot == 0},
        "FailedAndUnresolvableNodes": {
            name: f"extender {who} says never" for name, lot in lots.items() if lot == 1
        },
    }
    if message["NodeNames"] is not None:
        return answer | {"NodeNames": passed}
    kept = set(passed)
    nodes = [node for node in message["Nodes"]["items"] if node["metadata"]["name"] in kept]
    return answer | {"Nodes": {"items": nodes}}


def prioritize_nodes(who: str, message: Json) -> list[Json] | Answer:
    """A score from 0 to 10 for each node; extender b breaks on pods of app cache."""
    app = app_of(message)
    if (who, app) == ("b", "cache"):
        return FAILS
    return [{"Host": name, "Score": draw("score", who, app, name) % 11} for name in names_of(message)]


def draw(*words: str) -> int:
    """The lot of these words."""
    return zlib.crc32("/".join(words).encode())


def app_of(message: Json) -> str:
    labels: dict[str, str] = message["Pod"]["metadata"].get("labels", {})
    return labels.get("app", "")


def names_of(message: Json) -> list[str]:
    """The nodes in question, whichever way they were sent."""
    if message["NodeNames"] is not None:
        return list(message["NodeNames"])
    return [node["metadata"]["name"] for node in message["Nodes"]["items"]]


REPLIES: dict[str, Callable[[Json], Any]] = {
    f"{who}/{verb}": partial(answer, who)
    for who in ascii_lowercase
    for verb, answer in (("filter", filter_nodes), ("prioritize", prioritize_nodes))
}
