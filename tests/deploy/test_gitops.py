"""The program of the examples that renders repositories of Argo CD and Flux."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.house.source import ROOT

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
