"""Files in the root say what the rest of the repository does."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

from tests.house.source import ROOT, files, name


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_workflow_does_what_ci_run_does() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    steps = [step["run"] for step in jobs["check"]["steps"] if "run" in step]
    assert steps[-1] == ".ci/run"
    tried = [f"cp{version.replace('.', '')}-*" for version in jobs["check"]["strategy"]["matrix"]["python"]]
    assert tried == project()["tool"]["cibuildwheel"]["build"]
    assert project()["project"]["requires-python"] == f">={jobs['check']['strategy']['matrix']['python'][0]}"


def test_the_hosted_guide_is_built_with_the_same_settings() -> None:
    hosted = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert hosted["sphinx"] == {"configuration": "docs/conf.py", "fail_on_warning": True}
    extras = hosted["python"]["install"][0]["extra_requirements"]
    assert set(extras) <= project()["project"]["optional-dependencies"].keys()


def test_fragments_have_a_kind_that_is_collected() -> None:
    towncrier = project()["tool"]["towncrier"]
    kinds = [kind["directory"] for kind in towncrier["type"]]
    names = [path.name for path in (ROOT / towncrier["directory"]).iterdir() if path.name != "README.md"]
    assert [name for name in names if not re.fullmatch(rf"\d+\.({'|'.join(kinds)})\.md", name)] == []
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "changes/README.md").read_text(), re.MULTILINE)
    assert listed == kinds


def test_no_file_is_larger_than_data_of_a_release() -> None:
    """A dump that a command wrote by mistake would come into every clone."""
    assert [name(one) for one in files() if one.suffix != ".so" and one.stat().st_size > 256 << 10] == []
