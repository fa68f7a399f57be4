"""What the page of a twin loads that is made from tables of the program."""

from __future__ import annotations

import msgspec
from tests.doors.cli import page_files
from tests.doors.cluster import BY_NAME


def test_the_form_has_the_helps_of_the_verbs() -> None:
    script = page_files()["/page/verbs.js"].body.decode()
    name, _, helps = script.partition(" = ")
    assert name == "export const HELP"
    assert msgspec.json.decode(helps.rstrip(";\n")) == {name: verb.help for name, verb in BY_NAME.items()}
    assert b'from "./verbs.js"' in page_files()["/page/change.js"].body
