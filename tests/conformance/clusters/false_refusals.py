"""Objects that an API server has accepted, and what the rules find wrong with them: nothing.

    python -m tests.conformance.clusters.false_refusals FILE|DIR …

They are those of dumps and of records of clusters, and manifests that kubectl has applied. Templates, and
kinds that are not judged, are left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.doors.kube import manifest_causes

Json = dict[str, Any]
_LEFT_OUT = ("not-accepted",)


def accepted(path: Path) -> Iterator[Json]:
    """Yield the objects of a file that a server has accepted."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    if "{{" in text or path.name.startswith(_LEFT_OUT):
        return
    for value in [json.loads(text)] if ".json" in path.suffixes else map(_of_yaml, yaml.safe_load_all(text)):
        if isinstance(value, dict) and "scenario" in value:
            yield from _of_record(value)
        else:
            yield from _items(value)


def _of_yaml(value: Any) -> Any:
    """Return a value whose times are texts."""
    return json.loads(json.dumps(value, default=lambda time: time.isoformat()))


def _of_record(record: Json) -> Iterator[Json]:
    """Yield the objects of a record of a cluster, and of the files that kubectl has applied."""
    yield from (*_items(record["dump"]), *_items(record.get("end")))
    for action, answer in zip(record["change"], record["kubectl"], strict=False):
        for value in action.get("file", ()) if answer.get("rc") == 0 else ():
            yield from _items(value)


def _items(value: Any) -> Iterator[Json]:
    if isinstance(value, list):
        for item in value:
            yield from _items(item)
    elif isinstance(value, dict) and "apiVersion" in value and str(value.get("kind", "")).endswith("List"):
        yield from _items(value.get("items"))
    elif isinstance(value, dict) and {"apiVersion", "kind"} <= value.keys() and _has_name(value):
        yield value


def _has_name(value: Json) -> bool:
    """Whether an object is none that a program completes."""
    meta = value.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("name") or meta.get("generateName"))


def refusals(value: Json) -> list[str]:
    """Return what the rules say against an object; what a new object alone may not have does not count."""
    causes = manifest_causes(value, value["kind"], value["apiVersion"])
    return [": ".join(cause) for cause in causes if not cause.text.endswith("cannot be set on create")]


def main(paths: list[str]) -> int:
    """Judge all objects, print those that are refused, and return the exit code."""
    judged = wrong = 0
    for name in paths:
        path = Path(name)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (file for file in files if {*file.suffixes} & {".json", ".yaml", ".yml"}):
            try:
                values = [*accepted(file)]
            except (ValueError, yaml.YAMLError) as error:
                print(f"{file}: not read: {str(error)[:80]!r}")
                continue
            for value in values:
                judged += 1
                if texts := refusals(value):
                    wrong += 1
                    print(f"{file}: {value['kind']} {(value.get('metadata') or {}).get('name')}: {texts}")
    print(f"{judged} objects, {wrong} refused")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
