"""The page of a twin: files that a browser gets without a token, as they say nothing about the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from moorage.live.twin import Reply

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do for the page: run and load these files, and ask the twin."""


def page_files() -> Mapping[str, Reply]:
    """Return the answers by path: the page at ``/``, and what it loads."""
    headers = (
        ("Content-Security-Policy", POLICY),
        ("Cache-Control", "no-cache"),
        ("Referrer-Policy", "no-referrer"),
    )
    own = [one for one in (files(__package__) / "page").iterdir() if one.name.rpartition(".")[2] in TYPES]
    replies = {
        f"/page/{one.name}": Reply(
            200, one.read_bytes(), f"{TYPES[one.name.rpartition('.')[2]]}; charset=utf-8", headers
        )
        for one in (*own, files("moorage.answers") / "assets/page.css")
    }
    return {"/": replies.pop("/page/index.html"), **replies}
