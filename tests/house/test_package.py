"""The package as a user installs and imports it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.house.source import ROOT, files, name

# typing_extensions: msgspec takes it along where it happens to be installed.
THIRD_PARTIES = {"fastrlock", "numpy", "msgspec", "yaml", "typing_extensions"}

# Hides the compiled core where asked to.
FINDER = """
import sys
class Finder:
    def find_spec(name, path=None, target=None):
        if {hide} and name == "moorage._core.decide.placer":
            return None
        return next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
others, sys.meta_path = sys.meta_path, [Finder]
before = set(sys.modules)
import moorage
"""
LOADED = (
    "{module for module in set(sys.modules) - before if module.split('.')[0] not in sys.stdlib_module_names}"
)


def metadata() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code that sees the package of this tree."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True, check=False)


def homes(package: str) -> dict[str, str]:
    """The public names of a package by its stub, and the module of each."""
    stub = ROOT / "python" / package.replace(".", "/") / "__init__.pyi"
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: f"{'.' * node.level}{node.module}"
        for node in imports
        if node.module
        for alias in node.names
    }


def test_a_missing_extra_of_a_command_is_one_line_that_names_it() -> None:
    commands = (
        ["scheduler"],
        ["serve", "extender", "--in-cluster"],
        ["dump", "--context", "x", "-o", "d.json"],
    )
    hidden = FINDER.format(hide=True).replace('"moorage._core.decide.placer"', '"httpx2"')
    result = run(f"{hidden}\nfrom moorage.cli import main\nprint([main(one) for one in {commands!r}])")
    assert result.stdout == "[2, 2, 2]\n"
    text = "error: httpx2 is missing (extra kube): pip install httpx2\n"
    assert result.stderr == text * 3


def test_nobody_is_told_to_install_what_no_index_has() -> None:
    """moorage comes from a wheel or a checkout; anyone may put another package of its name in an index."""
    told = [path for path in files() if path.suffix in (".py", ".md", ".yml", ".yaml", "")]
    for path in told:
        is_internal = name(path).startswith(("tests/", "bench/"))
        for line in [] if is_internal else path.read_text(errors="replace").splitlines():
            is_told = re.search(r"""(pip install|PACKAGE:|default:)[^#]*[ '"]moorage(?![-/])""", line)
            assert not is_told or "--no-index" in line or " @ https:" in line, f"{path}: {line}"


def test_constraints_pin_what_make_installs() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    pinned = {canonical(package): Version(version) for package, version in pins.items()}
    project = metadata()["project"]
    wanted = [*project["dependencies"], *metadata()["build-system"]["requires"]]
    for extra in ("cli", "report", "kube", "rl", "test", "bench", "lint", "docs", "campaign"):
        wanted += project["optional-dependencies"][extra]
    for requirement in map(Requirement, wanted):
        if requirement.name != "moorage":
            assert pinned[canonical(requirement.name)] in requirement.specifier, str(requirement)


def test_each_dependency_has_its_reason() -> None:
    project, reasons = metadata()["project"], (ROOT / "docs/guide/releasing.md").read_text()
    wanted = [*project["dependencies"], *metadata()["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    table = "".join(line.split("|")[1] for line in reasons.splitlines() if line.startswith("| "))
    told = {*re.findall(r"[\w-]+", table.replace("_", "-").lower())}
    assert not {canonical(Requirement(one).name) for one in wanted} - told - {"moorage"}


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_version_is_the_metadata_s() -> None:
    text = (ROOT / "python/moorage/_version.py").read_text()
    assert f'__version__ = "{metadata()["project"]["version"]}"\n' in text


def test_a_wheel_has_every_file_of_the_package() -> None:
    patterns = metadata()["tool"]["setuptools"]["package-data"]["moorage"]
    package = ROOT / "python/moorage"
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    others = [path for path in files(under="python/moorage") if path.suffix not in (".py", ".so")]
    assert [name(path) for path in others if path not in packed] == []


def test_import_is_lazy() -> None:
    result = run(FINDER.format(hide=False) + f"print(*sorted({LOADED}))")
    loaded = ["moorage", "moorage._core", "moorage._core.decide", "moorage.lazy"]
    assert (result.stdout.split(), result.stderr) == (loaded, "")


def test_a_help_loads_nothing_but_click() -> None:
    others = "{'logging', 'msgspec', 'numpy', 'pathlib', 'traceback'}"
    result = run(
        f"import sys; from moorage.cli import main; main(['-h']); print(*{others} & {{*sys.modules}})"
    )
    assert (result.stdout.splitlines()[-1], result.stderr) == ("", "")


def test_public_names_need_only_the_run_time_dependencies() -> None:
    base = ROOT / "python/moorage"
    modules = {
        public: base / module.removeprefix(".").replace(".", "/")
        for public, module in homes("moorage").items()
        if module.startswith(".")
    }
    here = [public for public, path in modules.items() if path.is_dir() or path.with_suffix(".py").exists()]
    code = FINDER.format(hide=False) + (
        f"for name in {here}:\n"
        "    assert getattr(moorage, name) is getattr(moorage, name) and name in dir(moorage)\n"
        f"print(*{LOADED})"
    )
    result = run(code)
    assert result.stderr == ""
    loaded = {module.partition(".")[0] for module in result.stdout.split()}
    loaded = {module for module in loaded if not module.startswith(("_cython_", "cython_runtime"))}
    assert "moorage" in loaded
    assert loaded <= {"moorage", *THIRD_PARTIES}


def test_unknown_name_is_an_attribute_error() -> None:
    result = run(FINDER.format(hide=False) + "moorage.Schedular")
    assert (
        "AttributeError: module 'moorage' has no attribute 'Schedular'; nearest: Scheduler" in result.stderr
    )


def test_no_name_is_near_one_that_is_not_public() -> None:
    import moorage

    with pytest.raises(AttributeError, match=r"no attribute '_Scheduler'$"):
        moorage.__getattr__("_Scheduler")


def test_the_package_names_the_releases_that_it_has() -> None:
    import moorage
    from moorage.kube.releases import RELEASES

    versions = sorted(RELEASES, key=Version)
    assert f"kube-scheduler {versions[0]} to {versions[-1]}." in (moorage.__doc__ or "")


ROOMS = [
    ".".join(path.parent.relative_to(ROOT / "python/moorage").parts)
    for path in files(".py", under="python/moorage")
    if path.name == "__init__.py" and "names_at_first_use" in path.read_text()
    if path.parent != ROOT / "python/moorage"
]
"""The rooms whose names are imported at their first use."""


@pytest.mark.parametrize("package", ["moorage", *(f"moorage.{room}" for room in ROOMS)])
def test_a_package_has_the_names_of_its_stub(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(homes(package))
    has_modules_alone = package in {"moorage.engine", "moorage.engine.scheduler.cycle"}
    assert homes(package) or has_modules_alone or package.startswith("moorage.kube.")
    for public, home in homes(package).items():
        assert getattr(module, public) is getattr(import_module(home, package), public)
    assert homes(package).keys() <= {*dir(module)}
    with pytest.raises(AttributeError, match=rf"^module '{package}' has no attribute 'no_such_name'"):
        _ = module.no_such_name


def test_rooms_import_their_names_at_first_use() -> None:
    rooms = "answers", "autoscalers", "cluster", "controllers", "engine", "kube", "queues", "sim", "store"
    of_kube = "admission", "admission.policy", "apiserver", "read", "workloads"
    of_engine = "devices", "framework", "framework.configuration", "preemption", "scheduler", "volume"
    parts = *(f"kube.{part}" for part in of_kube), *(f"engine.{part}" for part in of_engine)
    parts += ("engine.scheduler.cycle",)
    assert sorted((*rooms, *parts)) == ROOMS
    result = run(f"import sys\nfor room in {ROOMS}: __import__(f'moorage.{{room}}')\nprint(*sys.modules)")
    loaded = {module for module in result.stdout.split() if module.startswith("moorage.")}
    assert {module for module in loaded if not module.startswith(("moorage._core", "moorage._version"))} == {
        "moorage.lazy",
        *(f"moorage.{room}" for room in ROOMS),
    }


def test_an_interpreter_without_the_gil_is_refused_in_one_sentence() -> None:
    result = run("import sys\nsys.abiflags = 't'\nimport moorage")
    assert result.stderr.splitlines()[-1] == (
        "ImportError: moorage needs a Python with the GIL: its compiled core was not made for free threads"
    )


def test_missing_core_is_one_clear_sentence() -> None:
    result = run(FINDER.format(hide=True))
    assert result.stderr.splitlines()[-1] == (
        "ImportError: the compiled core of moorage is missing: "
        "run `pip install .` (or `make build`) in its source tree"
    )


MACHINE = re.compile(r"(?<![\w.}/-])/(?:root|home|Users|work|tmp|opt|mnt)/\w")


def test_no_machine_paths() -> None:
    wrong = []
    for path in files():
        if path.suffix in {
            ".json",
            ".jsonl",
            ".gz",
            ".yaml",
            ".yml",
            ".so",
        }:  # data, with paths in containers
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE.search(line):
                wrong.append(f"{name(path)}:{number}")
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cd {}home/me/moorage", True),
        ('"{}tmp/x.json"', True),
        ("https://example.org{}home/x", False),
        ("python{}home/x", False),
    ],
)
def test_machine_path_pattern(line: str, found: bool) -> None:
    assert (MACHINE.search(line.format("/")) is not None) == found


def test_the_engine_knows_no_files_and_no_admission() -> None:
    """All of its modules, imported by themselves."""
    code = (
        "import pkgutil, sys, moorage.engine as engine\n"
        "for found in pkgutil.walk_packages(engine.__path__, 'moorage.engine.'):\n"
        "    __import__(found.name)\n"
        "print(*(name for name in sys.modules if name.startswith('moorage.')))\n"
    )
    loaded = run(code).stdout.split()
    above = (
        "kube.read",
        "kube.admission",
        "controllers",
        "cluster",
        "autoscalers",
        "answers",
        "sim",
        "live",
        "cli",
    )
    assert [name for name in loaded if name.startswith(tuple(f"moorage.{part}" for part in above))] == []
    assert 0 < len([name for name in loaded if "_core" not in name]) <= 164


HIDDEN = (
    *(f"kube.admission.{part}" for part in ("b", "c", "k", "m", "po", "q", "r", "se", "si", "st")),
    *(f"kube.workloads.{part}" for part in ("c", "d", "e", "j", "k", "m", "q", "r", "s")),
    *(f"kube.read.{part}" for part in ("bl", "ch", "dec", "params", "rec", "sn", "se")),
    *(f"engine.plugins.{part}" for part in ("claim", "dynamic", "node_volume", "volume")),
    *("kube.cel.", "engine.volume", *(f"engine.devices.{part}" for part in ("a", "c", "d", "e"))),
    *(f"controllers.{part}" for part in ("av", "c", "d", "j", "k", "p", "q", "r", "si", "st", "v")),
    *("cluster.apply_objects", "cluster.change", "cluster.examine", "cluster.given_objects"),
    *(
        "kube.apiserver.conflicts",
        "kube.plain",
        "kube.read.exp",
        "store.deletion",
        "store.patch",
        "store.selectors",
    ),
    *(
        f"engine.framework.{part}"
        for part in ("configuration", "evi", "group_i", "out_of_tree", "pree", "search_calls")
    ),
    *(
        f"engine.scheduler.{part}"
        for part in (
            "cycle.cycle",
            "cycle.diagnosis",
            "cycle.ex",
            "cycle.status_writes",
            "group",
            "place_",
            "schedule_",
            "va",
            "volume_classes",
        )
    ),
    *(f"engine.preemption.{part}" for part in ("a", "dr", "e", "p", "v")),
    *("engine.extenders", "engine.scheduler.scheduler_metrics"),
    "autoscalers",
    "compat",
    "kube.model.kueue",
    "queues",
    "sim",
    "live",
    "cli",
)
"""Parts without which plain pods are placed."""


def test_plain_pods_do_without_other_parts() -> None:
    """The smallest program of a builder runs where these cannot be imported, and loads few modules."""
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": {"pods": "9"}},
        }
    ]
    spec = {"containers": [{"name": "c", "image": "i"}]}
    objects += [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{at}"}, "spec": spec} for at in range(9)
    ]
    code = f"""
import sys
class Hide:
    def find_spec(name, path=None, target=None):
        if name.startswith({tuple(f"moorage.{part}" for part in HIDDEN)}):
            raise ImportError(name)
sys.meta_path.insert(0, Hide)
import moorage as mo
scheduler = mo.Scheduler(mo.load({objects}))
with scheduler.transaction():
    placed = scheduler.run().placements
scheduler.fork()
print(len(placed), sum(name.startswith("moorage") and "_core" not in name for name in sys.modules))
"""
    placed, modules = map(int, run(code).stdout.split())
    assert placed == 9
    assert modules <= 115, "more is loaded than before"
