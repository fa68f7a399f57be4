"""``python3 -I -m moorage.cli.pull_request``: what the action for GitHub and the template for GitLab run.

It runs `moorage check` over files of a checkout, and keeps one comment of the pull or merge request up to
date. Variables say what to do: those of ``action.yml``, and those that the jobs of GitHub and GitLab have.
The author of the change also wrote the checkout: nothing of it is imported (``-I``), and no shell reads
options.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from msgspec import Struct

from moorage.cli import main as moorage

LONGEST = 60_000
"""Characters of a comment. GitHub takes 65,536."""
PER_PAGE, MOST_PAGES = 100, 100
TIMEOUT = 30.0  # seconds
REPORT = "moorage.md"
"""The artifact of a job of GitLab."""


class Comments(Struct, frozen=True):
    """The comments of one request: where they are listed and made, and where one of them is changed.

    Attributes
    ----------
    author : tuple of str
        The fields of a comment in which its author is.
    """

    api: str
    listed: str
    changed: str
    method: str
    author: tuple[str, str]
    headers: dict[str, str]

    def own_author(self) -> Any:
        """Return who writes with this token, as the field `author` of a comment has it."""
        return self.ask("GET", f"{self.api}/user")[self.author[1]]

    def ask(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        """Return the answer to a request, read from JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": "application/json", "User-Agent": "moorage"}
        with urlopen(Request(url, data, headers, method=method), timeout=TIMEOUT) as answer:
            return json.load(answer)

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield the comments."""
        for page in range(1, MOST_PAGES + 1):
            comments = self.ask("GET", f"{self.listed}?per_page={PER_PAGE}&page={page}")
            if not comments:
                break
            yield from comments

    def write(self, name: str, text: str) -> None:
        """Change the comment of a name that this token has written, or make it.

        Anyone may write a comment that begins like it.
        """
        first = f"<!-- moorage: {name} -->"
        body = {"body": f"{first}\n{text[:LONGEST]}" + ("\n\n… (cut)" if len(text) > LONGEST else "")}
        user, key = self.author
        own = self.own_author()
        for comment in self.all():
            if comment["body"].startswith(first) and (comment[user] or {}).get(key) == own:
                self.ask(self.method, f"{self.changed}/{comment['id']}", body)
                return
        self.ask("POST", self.listed, body)


class GitHubComments(Comments, frozen=True):
    """Comments of a pull request."""

    graphql: str

    def own_author(self) -> Any:
        """Return the login of the token. The token of a job may not ask `/user`, but GraphQL."""
        return self.ask("POST", self.graphql, {"query": "{viewer{login}}"})["data"]["viewer"]["login"]


def comments_of(environment: Mapping[str, str]) -> Comments | None:
    """Return the comments of the request that a job of GitHub or GitLab is for, by its variables."""
    pull = re.fullmatch(r"refs/pull/(\d+)/\w+", environment.get("GITHUB_REF", ""))
    if pull:
        api, graphql = environment["GITHUB_API_URL"], environment["GITHUB_GRAPHQL_URL"]
        issues = f"{api}/repos/{environment['GITHUB_REPOSITORY']}/issues"
        headers = {"Authorization": f"Bearer {environment.get('GITHUB_TOKEN', '')}"}
        listed, changed = f"{issues}/{pull[1]}/comments", f"{issues}/comments"
        return GitHubComments(api, listed, changed, "PATCH", ("user", "login"), headers, graphql)
    if merge := environment.get("CI_MERGE_REQUEST_IID"):
        api = environment["CI_API_V4_URL"]
        notes = f"{api}/projects/{environment['CI_PROJECT_ID']}/merge_requests/{merge}/notes"
        headers = {"PRIVATE-TOKEN": environment.get("GITLAB_TOKEN", "")}
        return Comments(api, notes, notes, "PUT", ("author", "id"), headers)
    return None


def write_comment(name: str, text: str, environment: Mapping[str, str]) -> str:
    """Write the comment; return a sentence where it was not written."""
    comments = comments_of(environment)
    if comments is None:
        return "no comment is written: this job is not for a pull request or merge request"
    try:
        comments.write(name, text)
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"the comment could not be written: {error}"
    return ""


def write_report(text: str, checkout: str, summary: str) -> None:
    """Append the answer to the summary of a job of GitHub; print it in one of GitLab, and write its artifact.

    GitHub obeys what is printed: a line that begins with two colons is a command.
    """
    if summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(text)
        return
    print(text, end="", flush=True)
    path = Path(checkout, REPORT)
    if path.is_dir() and not path.is_symlink():
        print(
            f"error: {REPORT}: the checkout has a folder of this name, so there is no report", file=sys.stderr
        )
        return
    path.unlink(missing_ok=True)  # the checkout may have a link of this name
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def main(environment: Mapping[str, str]) -> int:
    """Run the check, report its answer, and return its exit code."""
    checkout = environment.get("GITHUB_WORKSPACE") or environment["CI_PROJECT_DIR"]
    files = [os.path.join(checkout, environment[name]) for name in ("CLUSTER", "MANIFESTS")]
    try:
        options = shlex.split(environment.get("OPTIONS", ""))
    except ValueError as error:
        print(f"error: OPTIONS: {error}", file=sys.stderr)
        return 2
    with redirect_stdout(StringIO()) as printed:
        verdict = moorage(["check", "-f", files[0], "-f", files[1], *options, "-o", "markdown"])
    if verdict > 1:
        return verdict
    text = printed.getvalue()
    write_report(text, checkout, environment.get("GITHUB_STEP_SUMMARY", ""))
    is_wanted = environment.get("COMMENT", "true") == "true"
    if is_wanted and (why := write_comment(environment["NAME"], text, environment)):
        print(f"warning: {why}", file=sys.stderr)
    return verdict


if __name__ == "__main__":
    sys.exit(main(os.environ))
