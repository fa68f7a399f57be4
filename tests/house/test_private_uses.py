"""Tests hold on to public names: what they know beside them is a list that only gets shorter."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.house.private_uses import all_uses, uses
from tests.house.source import ROOT

TABLE = "tests/house/private_uses.toml"
MOST = {"private": 171, "replaced": 203}


def test_a_file_uses_no_more_of_what_is_private_than_its_entry_allows() -> None:
    allowed = tomllib.loads((ROOT / TABLE).read_text())
    assert all(entry["why"] for entry in allowed.values())
    more = {
        name: dict(counts)
        for name, counts in all_uses().items()
        for kind, number in counts.items()
        if number > allowed.get(name, {}).get(kind, 0)
    }
    assert more == {}, f"take the public way, or say why not in {TABLE}"
    for kind, most in MOST.items():
        assert sum(entry.get(kind, 0) for entry in allowed.values()) <= most, kind


def test_what_counts_as_private(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "import os\nfrom moorage import store\nfrom tests.doors.kube import work\n"
        "from tests.make import pod\n"
        "class Own:\n    def _go(self): self._at = super()._go() or self._at._inner\n"
        "store._lock, pod()._spec, Own()._go(), os._exit, row._replace(), store.__name__\n"
        "monkeypatch.setattr(work, 'MAX', 1)\nmonkeypatch.setattr(os, 'fork', None)\n"
        "monkeypatch.setattr('moorage.cli.run', 1)\nmonkeypatch.setattr('os.fork', 1)\n"
        "with patch.object(store, 'get'): mock.patch.object(pod().x, 'y', z)\n"
    )
    assert uses(file) == {"private": 2, "replaced": 3}
