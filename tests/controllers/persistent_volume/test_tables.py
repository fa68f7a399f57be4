"""One synchronization of a claim or of a volume, and some until nothing happens any more: `tables.txt`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    NS,
    PLUGIN,
    ScriptedProvisioner,
    World,
    objects,
    pvc,
    storage_class,
)
from tests.doors.controllers import VolumeInUseError
from tests.make import node, pod
from tests.volume.make import uses

from moorage.errors import MoorageError
from moorage.objects import Pod, StorageClass


@dataclass
class Row:
    """Lines of `tables.txt`: which call, and by the signs of the lines what they say."""

    name: str
    call: str
    before: str
    lines: dict[str, list[str]] = field(default_factory=lambda: {"=": [], "!": [], "error": [], "with": []})

    def __str__(self) -> str:
        return self.name


def rows() -> list[Row]:
    read: list[Row] = []
    for section in Path(__file__).with_name("tables.txt").read_text().split("\n# ")[1:]:
        title, *lines = filter(None, section.splitlines())
        for line in lines:
            if line.startswith("  "):
                sign, _, rest = line.strip().partition(" ")
                read[-1].lines[sign].append(rest)
            else:
                name, _, before = line.partition(": ")
                read.append(Row(name, title.partition(",")[0], before))
    return read


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


def world_of(row: Row) -> World:
    """The world that a row describes; its controller knows what there is, but for claims that come late."""
    plugin, settings, there, late = ScriptedProvisioner(), dict[str, Any](), list[Any](), list[Any]()
    for option in "; ".join(row.lines["with"]).split("; "):
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
            case ["migrated", driver]:
                settings["migrated"] = {PLUGIN: driver}
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
    world = World(row.before, *there, **{"plugins": [plugin]} | settings)
    if row.call != "settle":
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


@pytest.mark.parametrize("row", rows(), ids=str)
def test_claims_and_volumes_become_what_a_row_says(row: Row) -> None:
    world = world_of(row)
    if row.lines["error"]:
        with pytest.raises(MoorageError) as raised:
            synchronize(world, row.call)
        assert str(raised.value).startswith(row.lines["error"][0])
    else:
        synchronize(world, row.call)
    changed = "; ".join(row.lines["="]).split("; ")
    after = {each.name: each for each in objects(row.before)}
    for text in filter(None, changed):
        if text.startswith("-"):
            del after[text[1:]]
        else:
            after |= {each.name: each for each in objects(text)}
    world.check(list(after.values()))
    events, wanted = world.events(), row.lines["!"]
    assert len(events) == len(wanted), events
    assert [event[: len(text)] for event, text in zip(events, wanted, strict=True)] == wanted
