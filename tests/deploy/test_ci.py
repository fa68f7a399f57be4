"""The action of GitHub, the template of GitLab and the programs that they run, against a stand-in of both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from tests.house.source import ROOT

CLUSTER, RELEASE = (str(ROOT / "examples/shop" / name) for name in ("cluster.yaml", "release.yaml"))


class StandIn:
    """Keeps comments as GitHub and GitLab do, in pages of two.

    Attributes
    ----------
    comments : list of dict
        Oldest first.
    asked : list of (str, str)
        Method and path of each request.
    """

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = [{"id": at, "body": f"comment {at}"} for at in range(3)]
        self.asked: list[tuple[str, str]] = []
        self.tokens = set[str]()
        self.status = 200
        handler = partial(Handler, self)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, str]) -> Any:
        self.asked.append((method, path))
        if method == "GET":
            first = 2 * (int(query["page"][0]) - 1)
            return self.comments[first : first + 2]
        if method == "POST":
            self.comments.append({"id": len(self.comments), **body})
            return self.comments[-1]
        self.comments[int(path.rsplit("/", 1)[1])].update(body)
        return {}


class Handler(BaseHTTPRequestHandler):
    def __init__(self, stand_in: StandIn, *args: Any) -> None:
        self.stand_in = stand_in
        super().__init__(*args)

    def _do(self) -> None:
        parts = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"
        self.stand_in.tokens.add(self.headers.get("Authorization") or self.headers["PRIVATE-TOKEN"])
        answer = self.stand_in.answer(self.command, parts.path, parse_qs(parts.query), json.loads(data))
        self.send_response(self.stand_in.status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    stand_in = StandIn()
    thread = Thread(target=stand_in.server.serve_forever)
    thread.start()
    yield stand_in
    stand_in.server.shutdown()
    thread.join()
    stand_in.server.server_close()


def bash(script: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a step as a job does, with this interpreter as `python3`. VERDICT is the exit code of its check."""
    check = 'if [ "$2" = moorage ] && [ -n "$VERDICT" ]; then echo told; exit "$VERDICT"; fi'
    (folder / "python3").write_text(f'#!/bin/sh\n{check}\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return subprocess.run(
        ["bash", "-e", "-c", script],
        env={**kept, **environment, "PATH": f"{folder}:{os.environ['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def github(stand_in: StandIn, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the check of the action for pull request 7."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    defaults = {
        name.upper(): str(value["default"]) for name, value in action["inputs"].items() if "default" in value
    }
    step = action["runs"]["steps"][-1]
    assert set(step["env"]) - {"GITHUB_TOKEN"} <= {name.upper() for name in action["inputs"]}
    job = {
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_API_URL": stand_in.url,
        "GITHUB_REPOSITORY": "shop/infra",
        "GITHUB_TOKEN": "secret",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "RUNNER_TEMP": str(folder),
        "CLUSTER": CLUSTER,
        "MANIFESTS": RELEASE,
    }
    return bash(step["run"], {**defaults, **job, **variables}, folder)


def gitlab(stand_in: StandIn, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the check of the template for merge request 7."""
    job = yaml.safe_load((ROOT / "deploy/ci/gitlab.yml").read_text())[".moorage-check"]
    given = {
        "CI_API_V4_URL": stand_in.url,
        "CI_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_IID": "7",
        "GITLAB_TOKEN": "secret",
        "CLUSTER": CLUSTER,
        "MANIFESTS": RELEASE,
    }
    return bash(job["script"][-1], {**job["variables"], **given, **variables}, folder)


@pytest.mark.parametrize(
    ("run", "prefix", "change"),
    [
        (github, "/repos/shop/infra/issues/7/comments", ("PATCH", "/repos/shop/infra/issues/comments/3")),
        (gitlab, "/projects/12/merge_requests/7/notes", ("PUT", "/projects/12/merge_requests/7/notes/3")),
    ],
)
def test_one_comment_is_written_and_then_changed(
    run: Any, prefix: str, change: tuple[str, str], stand_in: StandIn, tmp_path: Path
) -> None:
    first = run(stand_in, tmp_path)
    assert first.returncode == 1, first.stderr
    assert len(stand_in.comments) == 4
    assert stand_in.comments[3]["body"].startswith("<!-- moorage: check -->\n")
    assert "FAIL" in stand_in.comments[3]["body"]
    assert stand_in.asked[-1] == ("POST", prefix)
    assert stand_in.tokens <= {"Bearer secret", "secret"}
    second = run(stand_in, tmp_path, VERDICT="0")
    assert second.returncode == 0, second.stderr
    assert len(stand_in.comments) == 4
    assert "told" in stand_in.comments[3]["body"]
    assert stand_in.asked[-1] == change


@pytest.mark.parametrize("run", [github, gitlab])
def test_bad_input_writes_no_comment(run: Any, stand_in: StandIn, tmp_path: Path) -> None:
    assert run(stand_in, tmp_path, VERDICT="2").returncode == 2
    assert not stand_in.asked


def test_the_verdict_stands_where_no_comment_can_be_written(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.status = 403
    answer = github(stand_in, tmp_path, VERDICT="1")
    assert answer.returncode == 1
    assert "warning: the comment could not be written: HTTP Error 403" in answer.stderr
    assert "told" in (tmp_path / "summary.md").read_text()
    stand_in.asked.clear()
    assert "not for a pull request" in github(stand_in, tmp_path, VERDICT="0", GITHUB_REF="x").stderr
    assert not github(stand_in, tmp_path, VERDICT="0", COMMENT="false").stderr
    assert not stand_in.asked


# ---- repositories of Argo CD and Flux ----------------------------------------------------------------------

FILES = {
    "apps/shop.yaml": """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  destination: {namespace: shop}
  source: {repoURL: here, path: charts/shop, helm: {valueFiles: [big.yaml], valuesObject: {replicas: 3}}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: redis}
spec: {source: {repoURL: "https://charts.example", chart: redis}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: plain}
spec: {source: {path: plain}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: odd}
spec: {source: {path: charts/shop, helm: {parameters: [{name: a, value: b}]}}}
""",
    "clusters/flux.yaml": """
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: tree}
spec: {path: ./tree}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: patched}
spec: {path: ./tree, postBuild: {substitute: {a: b}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web}
spec:
  chart: {spec: {chart: charts/shop, sourceRef: {kind: GitRepository, name: flux-system}}}
  values: {a: 1}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: broken}
spec: {chart: {spec: {chart: charts/broken, sourceRef: {kind: GitRepository, name: flux-system}}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: far}
spec: {chart: {spec: {chart: nginx, sourceRef: {kind: HelmRepository, name: bitnami}}}}
""",
    "charts/shop/Chart.yaml": "name: shop",
    "charts/shop/templates/a.yaml": "{{ not: yaml }",
    "plain/a.yaml": "kind: Plain",
    "tree/kustomization.yaml": "resources: []",
}
TOOL = """#!/bin/sh
case "$*" in *broken*) echo "Error: no chart" >&2; exit 1;; esac
echo "kind: $(basename $0) $1 $(echo "$*" | sed 's#/tmp/[^ ]*/##g')" | cut -c1-60
"""


def test_a_repository_is_rendered_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    repository, tools = tmp_path / "repository", tmp_path / "tools"
    for name, text in FILES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    tools.mkdir()
    for name in ("helm", "kubectl"):
        (tools / name).write_text(TOOL)
        (tools / name).chmod(0o755)
    command = [sys.executable, str(ROOT / "examples/gitops/render.py"), str(repository)]

    def render(path: str) -> tuple[list[str], list[str]]:
        answer = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True)
        return [
            line for line in answer.stdout.splitlines() if line.startswith("kind")
        ], answer.stderr.splitlines()

    rendered, skipped = render(f"{tools}:{os.environ['PATH']}")
    assert [line.split()[1:4] for line in rendered] == [
        ["helm", "template", "template"],
        ["Plain"],
        ["kubectl", "kustomize", "kustomize"],
        ["helm", "template", "template"],
    ]
    assert skipped == [
        "skipped: Application redis: chart redis of https://charts.example is not in this repository",
        "skipped: Application odd: source.helm.parameters is not supported here",
        "skipped: Kustomization patched: spec.postBuild is not supported here",
        "skipped: HelmRelease broken: helm template: Error: no chart",
        "skipped: HelmRelease far: chart nginx is not in this repository",
    ]
    rendered, skipped = render(str(tmp_path))
    assert rendered == ["kind: Plain"]
    assert "skipped: Application shop: helm is not installed" in skipped
