"""Schedules GPU pods with and without the plugin: python run.py gpu_pack.so"""

from __future__ import annotations

import sys

from moorage import Profile, Scheduler, default_profile, load, load_native_plugin


def main(library: str, *manifests: str) -> None:
    """Print where each pod goes."""
    plugin = load_native_plugin(library)
    for title, plugins in (("default", ()), (f"with {plugin.name}", (plugin,))):
        scheduler = Scheduler(load(*manifests), profile=Profile((*default_profile().plugins, *plugins)))
        result = scheduler.run()
        print(f"{title}:")
        for pod, node in result.placements.items():
            print(f"  {pod} -> {node}")
        for pod, failure in result.unschedulable.items():
            print(f"  {pod}: {failure.message}")


if __name__ == "__main__":
    main(*sys.argv[1:])
