"""What changes nothing: the order of documents and of files, and the names of zones."""

from __future__ import annotations

import json

from tests.agreement.asking import Asking
from tests.agreement.clusters import ZONE
from tests.agreement.objects import key_of, listed, name_of
from tests.agreement.relation import places_of, relation, verdict


@relation(lambda cluster: cluster.nodes)
def other_order(asking: Asking) -> None:
    """Documents in another order, in one file and in three. Nodes keep theirs: equal ones are taken in it."""
    nodes, mixed = iter(asking.cluster.nodes), asking.some("order", asking.cluster.objects, 10**6, key_of)
    shuffled = [next(nodes) if obj["kind"] == "Node" else obj for obj in mixed]
    file, bound = asking.write("shuffled", shuffled), ("--bound", "--no-autoscale")
    here = asking.ask("simulate", *bound, form="csv")
    asking.same("documents", here, asking.ask("simulate", *bound, of=file, form="csv"), places_of)
    drain = ("--drain", name_of(asking.one("node", asking.cluster.nodes, key_of)))
    asking.same(
        "documents, drain", asking.ask("check", *drain), asking.ask("check", *drain, of=file), verdict
    )
    parts = asking.folder / "parts"
    parts.mkdir(exist_ok=True)
    for number in range(3):
        mine = [obj for at, obj in enumerate(shuffled) if (0 if obj["kind"] == "Node" else at % 3) == number]
        (parts / f"{number}.json").write_text(json.dumps(listed(mine)))
    asking.same("files", here, asking.ask("simulate", *bound, of="parts", form="csv"), places_of)


@relation(lambda cluster: len(cluster.zones) > 1 and cluster.is_drawn and not cluster.of("NodePool"))
def other_zones(asking: Asking) -> None:
    """Zones with other names, in another order."""
    zones = asking.cluster.zones
    names = dict(zip(zones, ("zz", "m", "aa"), strict=False))
    text = json.dumps(asking.cluster.objects)
    for zone in zones:
        for before in (f'"{ZONE}": "', '"values": ["'):
            text = text.replace(f'{before}{zone}"', f'{before}#{names[zone]}"')
    renamed = asking.write("renamed", json.loads(text.replace('"#', '"')))
    for words in ((), ("--drain", name_of(asking.one("node", asking.cluster.nodes, key_of)))):
        asking.same("zones", asking.ask("check", *words), asking.ask("check", *words, of=renamed), verdict)
    if not asking.cluster.grows:
        one, other = (asking.ask("check", "--survive", "zone", of=file) for file in (asking.base, renamed))
        here, there = (
            sorted(
                (names.get(loss["domains"][0], loss["domains"][0]), len(loss["lost"]))
                for loss in answer["survival"]["losses"]
            )
            for answer in (one, other)
        )
        asking.expect(here == there, "losses of zones", (one, here), (other, there))
