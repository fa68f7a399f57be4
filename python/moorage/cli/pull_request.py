"""``python -m moorage.cli.pull_request NAME``: keeps one comment of a pull or merge request up to date.

The comment is read from stdin. It is found again by a hidden first line that names it. Where to write it is
in the variables that the jobs of GitHub and GitLab have; without a request nothing is written.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

LONGEST = 60_000
"""Characters of a comment. GitHub takes 65,536."""
PER_PAGE, MOST_PAGES = 100, 100
TIMEOUT = 30.0  # seconds


class Comments(NamedTuple):
    """The comments of one request: where they are listed and made, and where one of them is changed."""

    listed: str
    changed: str
    method: str
    headers: dict[str, str]

    def ask(self, method: str, url: str, body: str | None = None) -> Any:
        """Return the answer to a request, read from JSON."""
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {**self.headers, "Content-Type": "application/json", "User-Agent": "moorage"}
        with urlopen(Request(url, data, headers, method=method), timeout=TIMEOUT) as answer:
            return json.load(answer)

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield the comments, oldest first."""
        for page in range(1, MOST_PAGES + 1):
            comments = self.ask("GET", f"{self.listed}?per_page={PER_PAGE}&page={page}")
            if not comments:
                break
            yield from comments

    def write(self, name: str, text: str) -> None:
        """Change the comment of a name, or make it."""
        first = f"<!-- moorage: {name} -->"
        body = f"{first}\n{text[:LONGEST]}" + ("\n\n… (cut)" if len(text) > LONGEST else "")
        for comment in self.all():
            if comment["body"].startswith(first):
                self.ask(self.method, f"{self.changed}/{comment['id']}", body)
                return
        self.ask("POST", self.listed, body)


def comments_of(environment: Mapping[str, str]) -> Comments | None:
    """Return the comments of the request that a job of GitHub or GitLab is for, by its variables."""
    pull = re.fullmatch(r"refs/pull/(\d+)/\w+", environment.get("GITHUB_REF", ""))
    if pull:
        issues = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}/issues"
        headers = {"Authorization": f"Bearer {environment.get('GITHUB_TOKEN', '')}"}
        return Comments(f"{issues}/{pull[1]}/comments", f"{issues}/comments", "PATCH", headers)
    if merge := environment.get("CI_MERGE_REQUEST_IID"):
        project = f"{environment['CI_API_V4_URL']}/projects/{environment['CI_PROJECT_ID']}"
        notes = f"{project}/merge_requests/{merge}/notes"
        return Comments(notes, notes, "PUT", {"PRIVATE-TOKEN": environment.get("GITLAB_TOKEN", "")})
    return None


def main(name: str, text: str, environment: Mapping[str, str]) -> str:
    """Write the comment; return a sentence where it was not written."""
    comments = comments_of(environment)
    if comments is None:
        return "no comment is written: this job is not for a pull request or merge request"
    try:
        comments.write(name, text)
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"the comment could not be written: {error}"
    return ""


if __name__ == "__main__":
    if why := main(sys.argv[1], sys.stdin.read(), os.environ):
        print(f"warning: {why}", file=sys.stderr)
