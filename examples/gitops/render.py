"""Renders what a repository of Argo CD or Flux deploys, for `moorage check`.

    python render.py REPOSITORY > rendered.yaml

Charts are rendered by `helm template`, kustomizations by `kubectl kustomize`; other folders are taken as they
are. What is not in the repository, or cannot be rendered, is skipped and named on stderr.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml


class SkippedError(Exception):
    """Why something is not rendered."""


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a folder's YAML files, without files that are templates."""
    for path in sorted((*folder.rglob("*.yaml"), *folder.rglob("*.yml"))):
        try:
            yield from (obj for obj in yaml.safe_load_all(path.read_text()) if isinstance(obj, dict))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue


def run(*command: str) -> str:
    """Return what a command prints."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SkippedError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or "no message").splitlines()[-1]
        raise SkippedError(f"{command[0]} {command[1]}: {last}") from None


def only(what: str, spec: dict[str, Any], *known: str) -> None:
    """Refuse settings that this program does not know, rather than render something else."""
    if unknown := sorted(key for key, value in spec.items() if value and key not in known):
        raise SkippedError(f"{what}.{unknown[0]} is not supported here")


def helm(folder: Path, name: str, namespace: str, values: dict[str, Any], files: list[str]) -> str:
    """Return the manifests of a chart. Value files are relative to it, and come before values."""
    with TemporaryDirectory() as scratch:
        last = Path(scratch, "values.yaml")
        last.write_text(yaml.safe_dump(values))
        options = [
            option for file in (*(folder / file for file in files), last) for option in ("-f", str(file))
        ]
        return run("helm", "template", name, str(folder), "-n", namespace, *options)


def plain(folder: Path, pattern: str) -> str:
    """Return the manifests of a folder: those of kustomize, or its files of a pattern."""
    if not folder.is_dir():
        raise SkippedError(f"{folder.name} is not a folder of this repository")
    if any(folder.glob("kustomization.y*ml")):
        return run("kubectl", "kustomize", str(folder))
    return "\n---\n".join(path.read_text() for path in sorted(folder.glob(pattern)))


def argo_application(repository: Path, spec: dict[str, Any], name: str) -> Iterator[str]:
    """Render the sources of an Application of Argo CD."""
    namespace = spec.get("destination", {}).get("namespace", "default")
    for source in spec.get("sources") or [spec.get("source", {})]:
        if "path" not in source:
            raise SkippedError(
                f"chart {source.get('chart')} of {source.get('repoURL')} is not in this repository"
            )
        only("source", source, "path", "repoURL", "targetRevision", "helm")
        folder, options = repository / source["path"], source.get("helm") or {}
        if not (folder / "Chart.yaml").exists():
            yield plain(folder, "*.y*ml")
            continue
        only("source.helm", options, "values", "valuesObject", "valueFiles", "releaseName")
        values = {**(yaml.safe_load(options.get("values") or "") or {}), **options.get("valuesObject", {})}
        yield helm(folder, options.get("releaseName", name), namespace, values, options.get("valueFiles", []))


def flux_kustomization(repository: Path, spec: dict[str, Any], name: str) -> Iterator[str]:
    """Render the path of a Kustomization of Flux."""
    if spec.get("sourceRef", {}).get("name", "flux-system") != "flux-system":
        raise SkippedError(f"source {spec['sourceRef']['name']} is not this repository")
    only("spec", {key: spec.get(key) for key in ("patches", "postBuild", "components", "targetNamespace")})
    yield plain(repository / spec.get("path", "."), "**/*.y*ml")


def flux_release(repository: Path, spec: dict[str, Any], name: str) -> Iterator[str]:
    """Render the chart of a HelmRelease of Flux."""
    chart = spec.get("chart", {}).get("spec", {})
    if chart.get("sourceRef", {}).get("kind") != "GitRepository":
        raise SkippedError(f"chart {chart.get('chart')} is not in this repository")
    only("spec", {key: spec.get(key) for key in ("valuesFrom", "postRenderers")})
    namespace = spec.get("targetNamespace", "default")
    yield helm(
        repository / chart["chart"], name, namespace, spec.get("values", {}), chart.get("valuesFiles", [])
    )


RENDERED = {
    ("argoproj.io", "Application"): argo_application,
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): flux_kustomization,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): flux_release,
}


def main(repository: Path) -> int:
    """Print what the repository deploys; return how much of it was rendered."""
    rendered = 0
    for obj in documents(repository):
        kind = str(obj.get("apiVersion", "")).split("/")[0], str(obj.get("kind"))
        if kind in RENDERED:
            name = obj.get("metadata", {}).get("name", "")
            try:
                for text in list(RENDERED[kind](repository, obj.get("spec", {}), name)):
                    print(f"---\n{text}")
                rendered += 1
            except SkippedError as why:
                print(f"skipped: {kind[1]} {name}: {why}", file=sys.stderr)
    return rendered


if __name__ == "__main__":
    if not main(Path(sys.argv[1])):
        sys.exit("error: no Application, Kustomization or HelmRelease was rendered")
