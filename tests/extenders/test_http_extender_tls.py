"""HTTPExtender over TLS: whom it trusts, and who it says it is."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.doors.engine import HTTPExtender, build_extenders, effective, make_extenders
from tests.extenders.extender_server import CERTIFICATE, KEY, ExtenderServer
from tests.extenders.test_http_extender import configured, failure, nothing
from tests.make import pod

from moorage.errors import ConfigurationError

P = pod("p")
UNTRUSTED = "tls: failed to verify certificate: self-signed certificate"


ANY = "find any PEM data in"


def blocks(*kinds: str) -> str:
    """PEM blocks of these types, in base64."""
    text = "".join(f"-----BEGIN {kind}-----\nYWJj\n-----END {kind}-----\n" for kind in kinds)
    return base64.b64encode(text.encode()).decode()


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def secured(url: str, https: bool = False, **tls: Any) -> HTTPExtender:
    fields = {"urlPrefix": url, "bindVerb": "bind", "enableHTTPS": https}
    (one,) = make_extenders(configured(fields | ({"tlsConfig": tls} if tls else {})), nothing)
    return one


@pytest.mark.parametrize(
    ("https", "tls"),
    [
        (True, {}),  # without an authority, upstream checks nothing
        (False, {"insecure": True}),
        (True, {"serverName": "somebody.else"}),
        (False, {"caFile": str(CERTIFICATE)}),
        (True, {"caData": data(CERTIFICATE)}),
        (True, {"caData": data(CERTIFICATE), "caFile": "/nowhere"}),
        (True, {"caFile": str(CERTIFICATE), "serverName": "extender.test"}),
    ],
)
def test_a_trusted_server_is_asked_over_one_connection(https: bool, tls: dict[str, Any]) -> None:
    with ExtenderServer(tls=True, bind={}) as server:
        one = secured(server.url, https, **tls)
        one.bind(P, "a")
        one.bind(P, "a")
    assert len({request.client for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({}, UNTRUSTED),
        ({"serverName": "extender.test"}, UNTRUSTED),
        (
            {"caFile": str(CERTIFICATE), "serverName": "somebody.else"},
            "tls: failed to verify certificate: Hostname mismatch, certificate is not valid for "
            "'somebody.else'.",
        ),
    ],
)
def test_a_server_that_is_not_trusted_gets_no_request(tls: dict[str, Any], why: str) -> None:
    with ExtenderServer(tls=True, bind={}) as server:
        assert failure(secured(server.url, **tls).bind, P, "a") == f'Post "{server.url}/bind": {why}'
    assert server.requests == []


@pytest.mark.parametrize("name", [".x", "a" * 70 + ".x", "a\0b", "\udce4"])
def test_server_names_that_are_none(name: str) -> None:
    with ExtenderServer(tls=True, bind={}) as server:
        one = secured(server.url, insecure=True, serverName="x")
        one.transport.server_name = name
        shown = name.replace("\0", "\\x00").replace("\udce4", "\\udce4")
        assert failure(one.bind, P, "a") == f'Post "{server.url}/bind": tls: not a server name: "{shown}"'
        one.transport.server_name = "x"
        one.bind(P, "a")


def test_broken_data_are_seen_before_anything_is_asked() -> None:
    fields = {"urlPrefix": "https://x", "tlsConfig": {"certData": "YWI=", "keyData": "YWI="}}
    for build in (lambda one: build_extenders(one), lambda one: effective(one, {})):
        with pytest.raises(ConfigurationError) as caught:
            build(configured(fields))
        assert caught.value.message == f"couldn't build extenders: tls: failed to {ANY} certificate input"


def test_a_server_that_speaks_no_tls() -> None:
    with ExtenderServer(bind={}) as server:
        url = server.url.replace("http:", "https:")
        assert failure(secured(url, True).bind, P, "a").startswith(f'Post "{url}/bind": tls: ')


@pytest.mark.parametrize(
    "tls",
    [
        {"certFile": str(CERTIFICATE), "keyFile": str(KEY)},
        {"certData": data(CERTIFICATE), "keyData": data(KEY)},
        {"certData": data(CERTIFICATE), "keyFile": str(KEY)},
    ],
)
def test_a_certificate_of_its_own(tls: dict[str, str]) -> None:
    with ExtenderServer(tls=True, client_authority=str(CERTIFICATE), bind={}) as server:
        secured(server.url, True, **tls).bind(P, "a")
        assert server.verbs == ["bind"]
        failure(secured(server.url, True, certFile=str(CERTIFICATE)).bind, P, "a")
    assert server.verbs == ["bind"]


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        ({"caFile": "/no/such.pem"}, "open /no/such.pem: no such file or directory"),
        ({"certFile": "/no/such.pem"}, "open /no/such.pem: no such file or directory"),
        (
            {"caFile": __file__},
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        ({"keyFile": "/no/such.pem"}, "open /no/such.pem: no such file or directory"),
        ({"certFile": "/no/such\0.pem"}, "open /no/such\\x00.pem: embedded null byte"),
        ({"caData": data(KEY)}, "unable to load root certificates: no valid certificate authority data seen"),
        ({"certData": "YWI=", "keyData": data(KEY)}, f"tls: failed to {ANY} certificate input"),
        ({"certData": data(CERTIFICATE), "keyFile": __file__}, f"tls: failed to {ANY} key input"),
        (
            {"certData": data(KEY), "keyData": data(KEY)},
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM "
            "inputs may have been switched",
        ),
        (
            {"certData": blocks("X", "Y"), "keyData": data(KEY)},
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of '
            "the following types: [X Y]",
        ),
        (
            {"certData": data(CERTIFICATE), "keyData": data(CERTIFICATE)},
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            {"certData": data(CERTIFICATE), "keyData": blocks("X", "X")},
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM '
            "blocks of the following types: [X X]",
        ),
        (
            {"insecure": True, "caFile": str(CERTIFICATE)},
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
    ],
)
def test_certificates_that_are_none(tls: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        secured("https://127.0.0.1", **tls)
    assert (caught.value.stage, caught.value.message) == ("new", f"couldn't build extenders: {text}")
