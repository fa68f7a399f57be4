"""Named formats of texts, and what is wrong with a text (k8s.io/apiserver, pkg/cel/library/format.go)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import date

from msgspec import Struct

from moorage.kube.cel import overloads as cost

from ..cel_errors import EvaluationError
from ..cel_types import FORMAT, STRING, list_of, optional_of
from ..overloads import Library
from ..values import ABSENT, Optional, register
from .net_functions import is_url
from .times import timestamp_from_text

Check = Callable[[str], list[str]]
"""Returns what is wrong with a text."""


class NamedFormat(Struct, frozen=True):
    """A format of texts."""

    name: str


register(NamedFormat, FORMAT, "cel.Format")


def _checks(pattern: str, limit: str, text: str, *examples: str) -> Check:
    compiled, most = re.compile(pattern), int(limit.split()[0])
    shown = ",  or ".join([f"'{example}'" for example in examples])
    wrong = f"{text} (e.g. {shown}, regex used for validation is '{pattern}')"

    def check(value: str) -> list[str]:
        found = [f"must be no more than {limit}"] if len(value) > most else []
        return found if compiled.fullmatch(value) else [*found, wrong]

    return check


_ENDS = "and must start and end with an alphanumeric character"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SYMBOLS = "consist of alphanumeric characters, '-', '_' or '.', "
_label = _checks(
    _LABEL,
    "63 characters",
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    "my-name",
    "123-abc",
)
_subdomain = _checks(
    rf"{_LABEL}(\.{_LABEL})*",
    "253 characters",
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    "example.com",
)
_old_label = _checks(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "63 characters",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_label_value = _checks(
    f"({_KEY})?",
    "63 bytes",
    f"a valid label must be an empty string or {_SYMBOLS}{_ENDS}",
    "MyValue",
    "my_value",
    "12345",
)
_key_name = _checks(_KEY, "63 bytes", f"must {_SYMBOLS}{_ENDS}", "MyName", "my.name", "123-abc")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII)


def _dns_label(text: str) -> list[str]:
    return ["must not contain dots"] if "." in text else _label(text)


def _as_prefix(check: Check) -> Check:
    """What is wrong with a name of which the text is the beginning."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(text: str) -> list[str]:
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        (wrong,) = _key_name("")
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {wrong} {optional}"]
    found = [
        f"prefix part {one}" for prefix in prefixes for one in (_subdomain(prefix) if prefix else [_EMPTY])
    ]
    return [
        *found,
        *([] if name else [f"name part {_EMPTY}"]),
        *[f"name part {one}" for one in _key_name(name)],
    ]


_EMPTY = "must be non-empty"


def _unless(is_right: Callable[[str], bool], wrong: str) -> Check:
    return lambda text: [] if is_right(text) else [wrong]


def _succeeds(read: Callable[[str], object]) -> Callable[[str], bool]:
    def is_right(text: str) -> bool:
        try:
            read(text)
        except (ValueError, EvaluationError):
            return False
        return True

    return is_right


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _date(text: str) -> date:
    if len(text) != 10:
        raise ValueError
    return date.fromisoformat(text)


_FORMATS: dict[str, Check] = {
    "dns1123Label": _dns_label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _old_label,
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _as_prefix(_dns_label),
    "dns1123SubdomainPrefix": _as_prefix(_subdomain),
    "dns1035LabelPrefix": _as_prefix(_old_label),
    "labelValue": _label_value,
    "uri": _unless(is_url, "invalid URI"),
    "uuid": _unless(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"),
    "byte": _unless(lambda text: text != "" and _succeeds(_bytes)(text), "invalid base64"),
    "date": _unless(_succeeds(_date), "invalid date"),
    "datetime": _unless(_succeeds(lambda text: timestamp_from_text(text.upper())), "invalid datetime"),
}


def format_errors(name: str, text: str) -> list[str]:
    """Return what is wrong with a text of a format, in the words of the API server."""
    return _FORMATS[name](text)


def add_format_functions(library: Library) -> None:
    """Add the overloads of this module."""
    library.function("format.named", [STRING], optional_of(FORMAT), _named)
    for name in _FORMATS:
        library.function(f"format.{name}", [], FORMAT, lambda name=name: NamedFormat(name))
    library.member("validate", [FORMAT, STRING], optional_of(list_of(STRING)), _validate, cost.both)


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name), True) if name in _FORMATS else ABSENT


def _validate(of: NamedFormat, text: str) -> Optional:
    wrong = format_errors(of.name, text)
    return Optional(tuple(wrong), True) if wrong else ABSENT
