"""Modules that have moved, so that `make bench-compare` can go back to revisions before that."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # nor its package
        return False


def first_of(*names: str) -> str:
    """The first of these modules that is there; the last one, where none is."""
    return next(filter(exists, names), names[-1])


MOVED = {
    "moorage._core.decide.batch_rows": first_of("moorage._core.decide.pod_batch", "bench.before_placer"),
    "moorage._core.decide.bulk_operations": first_of(
        "moorage._core.decide.pod_batches", "moorage._core.batches"
    ),
    "moorage._core.decide.decider": first_of(
        "moorage._core.decide.chooser", "moorage._core.chooser", "moorage._core.cycle"
    ),
    "moorage._core.decide.placer": "bench.before_placer",
    "moorage._core.decide.pod_batch": "bench.before_placer",
    "moorage._core.decide.plan": "moorage._core.plan",
    "moorage._core.preempt.preemptor": "moorage._core.preemptor",
    "moorage._core.state.cluster_state": "moorage._core.state",
    "moorage.framework.plugin.cycle_state": "moorage.framework.cycle_state",
    "moorage.framework.plugin.events": "moorage.framework.events",
    "moorage.framework.plugin.interface": "moorage.framework.interface",
    "moorage.framework.plugin.nodes_view": "moorage.framework.nodes_view",
    "moorage.framework.profiles.native_library": "moorage.framework.native",
    "moorage.framework.profiles.profile": "moorage.framework.profile",
    "moorage.objects.model.godel": "moorage.objects.godel",
    "moorage.objects.model.meta": "moorage.objects.meta",
    "moorage.objects.model.node": "moorage.objects.node",
    "moorage.objects.model.pod": "moorage.objects.pod",
    "moorage.objects.model.pod_group": "moorage.objects.pod_group",
    "moorage.objects.model.policy": "moorage.objects.policy",
    "moorage.objects.model.storage": "moorage.objects.storage",
    "moorage.objects.model.workload": "moorage.objects.workload",
    "moorage.scheduler.cycle.engine": "moorage.scheduler.engine",
    "moorage.scheduler.groups.place_group": "moorage.scheduler.pod_groups",
    "moorage.volume.binding.claims": "moorage.volume.claims",
}
PACKAGES = {name.rpartition(".")[0] for name in MOVED}


class Moved(MetaPathFinder, Loader):
    """Finds a module of today where the revision that is measured has it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = fullname in MOVED or fullname in PACKAGES
        return ModuleSpec(fullname, self, is_package=fullname in PACKAGES) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return import_module(MOVED[spec.name]) if spec.name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


if not exists("moorage._core.decide.placer"):
    sys.meta_path.append(Moved())
    for package in sorted(PACKAGES):  # one may have been a module
        vars(import_module(package)).setdefault("__path__", [])
