"""Recipes for pipelines: their YAML can be read, and their commands have these options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.doors.cli import app
from tests.house.source import ROOT

PAGE = (ROOT / "docs" / "guide" / "pipelines.md").read_text()
RECIPES = [
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
]
MAKE = re.findall(r"^\t(.*)$", PAGE, re.MULTILINE)
HOOKS = {hook["id"]: hook["entry"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def commands(value: Any) -> Iterator[list[str]]:
    """The calls of moorage in a recipe, as lines of a shell or as the arguments of a container."""
    if isinstance(value, dict) and value.get("id") in HOOKS:
        yield [*HOOKS[value["id"]].split()[1:], *value["args"]]
    elif isinstance(value, list) and value[:1] == ["moorage"]:
        yield value[1:]
    elif isinstance(value, str) and value.startswith("moorage "):
        yield shlex.split(value.partition(" > ")[0])[1:]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from commands(part)


def test_the_recipes_give_what_action_and_template_read() -> None:
    job = RECIPES[0]["jobs"]["fits"]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    required = {name for name, value in inputs.items() if value.get("required")}
    assert required <= set(job["steps"][-1]["with"]) <= set(inputs)
    included = ROOT / RECIPES[1]["include"][0]["file"]
    template = yaml.safe_load(included.read_text())[RECIPES[1]["fits"]["extends"]]
    needed = {"CLUSTER", "MANIFESTS", "PACKAGE"}
    assert needed == set(RECIPES[1]["fits"]["variables"])
    assert not needed & set(template["variables"])


@pytest.mark.parametrize("recipe", [*RECIPES[2:], MAKE], ids=["junit", "pre-commit", "argo", "make"])
def test_the_commands_of_a_recipe_can_be_parsed(recipe: Any) -> None:
    found = list(commands(recipe))
    assert len(found) == 1
    (command,) = found
    with app.make_context("moorage", list(command)) as context:
        name, checked, rest = app.resolve_command(context, [command[0], *command[1:]])
        assert (name, checked is not None) == ("check", True)
        assert checked is not None
        with checked.make_context("check", list(rest), parent=context) as inner:
            assert inner.params["new_only"]
            assert inner.params["in_cluster"] or inner.params["files"]
