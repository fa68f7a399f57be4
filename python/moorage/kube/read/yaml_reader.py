"""Reads YAML as Kubernetes does: one JSON value per document.

The rules are those of sigs.k8s.io/yaml: scalar keys become strings, duplicate keys are an error. Texts in
block style have a reader of their own; PyYAML, which takes long to import, reads the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .block_yaml import MAX_DEPTH, UnplacedError, read_block_style, resolve_plain

if TYPE_CHECKING:
    from .yaml_events import DuplicateKey


def read_yaml(text: str, source: str, duplicates: list[DuplicateKey] | None = None) -> Iterator[Any]:
    """Read the documents of a YAML text, without empty ones.

    Parameters
    ----------
    text : str
        YAML text.
    source : str
        Name of the file, for errors.
    duplicates : list of DuplicateKey, optional
        Gets the duplicate keys, of which the last value counts; without a list they are an error.

    Yields
    ------
    object
        One JSON value per document.

    Raises
    ------
    InputError
        The text is not YAML, or has duplicate keys, tags, alias loops or bombs, or deep nesting; names
        `source` and the line.
    """
    try:
        values: Iterable[Any] | None = read_block_style(text, resolve_plain, MAX_DEPTH)
    except UnplacedError:
        values = None
    if values is None:
        from .yaml_events import documents

        values = documents(text, source, duplicates)
    return (document for document in values if document is not None)


def read_first(text: str, source: str) -> tuple[Any, list[DuplicateKey]]:
    """Read the first document of a YAML text, None if it is empty.

    Duplicate keys are not an error. They are returned in the order in which Go's strict decoding reports
    them, and the last value counts.

    Parameters
    ----------
    text : str
        YAML text.
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The text is not YAML; see `read_yaml`.
    """
    from .yaml_events import documents

    duplicates: list[DuplicateKey] = []
    return next(documents(text, source, duplicates), None), duplicates
