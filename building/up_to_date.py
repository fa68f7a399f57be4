"""What a file of the build was made of, so that it is made again when that has changed and not otherwise.

Contents are compared, not times: a checkout of another revision and back, or a copied folder, costs nothing,
and a source that changes while it is compiled is compiled again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def signature(recipe: Iterable[str], inputs: Iterable[str]) -> str:
    """Names a recipe and the contents of files; a file that is not there counts as that."""
    digest = hashlib.sha256(json.dumps(list(recipe)).encode())
    for name in sorted(inputs):
        path = Path(name)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        digest.update(f"\n{name} {content}".encode())
    return digest.hexdigest()


class Made:
    """A file that the build makes, and the note beside its objects that says of what."""

    def __init__(self, output: Path, note: Path, recipe: Iterable[str]) -> None:
        """
        Parameters
        ----------
        output
            The file.
        note
            Where its signature is kept, with the names of its inputs.
        recipe
            What it depends on besides files: command, flags, versions.
        """
        self.output = output
        self._note = note
        self._recipe = list(recipe)
        self._begun: dict[str, object] = {}

    def is_current(self) -> bool:
        """Whether the file is there, and what it was made of has not changed."""
        if not (self.output.exists() and self._note.exists()):
            return False
        kept = json.loads(self._note.read_text())
        return bool(kept["signature"] == signature(self._recipe, kept["inputs"]))

    def begin(self, inputs: Iterable[str]) -> None:
        """Forget what the file was made of, and take down of what it will be."""
        self._note.unlink(missing_ok=True)
        names = sorted(inputs)
        self._begun = {"signature": signature(self._recipe, names), "inputs": names}

    def end(self) -> None:
        """Keep what `begin` took down: the file is complete."""
        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._note.write_text(json.dumps(self._begun))
