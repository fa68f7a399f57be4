"""``moorage config``: validates a scheduler configuration and prints its effective form."""

from __future__ import annotations

import click

from moorage.errors import InputError, shorten

from ..options.inputs import gate_options, plugins_option
from ..options.option_types import GroupedCommand, output_option

SHOWN = 4000
"""Maximum length of an error; upstream quotes the whole text of an object without a kind."""


@click.command(
    cls=GroupedCommand,
    examples=(
        "moorage config tests/data/scheduler.yaml",
        "moorage config --effective tests/data/scheduler.yaml",
    ),
)
@click.argument("file", metavar="FILE|-")
@click.option(
    "--effective",
    "show",
    is_flag=True,
    help="Print the configuration that is in effect: defaults, the plugins of each extension "
    "point in order, weights and arguments.",
)
@output_option(["yaml", "json"], "Format of --effective.")
@plugins_option(", which FILE may name")
@gate_options
def config(file: str, show: bool, output: str, plugins: str | None, gates: str, version: str) -> None:
    """Read a KubeSchedulerConfiguration as kube-scheduler does, and say whether it is valid."""
    from moorage.answers.runs.loaded_cluster import naming_other_kinds
    from moorage.answers.scheduler import Scheduler
    from moorage.engine.framework.configuration import ConfigurationError, effective, load_configuration
    from moorage.engine.plugins.registry import in_tree
    from moorage.kube import Cluster
    from moorage.kube.read.files import source_name
    from moorage.kube.releases import selected_gates
    from moorage.sim.plugin_file import known_plugins, read_plugin_file

    from .printing import ignore_broken_pipe, write_value

    name = source_name(file)
    try:
        selected = selected_gates(gates, version)
        own = in_tree(selected.release)
        with naming_other_kinds():
            configuration = load_configuration(file, own, feature_gates=selected)
        others = known_plugins(read_plugin_file(plugins) if plugins else {})
        by_name = {
            name: factory if isinstance(factory, type) else factory(None, None)
            for name, factory in others.items()
        }
        value = effective(configuration, by_name | {plugin.name: plugin for plugin in own}, selected.release)
        Scheduler(Cluster(), config=configuration, registry=others, feature_gates=selected)
    except ConfigurationError as error:
        raise InputError(shorten(error.message, SHOWN), source=name, path=error.path) from None
    with ignore_broken_pipe():
        if show:
            write_value(output, value)
        else:
            print(f"{name}: valid")
