"""``moorage dump``: writes what scheduling needs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import located

from ..messages import print_warnings
from ..options.inputs import connection_options, file_options, listed_objects, load_input
from ..options.option_types import AnsweringCommand, is_given

if TYPE_CHECKING:
    from moorage.kube import Object


@click.command(
    cls=AnsweringCommand,
    examples=(
        "moorage dump --context prod -o cluster.json.gz",
        "moorage dump -f examples/demo.yaml --anonymize",
    ),
)
@file_options
@connection_options
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, labels, taints and images by meaningless words. Decisions stay the same.",
)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE|-",
    default="-",
    help="YAML or JSON by its suffix, compressed with .gz; -, the default, is standard output, as JSON.",
)
def dump(file: str, anonymize: bool, **options: Any) -> None:
    """Write the objects of a cluster, or of files, that scheduling reads, for -f of the other commands.

    Secrets and configuration maps are not read, and of a pod only what scheduling reads is written: no
    environment, no commands. In templates, numbers stand for such texts. Of files, also the pods that
    operators make of their objects are written.

    Exit codes: 0 the file is written; 2 bad input, or the server has refused.
    """
    from moorage.kube import dump as text_of
    from moorage.kube import write
    from moorage.kube.apiserver.hidden_texts import hide
    from moorage.kube.edit import anonymize as renamed

    names = ("recursive", "validate", "namespace", "hooks")
    if not options["files"] and any(map(is_given, names)):
        raise click.UsageError("-R, --hooks, --validate and -n need -f")
    if options["files"]:  # as if they were read from a server
        from moorage.live.client.cluster_objects import without_contents

        cluster = load_input({**options, "synthetic": None, "like_siblings": False, "with_metrics": True})
        print_warnings(cluster.warnings)
        listed = (
            *(cluster.namespaces, cluster.nodes, cluster.others),
            *(cluster.pods, cluster.finished, cluster.metrics),
        )
        objects: Sequence[Object] = [without_contents(obj) for each in listed for obj in each]
    else:
        objects = listed_objects({**options, "with_metrics": True}).objects
    objects = renamed(objects) if anonymize else hide(objects)
    if file == "-":
        click.echo(text_of(objects), nl=False)
        return
    with located(OSError, source=file):
        write(file, objects)
