"""One synchronization of a claim or of a volume, and some until nothing happens any more: `tables.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    NS,
    ScriptedProvisioner,
    World,
    objects,
    pvc,
    storage_class,
)
from tests.doors.controllers import VolumeInUseError
from tests.make import node, pod
from tests.text_rows import rows
from tests.volume.make import uses

from moorage.errors import MoorageError
from moorage.kube import Pod, StorageClass

TABLE = Path(__file__).with_name("tables.txt")


class Case(NamedTuple):
    """Which call, what there is before, and what the lines below say, by their signs."""

    call: str
    before: str
    lines: dict[str, list[str]]


def cases() -> Iterator[Any]:
    for row in rows(TABLE):
        lines: dict[str, list[str]] = {"=": [], "!": [], "error": [], "with": []}
        for line in row.below:
            sign, _, rest = line.partition(" ")
            lines[sign].append(rest)
        yield pytest.param(Case(row.title.partition(",")[0], row.text, lines), id=row.name)


def default_class(name: str, *words: str) -> StorageClass:
    """A default class, made when all others were, or later (in another zone of time)."""
    group = "storageclass.beta" if "beta" in words else "storageclass"
    marks = {f"{group}.kubernetes.io/is-default-class": "yes" if "no" in words else "true"}
    created = "2023-12-31T23:30:00-01:00" if "later" in words else "2024-01-01T00:00:00Z"
    plain = storage_class(name)
    return replace(plain, metadata=replace(plain.metadata, creation_timestamp=created, annotations=marks))


def user(name: str, *words: str) -> Pod:
    """A pod that uses a claim twice."""
    fields = dict(word.split("=") for word in words if "=" in word)
    volume = (
        uses(ephemeral=fields["ephemeral"]) if "ephemeral" in fields else uses(claim=fields.get("of", "c"))
    )
    plain = pod(name, on=fields.get("on", ""), volumes=(volume, volume))
    if "deleting" in words:
        going = {"deletion_timestamp": "2026-01-01T00:00:00Z", "finalizers": ("a/b",)}
        plain = replace(plain, metadata=replace(plain.metadata, **going))
    phase = next((word for word in words if word[0].isupper()), "")
    return replace(plain, status=replace(plain.status, phase=phase))


def world_of(case: Case) -> World:
    """The world that a row describes; its controller knows what there is, but for claims that come late."""
    plugin, settings, there, late = ScriptedProvisioner(), dict[str, Any](), list[Any](), list[Any]()
    for option in "; ".join(case.lines["with"]).split("; "):
        match option.split():
            case ["fail", call, *text]:
                plugin.fail(call, " ".join(text))
            case ["volume", "in", "use"]:
                plugin.fail("delete", VolumeInUseError("attached to a node"))
            case ["recycler", "says", text]:
                plugin.says = text
            case ["no", "mount", "options"]:
                plugin = ScriptedProvisioner(mount_options=False)
            case ["no", "plugins"]:
                settings["plugins"] = []
            case ["plugins", *names]:
                settings["plugins"] = [ScriptedProvisioner(name) for name in names]
            case ["no", "provisioning"]:
                settings["provisioning"] = False
            case ["node", name]:
                there.append(node(name))
            case ["pod", *words]:
                there.append(user(*words))
            case ["default", *words]:
                there.append(default_class(*words))
            case ["heard" | "unheard" as how, *words]:
                late.append((how, pvc(" ".join(words))))
            case other:
                assert other == [], option
    world = World(case.before, *there, **{"plugins": [plugin]} | settings)
    if case.call != "settle":
        world.begin()
    for how, each in late:
        world.store.create(each)
        if how == "heard":
            world.informers.run_once()
    return world


def synchronize(world: World, call: str) -> None:
    if call == "claim":
        world.controller.sync_claim(world.store.get("PersistentVolumeClaim", world.claims()[0].name, NS))
    elif call == "volume":
        world.controller.sync_volume(world.store.get("PersistentVolume", world.volumes()[0].name))
    else:
        world.settle()
        world.settle(15.0)


@pytest.mark.parametrize("case", [*cases()])
def test_claims_and_volumes_become_what_a_row_says(case: Case) -> None:
    world = world_of(case)
    if case.lines["error"]:
        with pytest.raises(MoorageError) as raised:
            synchronize(world, case.call)
        assert str(raised.value).startswith(case.lines["error"][0])
    else:
        synchronize(world, case.call)
    changed = "; ".join(case.lines["="]).split("; ")
    after = {each.name: each for each in objects(case.before)}
    for text in filter(None, changed):
        if text.startswith("-"):
            del after[text[1:]]
        else:
            after |= {each.name: each for each in objects(text)}
    world.check(list(after.values()))
    events, wanted = world.events(), case.lines["!"]
    assert len(events) == len(wanted), events
    assert [event[: len(text)] for event, text in zip(events, wanted, strict=True)] == wanted
