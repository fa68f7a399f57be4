"""Python plugins of a file: what a live scheduler makes of it, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.cli import live_settings

from moorage import Scheduler, load
from moorage.errors import InputError

PLUGIN = """
import moorage as mo

class OnlyB(mo.FilterPlugin):
    name = "OnlyB"

    def filter(self, state, pod, node):
        return None if node.name == "b" else mo.Status(mo.Code.UNSCHEDULABLE, ("not b",))

registry = mo.Registry({"OnlyB": OnlyB})
"""
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODE = "{{kind: Node, metadata: {{name: {}}}, status: {{allocatable: {{cpu: 1, pods: 9}}}}}}"
OBJECTS = [NODE.format(name) for name in ("a", "b")]
POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"


def settings(file: Path, text: str = PLUGIN, config: str | None = None) -> dict[str, object]:
    file.write_text(text)
    options = {"plugins": str(file), "gates": "", "version": "1.36", "config": None, "seed": 0}
    if config is not None:
        (file.parent / "config.yaml").write_text(config)
        options["config"] = str(file.parent / "config.yaml")
    return live_settings({**options, "tie_break": None})


def node_of(given: dict[str, object], tmp_path: Path) -> str:
    path = tmp_path / "objects.yaml"
    path.write_text("\n---\n".join([*OBJECTS, POD]))
    (node,) = Scheduler(load(str(path)), **given).run().placements.values()  # type: ignore[arg-type]
    return node


def test_plugins_of_a_file_take_part(tmp_path: Path) -> None:
    assert node_of(settings(tmp_path / "plugins.py"), tmp_path) == "b"


def test_a_configuration_says_which_take_part(tmp_path: Path) -> None:
    assert node_of(settings(tmp_path / "plugins.py", config=CONFIGURATION), tmp_path) == "a"
    profile = "profiles: [{plugins: {filter: {enabled: [{name: OnlyB}]}}}]\n"
    assert node_of(settings(tmp_path / "plugins.py", config=CONFIGURATION + profile), tmp_path) == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 +", "plugins.py: SyntaxError"),
        ("raise OSError('no')", "plugins.py: OSError: no"),
        ("registry = {}", "registry: must be a moorage.Registry with plugins"),
        (PLUGIN.replace('{"OnlyB"', '{"NodeName"'), "a plugin named NodeName already exists"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"plugins\.py") as caught:
        settings(tmp_path / "plugins.py", text)
    assert message in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    options = {"plugins": "nowhere.py", "gates": "", "version": "1.36", "config": None, "seed": 0}
    with pytest.raises(InputError, match=r"nowhere\.py: FileNotFoundError"):
        live_settings({**options, "tie_break": None})
