"""Documents of explanations as JSON values."""

from __future__ import annotations

from typing import Any

from tests.doors import answers

from moorage import Explanation


def document(explanation: Explanation, limit: int | None = 10, **options: Any) -> dict[str, Any]:
    return answers.document(explanation, limit, **options).to_dict()
