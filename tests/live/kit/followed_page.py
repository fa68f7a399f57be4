"""Follows a page as it stands: runs its commands in one shell, and compares their output with the page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    """A block of commands, and the lines that the page shows below it; None if it shows none."""

    commands: str
    shown: list[str] | None


def steps(page: str) -> list[Step]:
    """The blocks of a page's text; a block of text belongs to the commands that stand before it."""
    found: list[Step] = []
    for kind, body in BLOCK.findall(page):
        if kind == "sh":
            found.append(Step(body, None))
        else:
            assert found[-1].shown is None, "two blocks of output"
            found[-1] = Step(found[-1].commands, body.splitlines())
    return found


def agrees(printed: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether a page shows what was printed.

    ``…`` stands for any part of a line, and alone in a line for any lines. The width of columns does not
    count.
    """
    pattern = "".join("(?:[^\n]*\n)*" if line == "…" else _pattern(line) + "\n" for line in shown)
    return bool(re.fullmatch(pattern, "".join(" ".join(line.split()) + "\n" for line in printed)))


def _pattern(line: str) -> str:
    return r"[^\n]*".join(re.escape(" ".join(part.split())) for part in re.split(r" *… *", line))


class Shell:
    """Runs steps in one bash, which ends at the first command that fails.

    Parameters
    ----------
    folder, checkout : Path
        Of the output; where the commands run.
    environment : mapping
    """

    def __init__(self, folder: Path, checkout: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.checkout, self.environment = folder, checkout, environment

    def run(self, found: Sequence[Step], limit: float) -> list[str]:
        """Run all steps within some seconds, and return what each has printed; those that were not run have
        printed nothing."""
        outputs = [self.folder / f"step{at}.out" for at in range(len(found))]
        lines = ["set -euo pipefail"]
        for output, step in zip(outputs, found, strict=True):
            lines += [f"exec > {output} 2>&1", step.commands]
        script = self.folder / "page.sh"
        script.write_text("\n".join(lines))
        process = subprocess.Popen(["bash", str(script)], cwd=self.checkout, env=self.environment)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        printed = [one.read_text() if one.exists() else "" for one in outputs]
        last = max((at for at, one in enumerate(outputs) if one.exists()), default=0)
        assert code == 0, f"exit {code} in\n{found[last].commands}\n{printed[last]}"
        return printed
