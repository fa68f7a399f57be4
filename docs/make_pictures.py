"""Writes docs/pictures from the examples, light and dark: `python docs/make_pictures.py`, or `make pictures`.

Terminals are SVG. Parts of pages are what Chromium shows; `made_from.json` has a digest of what each page
says, so a test sees without a browser which picture is stale. `make bench-picture` draws what is measured.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml
from PIL import Image, ImageChops

from moorage import cli
from moorage.cli.asked_twin import AskedTwin
from moorage.cli.serve_twin import page_files
from moorage.live.twin_server import TwinServer

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/pictures"
DIGESTS = FOLDER / "made_from.json"
COLUMNS = 96
"""Width of the terminals."""

SHOP = "-f cluster.yaml -f release.yaml"
RECORDED = (
    f"moorage check {SHOP} --new-only",
    f"moorage explain deploy/shop/web {SHOP}",
    f"moorage check {SHOP} --new-only --add-nodes new-a=1",
)
"""A release does not fit; this is why; and this helps."""


# ---- what the pictures are made from ---------------------------------------------------------------------


class _Screen(io.TextIOWrapper):
    """A terminal that keeps what is printed."""

    def isatty(self) -> bool:
        return True


def printed(command: str, folder: Path = ROOT) -> str:
    """Return what a command of moorage prints on a terminal, without what goes to stderr."""
    kept = io.BytesIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.callback(os.environ.update, dict(os.environ))
        stack.callback(os.environ.pop, "COLUMNS")
        os.environ["COLUMNS"] = str(COLUMNS)
        screen = stack.enter_context(contextlib.redirect_stdout(_Screen(kept, "utf-8", write_through=True)))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        cli.main(shlex.split(command)[1:])
        screen.detach()
    return kept.getvalue().decode()


def session(commands: Sequence[str], folder: Path = ROOT) -> str:
    """Return what a terminal shows of commands."""
    return "\n".join(f"$ {command}\n{printed(command, folder)}" for command in commands)


def sweep_page() -> str:
    """Return the page of a sweep: three policies of examples/fgd.yaml, on the excerpt of its trace."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "examples/fgd.yaml").read_text())
    spec = document["spec"]
    timeline = spec["timelines"]["default"] | {"files": ["nodes.csv", "pods.csv"]}
    timeline["options"]["demand"] = 1.2
    policies = {name: spec["configurations"][name] for name in ("Random", "BestFit", "FGD")}
    spec |= {"timelines": {"excerpt": timeline}, "configurations": policies}
    spec["seeds"]["count"] = 5
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sweep.yaml").write_text(yaml.safe_dump(document))
        options = f"--data {ROOT / 'tests/data/openb'} --executor serial -o html"
        return printed(f"moorage sweep sweep.yaml {options}", Path(folder))


@functools.cache
def shop() -> Path:
    """Return a folder that has the shop and its release under short names."""
    folder = Path(tempfile.mkdtemp())
    shutil.copy(ROOT / "examples/shop/cluster.yaml", folder)
    shutil.copy(ROOT / "examples/shop/release/web.yaml", folder / "release.yaml")
    return folder


TWIN_FILES = ["cluster.yaml", "release.yaml"]
"""What the twin follows: a release for which there is too little room."""
TWIN_QUESTION = "check?fail-zone=a&new-only="
WAIT = "--virtual-time-budget=20000"
"""For answers; time does not pass while they are awaited."""


def twin_page() -> str:
    """Return what the page of a twin says: its own texts, and an answer."""
    own = page_files()["/"].body.decode()
    return own + printed(f"moorage check {SHOP} --fail-zone a --new-only -o html", shop())


SESSIONS = {
    "recording": lambda: session(RECORDED, shop()),
    "terminal": lambda: session(["moorage explain gpu-rs-03-hc4qv -n pai-gpu -f examples"]),
}
PAGES = {
    "check": lambda: printed(f"{RECORDED[0]} -o html", shop()),
    "heat": lambda: printed("moorage simulate --synthetic nodes=200,pods=2000 -o html"),
    "sweep": sweep_page,
    "twin": twin_page,
}


def digest(page: str) -> str:
    """Return the digest of what a page says: without styles, scripts, release and paths."""
    unseen = (
        r"<style>.*?</style>|<script>.*?</script>|<meta[^>]*>|<footer>.*?</footer>|<dt>Command</dt>.*?</dd>"
    )
    return hashlib.sha256(re.sub(unseen, "", page, flags=re.DOTALL).encode()).hexdigest()


# ---- terminals -------------------------------------------------------------------------------------------

THEMES = {
    "light": {"ground": "#f6f8fa", "edge": "#d0d7de", "text": "#1f2328", "dim": "#59636e"}
    | {"PASS": "#1a7f37", "FAIL": "#cf222e"},
    "dark": {"ground": "#0d1117", "edge": "#3d444d", "text": "#e6edf3", "dim": "#9198a1"}
    | {"PASS": "#3fb950", "FAIL": "#f85149"},
}
HEADING = re.compile(r"[A-Z ]+$")
LINE, COLUMN, MARGIN = 20, 8.43, 18
SECONDS, TYPING = 20, 1.6
"""Of the recording, and of a command in it."""

TERMINAL = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
{% macro row(line, at) %}
{% set colour = "dim" if heading.match(line) else line[:4] %}
<text x="{{ margin }}" y="{{ margin + 14 + at * height }}" fill="{{ theme.get(colour, theme.text) }}"
 {%- if line[:4] in ("PASS", "FAIL") or line[:2] == "$ " %} font-weight="bold"{% endif %}
 textLength="{{ line|length * column }}" lengthAdjust="spacingAndGlyphs">{{ line }}</text>
{% endmacro %}
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ rows * height + 2 * margin }}" role="img">
<title>{{ scenes|map("first")|join("; ") }}</title>
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
text { white-space: pre }
{% if scenes|length > 1 %}
g { animation: {{ seconds }}s step-end infinite }
rect[id] { animation: {{ seconds }}s infinite; transform-box: fill-box; transform-origin: right }
{% for scene in scenes %}
{% set from, to = 100 * loop.index0 / scenes|length, 100 * loop.index / scenes|length %}
{% set typed = from + 100 * typing / seconds %}
#scene{{ loop.index }} { opacity: 0; animation-name: scene{{ loop.index }} }
#answer{{ loop.index }} { animation-name: answer{{ loop.index }} }
#cover{{ loop.index }} { animation-name: cover{{ loop.index }} }
@keyframes scene{{ loop.index }} { 0% { opacity: 0 } {{ from }}% { opacity: 1 } {{ to }}% { opacity: 0 } }
@keyframes answer{{ loop.index }} { 0% { opacity: 0 } {{ typed }}% { opacity: 1 } }
@keyframes cover{{ loop.index }} {
  0%, {{ from }}% { transform: none; animation-timing-function: steps({{ scene[0]|length }}) }
  {{ typed }}%, 100% { transform: scaleX(0) }
}
{% endfor %}
@media (prefers-reduced-motion: reduce) {
  g { animation: none !important } rect[id] { display: none } #scene{{ scenes|length }} { opacity: 1 }
}
{% endif %}
</style>
<rect x=".5" y=".5" width="{{ width - 1 }}" height="{{ rows * height + 2 * margin - 1 }}" rx="8"
 fill="{{ theme.ground }}" stroke="{{ theme.edge }}"/>
{% for scene in scenes %}
<g id="scene{{ loop.index }}">
{{ row(scene[0], 0) }}
{%- if scenes|length > 1 %}
<rect id="cover{{ loop.index }}" x="{{ margin + 2 * column }}" y="{{ margin }}" height="{{ height }}"
 width="{{ scene[0]|length * column }}" fill="{{ theme.ground }}"/>
{% endif %}
<g id="answer{{ loop.index }}">
{% for line in scene[1:] %}
{% if line %}
{{ row(line, loop.index) }}
{%- endif %}
{% endfor %}
</g></g>
{% endfor %}
</svg>
""")


def terminal(source: str, theme: str) -> str:
    """Return a terminal that shows a command and its answer; of several, one after the other, for ever."""
    scenes = [f"$ {scene}".rstrip().splitlines() for scene in re.split(r"^\$ ", source, flags=re.M)[1:]]
    sizes = {"height": LINE, "column": COLUMN, "margin": MARGIN, "seconds": SECONDS, "typing": TYPING}
    width, rows = round(COLUMNS * COLUMN + 2 * MARGIN), max(map(len, scenes))
    return TERMINAL.render(
        scenes=scenes, theme=THEMES[theme], heading=HEADING, width=width, rows=rows, **sizes
    )


# ---- pages -----------------------------------------------------------------------------------------------

SECTION = """
header, footer, section:not([aria-labelledby={}]), [data-filters], .scroll {{ display: none !important }}
main {{ padding-top: 16px }}
"""
HIDDEN = {"check": "footer { display: none }", "heat": SECTION.format("s4"), "sweep": SECTION.format("s2")}
"""What a picture leaves out of a page."""
CHROMIUM = (
    *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-device-scale-factor=1.5", "--virtual-time-budget=2000"),
    "--window-size=1040,900",
)


def photograph(name: str, page: str, theme: str, path: Path) -> None:
    """Write what Chromium shows of a page, without the empty rest of its window."""
    style = f"<style>#theme, .skip {{ display: none }}{HIDDEN[name]}</style></head>"
    page = page.replace("<html ", f'<html data-theme="{theme}" ', 1).replace("</head>", style, 1)
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder) / "page.html", Path(folder) / "page.png"
        file.write_text(page)
        shoot(file.as_uri(), image, path)


def photograph_twin(theme: str, path: Path) -> None:
    """Write what Chromium shows of the page of a twin, with an answer."""
    scheme = f"--blink-settings=preferredColorScheme={int(theme == 'light')}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(shop()))
        twin = AskedTwin(None, TWIN_FILES)
        stack.callback(twin.end)
        server = TwinServer(
            ("127.0.0.1", 0), twin.reply, page=page_files(), alive={}, ready={}, metrics=bytes
        )
        stack.callback(server.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        address = f"http://127.0.0.1:{server.port}/#{TWIN_QUESTION}"
        shoot(address, Path(folder) / "page.png", path, scheme, "--window-size=1240,1500", WAIT)


def shoot(address: str, image: Path, path: Path, *more: str) -> None:
    """Write what Chromium shows of an address, without the empty rest of its window."""
    command = [*CHROMIUM, *more, f"--screenshot={image}", address]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    shown = Image.open(image).convert("RGB")
    empty = Image.new("RGB", shown.size, shown.getpixel((0, 0)))
    *_, bottom = ImageChops.difference(shown, empty).getbbox() or shown.getbbox()
    shown.crop((0, 0, shown.width, bottom + 24)).quantize(256).save(path, optimize=True)


def main() -> None:
    """Write all pictures, and the digests of pages."""
    for theme in THEMES:
        for name, commands in SESSIONS.items():
            (FOLDER / f"{name}-{theme}.svg").write_text(terminal(commands(), theme))
    pages = {name: page() for name, page in PAGES.items()}
    for theme in THEMES:
        photograph_twin(theme, FOLDER / f"twin-{theme}.png")
        for name in HIDDEN:
            photograph(name, pages[name], theme, FOLDER / f"{name}-{theme}.png")
    digests = {name: digest(page) for name, page in pages.items()}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
