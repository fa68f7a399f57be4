"""The one line that bad input is refused with."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.errors import InputError
from moorage.kube import load


def refusal(path: Path, *, recursive: bool = False) -> str:
    """The error for a file, with its directory left out; one line, whatever the input."""
    with pytest.raises(InputError) as caught:
        load(path, recursive=recursive)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1000
    return text.replace(f"{path.parent}/", "")
