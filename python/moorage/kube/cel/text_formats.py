"""Values that are texts of a format: addresses, URLs, versions, and Kubernetes' named formats."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache, total_ordering
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from urllib.parse import quote as url_quote

from msgspec import Struct

from moorage._core.base.quantity import wrap_int64

from .cel_errors import EvaluationError
from .string_functions import quote
from .times import timestamp_from_text
from .type_checker import Library, both_cost, traversal_cost, two_traversals_cost
from .values import (
    ABSENT,
    BOOL,
    CIDR,
    FORMAT,
    INT,
    IP,
    SEMVER,
    STRING,
    UINT_MAX,
    URL,
    MapValue,
    Optional,
    list_of,
    map_of,
    optional_of,
    register,
)

# ---- net functions -----------------------------------------------------------------------------------------
#
# IP addresses, CIDR blocks and URLs as values of CEL (k8s.io/apiserver, pkg/cel/library).

Address = IPv4Address | IPv6Address
_PREFIX = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\[\]:\s<>\"^`{|}\\/?#]*)(?::[0-9]*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Cidr(Struct, frozen=True):
    """A block of addresses, with the address by which it was given."""

    address: Address
    length: int

    @property
    def network(self) -> IPv4Network | IPv6Network:
        of = IPv4Network if isinstance(self.address, IPv4Address) else IPv6Network
        return of((self.address, self.length), strict=False)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


class Url(Struct, frozen=True):
    """A URL, split."""

    text: str

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.text.replace("#", "%23"))

    def __str__(self) -> str:
        return self.text


register(IPv4Address, IP)
register(IPv6Address, IP)
register(Cidr, CIDR)
register(Url, URL)


def add_net_functions(library: Library) -> None:
    """Add the overloads of this module."""
    _addresses(library)
    _blocks(library)
    library.function("url", [STRING], URL, _url, traversal_cost)
    library.function("isURL", [STRING], BOOL, is_url, traversal_cost)
    library.member("getScheme", [URL], STRING, lambda a: a.parts.scheme)
    library.member("getHost", [URL], STRING, lambda a: _host(a))
    library.member("getHostname", [URL], STRING, lambda a: _host_and_port(a)[0])
    library.member("getPort", [URL], STRING, lambda a: _host_and_port(a)[1])
    library.member("getEscapedPath", [URL], STRING, _escaped_path)
    library.member("getQuery", [URL], map_of(STRING, list_of(STRING)), _query)


# ---- addresses ---------------------------------------------------------------------------------------


def _addresses(library: Library) -> None:
    library.function("ip", [STRING], IP, _ip, traversal_cost)
    library.function("isIP", [STRING], BOOL, lambda text: _parsed(text) is not None, traversal_cost)
    library.function("ip.isCanonical", [STRING], BOOL, _is_canonical, two_traversals_cost)
    library.function("string", [IP], STRING, str)
    library.member("family", [IP], INT, lambda a: a.version)
    library.member("isUnspecified", [IP], BOOL, lambda a: a.is_unspecified)
    library.member("isLoopback", [IP], BOOL, lambda a: a.is_loopback)
    library.member("isLinkLocalMulticast", [IP], BOOL, _is_link_local_multicast)
    library.member("isLinkLocalUnicast", [IP], BOOL, lambda a: a.is_link_local)
    library.member("isGlobalUnicast", [IP], BOOL, _is_global_unicast)


def _parsed(text: str) -> Address | None:
    if "%" in text or "/" in text:
        return None
    try:
        address = ip_address(text)
    except (AddressValueError, ValueError):
        return None
    return None if isinstance(address, IPv6Address) and address.ipv4_mapped else address


def _ip(text: str) -> Address:
    address = _parsed(text)
    if address is None:
        reason = f'ParseAddr("{text}"): unable to parse IP'
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: {reason}')
    return address


def _is_canonical(text: str) -> bool:
    return str(_ip(text)) == text


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = address == IPv4Address("255.255.255.255")
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (is_broadcast or special)


# ---- blocks ------------------------------------------------------------------------------------------


def _blocks(library: Library) -> None:
    library.function("cidr", [STRING], CIDR, _cidr, traversal_cost)
    library.function("isCIDR", [STRING], BOOL, succeeds(_cidr), traversal_cost)
    library.function("string", [CIDR], STRING, str)
    library.member("containsIP", [CIDR, STRING], BOOL, lambda a, b: _contains(a, _ip(b)), traversal_cost)
    library.member("containsIP", [CIDR, IP], BOOL, _contains)
    library.member("containsCIDR", [CIDR, STRING], BOOL, lambda a, b: _covers(a, _cidr(b)), traversal_cost)
    library.member("containsCIDR", [CIDR, CIDR], BOOL, lambda a, b: _covers(a, b))
    library.member("ip", [CIDR], IP, lambda a: a.address)
    library.member("prefixLength", [CIDR], INT, lambda a: a.length)
    library.member("masked", [CIDR], CIDR, lambda a: Cidr(a.network.network_address, a.length))


def _cidr(text: str) -> Cidr:
    address, _, length = text.partition("/")
    ip = _parsed(address)
    if ip is None or not _PREFIX.fullmatch(length) or int(length) > ip.max_prefixlen:
        raise EvaluationError(f'network address parse error during conversion from string: "{text}"')
    return Cidr(ip, int(length))


def _contains(block: Cidr, address: Address) -> bool:
    return address in block.network


def _covers(block: Cidr, other: Cidr) -> bool:
    same = block.address.version == other.address.version
    return same and block.length <= other.length and other.address in block.network


# ---- URLs --------------------------------------------------------------------------------------------


def is_url(text: str) -> bool:
    """Whether a text is an absolute URL, or an absolute path (Go's ``url.ParseRequestURI``)."""
    if not text or _CONTROL.search(text):
        return False
    if not text.startswith("/") and not _SCHEME.match(text) and text != "*":
        return False
    rest = _SCHEME.sub("", text, count=1) if not text.startswith("/") else text
    if not rest.startswith("/") and text != "*":
        return False  # as in "mailto:a"
    authority = ""
    if rest.startswith("//") and not text.startswith("/"):
        authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    path = rest[2 + len(authority) :] if authority else rest
    host = authority.rpartition("@")[2]
    path = path.partition("?")[0]
    return _HOST.fullmatch(host) is not None and not _BAD_ESCAPE.search(path)


def _url(text: str) -> Url:
    if not is_url(text):
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": invalid URI')
    return Url(text)


def _host(url: Url) -> str:
    return unquote(url.parts.netloc.rpartition("@")[2])


def _host_and_port(url: Url) -> tuple[str, str]:
    host = _host(url)
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]"), port


def _escaped_path(url: Url) -> str:
    return url_quote(url.parts.path, safe="/%:@!$&'()*+,;=~-._")


def _query(url: Url) -> MapValue:
    values: dict[str, tuple[str, ...]] = {}
    for key, value in parse_qsl(url.parts.query, keep_blank_values=True):
        values[key] = (*values.get(key, ()), value)
    return MapValue(values.items())


# ---- named formats -----------------------------------------------------------------------------------------
#
# Named formats of texts, and what is wrong with a text (k8s.io/apiserver, pkg/cel/library/format.go).

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
        problems = [f"must be no more than {limit}"] if len(value) > most else []
        return problems if compiled.fullmatch(value) else [*problems, wrong]

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
    errors = [
        f"prefix part {error}"
        for prefix in prefixes
        for error in (_subdomain(prefix) if prefix else [_EMPTY])
    ]
    return [
        *errors,
        *([] if name else [f"name part {_EMPTY}"]),
        *[f"name part {error}" for error in _key_name(name)],
    ]


_EMPTY = "must be non-empty"


def _unless(is_right: Callable[[str], bool], wrong: str) -> Check:
    return lambda text: [] if is_right(text) else [wrong]


def succeeds(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that says whether another one has a result for its arguments."""

    def is_right(*arguments: Any) -> bool:
        try:
            read(*arguments)
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
    "byte": _unless(lambda text: text != "" and succeeds(_bytes)(text), "invalid base64"),
    "date": _unless(succeeds(_date), "invalid date"),
    "datetime": _unless(succeeds(lambda text: timestamp_from_text(text.upper())), "invalid datetime"),
}


def format_errors(name: str, text: str) -> list[str]:
    """Return what is wrong with a text of a format, in the words of the API server."""
    return _FORMATS[name](text)


def add_format_functions(library: Library) -> None:
    """Add the overloads of this module."""
    library.function("format.named", [STRING], optional_of(FORMAT), _named)
    for name in _FORMATS:
        library.function(f"format.{name}", [], FORMAT, lambda name=name: NamedFormat(name))
    library.member("validate", [FORMAT, STRING], optional_of(list_of(STRING)), _validate, both_cost)


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name), True) if name in _FORMATS else ABSENT


def _validate(of: NamedFormat, text: str) -> Optional:
    wrong = format_errors(of.name, text)
    return Optional(tuple(wrong), True) if wrong else ABSENT


# ---- semver ------------------------------------------------------------------------------------------------
#
# Semantic versions as values of CEL (semver.org 2.0.0).

_DIGITS, _NUMBER, _IDENTIFIER = map(re.compile, ("[0-9]", "[0-9]*", "[0-9A-Za-z-]*"))


@total_ordering
@dataclass(frozen=True, eq=False)
class Semver:
    """A version; build metadata does not count in comparisons."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[str, ...] = ()

    @cached_property
    def _order(self) -> tuple[object, ...]:
        parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre_release]
        return (self.major, self.minor, self.patch, not parts, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order == other._order

    def __lt__(self, other: Semver) -> bool:
        return self._order < other._order

    __hash__ = None  # type: ignore[assignment]


register(Semver, SEMVER, "cel.Semver")


@lru_cache(maxsize=1 << 10)
def parse_semver(text: str) -> Semver:
    """Return the version of a text.

    Checks and texts of errors are in the order of the library that Kubernetes takes (blang/semver).

    Raises
    ------
    EvaluationError
        The text is not a version.
    """
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    rest, has_build, build = parts[2].partition("+")
    patch, has_pre_release, pre_release = rest.partition("-")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    number = _number("patch", patch)
    identifiers = pre_release.split(".") if has_pre_release else []
    for identifier in identifiers:
        if not identifier:
            raise EvaluationError("Prerelease is empty")
        if _NUMBER.fullmatch(identifier):
            if identifier[0] == "0" and identifier != "0":
                text = f"Numeric PreRelease version must not contain leading zeroes {quote(identifier)}"
                raise EvaluationError(text)
            _unsigned(identifier)
        elif not _IDENTIFIER.fullmatch(identifier):
            raise EvaluationError(f"Invalid character(s) found in prerelease {quote(identifier)}")
    for part in build.split(".") if has_build else ():
        if not part:
            raise EvaluationError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise EvaluationError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(major, minor, number, tuple(identifiers))


def _number(name: str, digits: str) -> int:
    """Return a number of a version."""
    if not _NUMBER.fullmatch(digits):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quote(digits)}")
    if digits[:1] == "0" and digits != "0":
        text = f"{name.capitalize()} number must not contain leading zeroes {quote(digits)}"
        raise EvaluationError(text)
    return _unsigned(digits)


def _unsigned(digits: str) -> int:
    """Return an unsigned integer of 64 bits, with the errors of Go's strconv."""
    if not digits or len(digits) > len(str(UINT_MAX)) or int(digits) > UINT_MAX:
        why = "value out of range" if digits else "invalid syntax"
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(digits)}: {why}")
    return int(digits)


def _without_zeros(part: str) -> str:
    """A part of a version without leading zeros; one stays where no digit follows."""
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if _DIGITS.match(rest) else f"0{rest}"


def _semver(text: str, loose: bool = False) -> Semver:
    if loose:  # what is often left out or added: ``v1.02`` is ``1.2.0``
        parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        text = ".".join(parts + ["0"] * (3 - len(parts)))
    return parse_semver(text)


def compare(first: Semver, other: Semver) -> int:
    """Return -1, 0 or 1."""
    return (other < first) - (first < other)


def add_semver_functions(library: Library) -> None:
    """Add the overloads of this module."""
    library.function("semver", [STRING], SEMVER, _semver, traversal_cost)
    library.function("semver", [STRING, BOOL], SEMVER, _semver, traversal_cost)
    library.function("isSemver", [STRING], BOOL, succeeds(_semver), traversal_cost)
    library.function("isSemver", [STRING, BOOL], BOOL, succeeds(_semver), traversal_cost)
    library.member("isGreaterThan", [SEMVER, SEMVER], BOOL, lambda a, b: b < a)
    library.member("isLessThan", [SEMVER, SEMVER], BOOL, lambda a, b: a < b)
    library.member("compareTo", [SEMVER, SEMVER], INT, compare)
    library.member("major", [SEMVER], INT, lambda a: wrap_int64(a.major))
    library.member("minor", [SEMVER], INT, lambda a: wrap_int64(a.minor))
    library.member("patch", [SEMVER], INT, lambda a: wrap_int64(a.patch))
