"""``moorage dump``: writes what scheduling needs of a cluster."""

from __future__ import annotations

from typing import Any

import click

from moorage.cli.options.inputs import connection_options, listed_objects
from moorage.cli.options.option_groups import AnsweringCommand
from moorage.errors import located


@click.command(
    cls=AnsweringCommand,
    examples=("moorage dump cluster.json.gz", "moorage dump --context prod --anonymize cluster.json.gz"),
)
@connection_options
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, labels, taints and images by meaningless words. Decisions stay the same.",
)
@click.argument("file", metavar="FILE|-")
def dump(file: str, anonymize: bool, **options: Any) -> None:
    """Write the objects of a cluster that scheduling reads, for -f of the other commands.

    FILE is YAML or JSON by its suffix, compressed with .gz; - is standard output, as JSON. Secrets and
    configuration maps are not read, and of a pod only what scheduling reads is written: no environment, no
    commands.

    Exit codes: 0 the file is written; 2 bad input, or the server has refused.
    """
    from moorage.objects import dump as text_of
    from moorage.objects import write
    from moorage.objects.anonymize import anonymize as renamed

    objects = listed_objects(options).objects
    if anonymize:
        objects = renamed(objects)
    if file == "-":
        click.echo(text_of(objects), nl=False)
        return
    with located(OSError, source=file):
        write(file, objects)
