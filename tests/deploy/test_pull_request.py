"""The steps of the action and the script of the template, in a checkout whose author is hostile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from tests.doors.cli import Comments, main
from tests.house.source import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, CHECK = (step["run"] for step in ACTION["runs"]["steps"])
JOB = yaml.safe_load((ROOT / "deploy/ci/gitlab.yml").read_text())[".moorage-check"]
MODULES = ("json", "yaml", "click", "moorage", "sitecustomize", "pickle", "encodings", "numpy/__init__")
FIRST = "<!-- moorage: check -->"
VERDICT = "1 pod has no node"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A change that leaves a pod without a node, with modules and files that nobody may run or read."""
    folder = tmp_path / "checkout"
    (folder / "numpy").mkdir(parents=True)
    shutil.copy(ROOT / "examples/shop/cluster.yaml", folder)
    shutil.copy(ROOT / "examples/shop/release/web.yaml", folder / "release.yaml")
    for name in MODULES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'imported')!r}, 'a').write({name!r})\n1 / 0\n"
        )
    for name in ("-fevil", "--allow=all", "--help"):
        (folder / name).touch()
    return folder


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder of the runner, whose environment of Python is this one."""
    python = tmp_path / "runner/moorage/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return tmp_path / "runner"


def run(script: str, checkout: Path, runner: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a job does: it begins in the checkout."""
    environment = {
        "PATH": f"{checkout}:{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
        "HOME": str(runner),
        "RUNNER_TEMP": str(runner),
        "GITHUB_WORKSPACE": str(checkout),
        "GITHUB_STEP_SUMMARY": str(runner / "summary.md"),
        "CLUSTER": "cluster.yaml",
        "MANIFESTS": "release.yaml",
        "OPTIONS": "--new-only",
        "NAME": "check",
        "COMMENT": "false",
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=checkout,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_of_the_checkout_is_imported_and_the_verdict_stands(checkout: Path, runner: Path) -> None:
    done = run(CHECK, checkout, runner)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert VERDICT in (runner / "summary.md").read_text()
    assert not (checkout / "imported").exists()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ("--new-only *", 2, "Got unexpected extra argument (*)"),
        ("--new-only -?evil", 2, "-?"),
        ("--new-only $(touch imported) `touch imported`", 2, "unexpected extra argument"),
        ("--new-only\n--scale 'deploy/shop/web=8'\n", 0, ""),
        ("--new-only 'open", 2, "OPTIONS: No closing quotation"),
    ],
)
def test_options_are_words_and_nothing_is_expanded(
    options: str, code: int, text: str, checkout: Path, runner: Path
) -> None:
    done = run(CHECK, checkout, runner, OPTIONS=options)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert not (checkout / "imported").exists()


def test_the_package_is_installed_away_from_the_checkout(checkout: Path, runner: Path) -> None:
    """Each call of Python is isolated, and its folder is the runner's."""
    python = runner / "bin/python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\necho "$(pwd) $*" >> {runner}/calls\n')
    python.chmod(0o755)
    shutil.copy(python, runner / "moorage/bin/python")
    path = f"{python.parent}:{os.environ['PATH']}"
    package = "moorage[cli] @ https://wheels.example/moorage.whl"
    assert run(INSTALL, checkout, runner, PATH=path, PACKAGE=package).returncode == 0
    _, venv, pip = (runner / "calls").read_text().splitlines()
    assert venv == f"{runner} -I -m venv moorage"
    assert pip == f"{runner} -I -m pip install --quiet {package}"


def test_a_job_without_a_package_is_told_which_wheel_to_build(checkout: Path, runner: Path) -> None:
    assert ACTION["inputs"]["package"].get("default") is None
    assert "PACKAGE" not in JOB["variables"]
    for script in (INSTALL, JOB["script"][0]):
        done = run(script, checkout, runner, PACKAGE="")
        assert done.returncode
        version = "python{}.{}".format(*sys.version_info)
        assert (
            f"PACKAGE: names no wheel. In a checkout of moorage, make wheels PYTHONS={version}" in done.stderr
        )
    assert not (checkout / "imported").exists()


def test_the_template_does_what_the_action_does() -> None:
    lines = [line for step in (INSTALL, CHECK) for line in step.splitlines() if line != 'cd "$RUNNER_TEMP"']
    assert JOB["script"][0].splitlines()[1:] == lines


def test_a_link_in_the_checkout_is_not_written_through(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "profile"
    target.write_text("mine")
    (checkout / "moorage.md").symlink_to(target)
    job = {"CI_PROJECT_DIR": str(checkout), "CLUSTER": "cluster.yaml", "MANIFESTS": "release.yaml"}
    assert main({**job, "NAME": "check", "OPTIONS": "--new-only", "COMMENT": "false"}) == 1
    assert target.read_text() == "mine"
    assert VERDICT in (checkout / "moorage.md").read_text()


def test_a_folder_in_the_place_of_the_report_is_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "moorage.md").mkdir()
    job = {"CI_PROJECT_DIR": str(checkout), "CLUSTER": "cluster.yaml", "MANIFESTS": "release.yaml"}
    assert main({**job, "NAME": "check", "OPTIONS": "--new-only", "COMMENT": "false"}) == 1
    shown = capsys.readouterr()
    assert VERDICT in shown.out
    assert shown.err.endswith("moorage.md: the checkout has a folder of this name, so there is no report\n")


class Forge(BaseHTTPRequestHandler):
    """GitHub and GitLab, as far as comments go, in pages of two. Only the token `secret` may write."""

    comments: list[dict[str, Any]]
    asked: list[tuple[str, str, str]]

    def log_message(self, format: str, *values: object) -> None:
        pass

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path, _, query = self.path.partition("?")
        type(self).asked.append((self.command, path, body))
        answer: Any = {}
        token = self.headers.get("Authorization", self.headers.get("PRIVATE-TOKEN"))
        is_allowed = self.command == "GET" or path == "/graphql" or token in ("Bearer secret", "secret")
        if path == "/graphql":
            answer = {"data": {"viewer": {"login": "github-actions[bot]"}}}
        elif path == "/user":
            answer = {"id": 7}
        elif self.command == "GET":
            first = 2 * (int(query.rpartition("=")[2]) - 1)
            answer = self.comments[first : first + 2]
        data = json.dumps(answer).encode()
        self.send_response(200 if is_allowed else 403)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do  # noqa: N815, names of the library


@pytest.fixture
def forge() -> Iterator[tuple[str, type[Forge]]]:
    handler = type("Forge", (Forge,), {"comments": [], "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


STRANGER = {"id": 1, "body": f"{FIRST}\nPASS", "user": {"login": "github-actions"}, "author": {"id": 8}}
GHOST = {"id": 2, "body": FIRST, "user": None, "author": None}
OTHER = {"id": 3, "body": "hello", "user": {"login": "github-actions[bot]"}, "author": {"id": 7}}
OWN = {**OTHER, "id": 4, "body": f"{FIRST}\nearlier"}


@pytest.mark.parametrize("host", ["GitHub", "GitLab"])
@pytest.mark.parametrize("has_written", [True, False])
def test_the_comment_is_found_by_its_author(
    host: str,
    has_written: bool,
    forge: tuple[str, type[Forge]],
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stranger's comment that begins alike is let alone, so the verdict is shown."""
    url, server = forge
    server.comments = [STRANGER, GHOST, OTHER, *[OWN] * has_written]
    job = {"CLUSTER": "cluster.yaml", "MANIFESTS": "release.yaml", "NAME": "check", "OPTIONS": "--new-only"}
    github = {
        "GITHUB_API_URL": url,
        "GITHUB_GRAPHQL_URL": f"{url}/graphql",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_REF": "refs/pull/5/merge",
        "GITHUB_WORKSPACE": str(checkout),
        "GITHUB_STEP_SUMMARY": str(checkout.parent / "summary.md"),
    }
    gitlab = {
        "CI_API_V4_URL": url,
        "CI_PROJECT_ID": "9",
        "CI_MERGE_REQUEST_IID": "5",
        "CI_PROJECT_DIR": str(checkout),
    }
    job |= github if host == "GitHub" else gitlab
    assert main(job | {"CLUSTER": "none.yaml"}) == 2
    assert not server.asked
    assert main(job) == 1  # without a token the verdict stands
    assert "comment could not be written: HTTP Error 403" in capsys.readouterr().err
    assert main(job | {"GITHUB_TOKEN": "secret", "GITLAB_TOKEN": "secret"}) == 1
    listed = "/repos/a/b/issues/5/comments" if host == "GitHub" else "/projects/9/merge_requests/5/notes"
    changed = "/repos/a/b/issues/comments/4" if host == "GitHub" else f"{listed}/4"
    method, path, body = server.asked[-1]
    change = "PATCH" if host == "GitHub" else "PUT"
    assert (method, path) == ((change, changed) if has_written else ("POST", listed))
    assert json.loads(body)["body"].startswith(FIRST)
    assert VERDICT in json.loads(body)["body"]


def test_a_comment_that_cannot_be_written_is_told(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"CLUSTER": "cluster.yaml", "MANIFESTS": "release.yaml", "NAME": "check", "OPTIONS": "--new-only"}
    job |= {"GITHUB_WORKSPACE": str(checkout), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    assert main(job) == 1
    assert "warning: no comment is written: this job is not for a pull request" in capsys.readouterr().err
    request = {"GITHUB_REF": "refs/pull/5/merge", "GITHUB_REPOSITORY": "a/b"}
    closed = {"GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_GRAPHQL_URL": "http://127.0.0.1:9/graphql"}
    assert main(job | request | closed) == 1
    assert "warning: the comment could not be written: " in capsys.readouterr().err


def test_a_long_text_is_cut(forge: tuple[str, type[Forge]]) -> None:
    url, server = forge
    Comments(url, f"{url}/notes", f"{url}/notes", "PUT", ("author", "id"), {"PRIVATE-TOKEN": "secret"}).write(
        "check", "x" * 70_000
    )
    body = json.loads(server.asked[-1][2])["body"]
    assert len(body) < 65_536
    assert body.endswith("… (cut)")
