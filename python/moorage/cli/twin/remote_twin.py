"""RemoteTwin: asks a twin that runs elsewhere."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit

from moorage.errors import InputError, located
from moorage.live.twin import Reply
from moorage.live.twin.twin_server import JSON, QUESTIONS, refusal

TIMEOUT = 3600.0
"""Seconds that an answer may take at most; the twin has a limit of its own."""


class RemoteTwin:
    """Asks over HTTP.

    Parameters
    ----------
    address : str
        Such as ``https://twin.example.com:8899``.
    token : str or None
        A file with a bearer token, which is read for each question.
    authority : str or None
        A file with the authority of the twin's certificate, in PEM.

    Raises
    ------
    InputError
        The address is none, or a file cannot be read.
    """

    def __init__(self, address: str, token: str | None, authority: str | None) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InputError("must be an address such as http://127.0.0.1:8899", source="--twin", obj=address)
        if token is not None and url.scheme == "http":
            raise InputError("a token is sent over https only", source="--token-file")
        self._base, self._token = f"{url.scheme}://{url.netloc}{QUESTIONS}", token
        with located(OSError, source=authority or ""):
            self._context = ssl.create_default_context(cafile=authority) if url.scheme == "https" else None

    def reply(self, path: str, query: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """Return the answer to a question, or why there is none."""
        headers = {}
        if self._token is not None:
            with located(OSError, source=self._token):
                headers["Authorization"] = f"Bearer {Path(self._token).read_text().strip()}"
        request = urllib.request.Request(
            f"{self._base}{path}?{urlencode(query)}", body, headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                return Reply(answer.status, answer.read(), JSON, answer.headers.items())
        except HTTPError as error:
            text = error.read().decode(errors="replace").strip()
            with suppress(ValueError, LookupError, TypeError):
                text = json.loads(text)["error"]
            return refusal(error.code, text or str(error))
        except URLError as error:
            return refusal(502, f"the twin does not answer: {error.reason}")
