"""Exceptions that moorage raises on purpose."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

ConfigurationStage = Literal["load", "validate", "new"]
_CANDIDATES, _NEAREST, _EXAMPLES = 100, 3, 5
_LEAST_RATIO = 0.51
"""Names that are alike have more than half of their characters in common."""


class MoorageError(Exception):
    """Base class of moorage's own exceptions."""


class CacheError(MoorageError):
    """The cache refuses an operation: the object is not known, or not in the state that it needs."""


class CacheCorruptedError(MoorageError):
    """An invariant of the cache is broken, where upstream ends the process. The cache is as it was before."""


class ClockError(MoorageError):
    """A clock raised, or told what is no time."""


class PluginError(MoorageError):
    """What a plugin answered as an error, or raised (then with that as its cause)."""


def place_of(error: BaseException) -> str:
    """Return what a text adds about where a plugin has failed; "" where the error says it all."""
    last = error.__traceback__
    if isinstance(error, MoorageError) or last is None:
        return ""
    while last.tb_next is not None:
        last = last.tb_next
    file = last.tb_frame.f_code.co_filename.removeprefix(f"{os.getcwd()}{os.sep}")
    return f" ({file}, line {last.tb_lineno})"


class ExtenderError(MoorageError):
    """An extender failed: it was not reached, or did not answer as it should, or said that it failed. What
    control characters there are in its words are escaped."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


# C0 and C1, line separators, what changes the direction of writing, and unpaired surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""A text from outside with its control characters escaped, such as ``\n`` and ``\x1b``."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def shorten(text: str, limit: int = 240) -> str:
    """Cut the middle of a text that is too long for one line.

    Parameters
    ----------
    limit : int
        Length from which a text is cut.
    """
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 4 :]}"


def examples(texts: Sequence[str], most: int) -> str:
    """Return the first of some texts, with commas; "…" stands for the others.

    Parameters
    ----------
    most : int
        How many are shown.
    """
    return ", ".join([*texts[:most], *["…"] * (len(texts) > most)])


def first_of(texts: Sequence[str], most: int) -> str:
    """Return the first of some texts, with commas, and how many more there are."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def either(texts: Sequence[str]) -> str:
    """Join texts as ``a, b or c``.

    Parameters
    ----------
    texts : sequence of str
        At least one.
    """
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def number_of(number: int, singular: str, plural: str) -> str:
    """Return a number with a noun, and what follows it: ``1 pod has``, ``3 pods have``.

    Parameters
    ----------
    singular, plural : str
        What follows the number 1, and what any other.
    """
    return f"{number} {singular if number == 1 else plural}"


def nearest(text: str, names: Iterable[str]) -> str:
    """Return what an error adds about the names that are most like one that does not exist.

    Returns
    -------
    str
        "" if none is like it.
    """
    names_alike = _nearest(text, names)
    return f"; nearest: {', '.join(names_alike)}" if names_alike else ""


def no_attribute(of: object, name: str) -> AttributeError:
    """Return the error about a name that an object has not, with the nearest ones."""
    hint = "" if name.startswith("_") else nearest(name, dir(type(of)))  # tools ask for such names
    return AttributeError(f"{type(of).__name__} has no attribute {name!r}{hint}", name=name, obj=of)


def nearest_or_known(text: str, names: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return what `nearest` returns, or if none is like it, the first names that there are.

    Parameters
    ----------
    more : iterable of str, optional
        Other names that the text may have meant.
    """
    known = sorted(names)
    there = f"; there {'is' if len(known) == 1 else 'are'} {examples(known, _EXAMPLES)}" if known else ""
    return nearest(text, {*known, *more}) or there


def _nearest(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most like one. Of many, those with the most equal characters from either end
    are compared by their difference."""
    from difflib import get_close_matches  # only errors need them
    from heapq import nlargest
    from operator import eq

    def alike(name: str) -> int:
        return [*map(eq, text, name), *map(eq, reversed(text), reversed(name))].count(True)

    candidates = nlargest(_CANDIDATES, sorted(names), key=alike)
    return get_close_matches(text, candidates, _NEAREST, _LEAST_RATIO)


def no_node(name: str, nodes: Iterable[str]) -> str:
    """Return that no node has a name, with the names that are most like it, or the first ones; of a list, to
    name each by itself."""
    near = "; name each by itself" if "," in name else nearest_or_known(name, nodes)
    return f'there is no Node "{shorten(name, 80)}"{near}'


def about_nodes(name: str) -> str:
    """Return which commands say something about a node."""
    return f"explain node/{name} tells what is on it, and explain POD --why-not {name} why a pod is not"


def no_label(tried: Sequence[str], labels: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return the text that no node has a label, with the labels that are most like it.

    Parameters
    ----------
    tried : sequence of str
        Keys of labels, one of which was looked for.
    labels : iterable of str
        The keys of labels that nodes have.
    more : iterable of str, optional
        What else can be named in place of a label.
    """
    names = " or ".join(f'"{label}"' for label in tried)
    return f"no node has the label {names}{nearest_or_known(tried[0], labels, more)}"


def same_or_nearest(name: str, references: Iterable[str], names: Iterable[str]) -> str:
    """Return what an error adds about an object that does not exist: where its name stands, or objects with
    names like it, as their references where there are some.

    Parameters
    ----------
    references : iterable of str
        Objects that there are, such as ``deploy/web``.
    names : iterable of str
        What `nearest` compares with.

    Returns
    -------
    str
        "" if there is neither.
    """
    by_name: dict[str, list[str]] = {}
    for reference in references:
        by_name.setdefault(reference.rpartition("/")[2], []).append(reference)
    if name in by_name:
        return f"; there is {examples(by_name[name], 3)}"
    near = [reference for like in _nearest(name, set(names)) for reference in by_name.get(like, [like])]
    return f"; nearest: {examples(near, 3)}" if near else ""


class InputError(MoorageError):
    """Bad input: names the file, the object and the field, in one line.

    Parameters
    ----------
    message : str
        What is wrong.
    source : str, optional
        The file (with the line where known).
    obj : str, optional
        The object, as ``Kind namespace/name``.
    path : str, optional
        The field, as ``spec.containers[0].resources.requests[cpu]``.
    """

    def __init__(self, message: str, *, source: str = "", obj: str = "", path: str = "") -> None:
        self.message = message
        self.source = source
        self.obj = obj
        self.path = path
        super().__init__(": ".join(part for part in (source, obj, path, message) if part))

    def located(self, *, source: str = "", obj: str = "", path: str = "") -> InputError:
        """A copy of the error with the file and object that it lacks, and with its field below `path`."""
        dot = "." if path and self.path and not self.path.startswith("[") else ""
        whole = f"{path}{dot}{self.path}"
        return InputError(self.message, source=self.source or source, obj=self.obj or obj, path=whole)


class NoManifestError(InputError):
    """A file or document that has no objects, or is broken and names no `kind`: it may be left out of a
    directory or an archive.
    """


class NoObjectError(InputError):
    """What stands where an object should be: an answer of a server, a table, a kustomization."""


class UnusableError(InputError):
    """An object that the API server takes, and its reader does not."""


class ConfigurationError(InputError):
    """A configuration that kube-scheduler v1.36 refuses.

    Attributes
    ----------
    stage : {"load", "validate", "new"}
        Decoding and defaulting; validation of the whole configuration; building the scheduler.
    upstream : str
        Upstream's text, to which `message` may add. It names the fields, except for durations: there `path`
        does.
    """

    def __init__(
        self, stage: ConfigurationStage, message: str, *, source: str = "", path: str = "", hint: str = ""
    ) -> None:
        self.stage, self.upstream = stage, message
        super().__init__(message + hint, source=source, path=path)


def missing(package: str, extra: str = "") -> str:
    """Return the sentence about a package that is not installed, and the extra of moorage that brings it.

    It names what any index has. moorage itself comes from a wheel or a checkout of one's own.
    """
    return f"{package} is missing{f' (extra {extra})' * bool(extra)}: pip install {package}"


@contextmanager
def located(
    errors: type[Exception] = InputError, *, source: str = "", obj: str = "", path: str = ""
) -> Iterator[None]:
    """Locate each InputError that is raised inside of the context.

    Parameters
    ----------
    errors : type of Exception
        Errors of this type become InputErrors with the same text.
    source, obj, path : str
        As for `InputError.located`.
    """
    try:
        yield
    except (InputError, errors) as error:
        refusal = error if isinstance(error, InputError) else InputError(str(error))
        raise refusal.located(source=source, obj=obj, path=path) from None


NO_NODE = "The input has no node"
AMOUNTS = "; write 1, 500m or 2Gi"
_QUANTITIES = "quantities must match the regular expression"
_MISSING = r'no (PriorityClass) with name (\S+) was found|(namespaces|RuntimeClass) "([^"]+)" not found'
_GROUP_WITH_VERSION = r'"([^"/]+)/[^"/]+": [^ ]+\.group in body should match'


def with_hint(message: str) -> str:
    """Return a text of the API server, with the command that gets the object that it misses, or with amounts
    or a group as it reads them."""
    hint = ""
    if _QUANTITIES in message:
        hint = AMOUNTS
    elif group := re.search(_GROUP_WITH_VERSION, message):
        hint = f'; write the group without its version, "{group[1]}"'
    elif missing := re.search(_MISSING, message):
        kind, name = filter(None, missing.groups())
        hint = f"; if the cluster has it, add `kubectl get {kind.lower()} {name} -o yaml`"
    return message.removesuffix(hint) + hint
