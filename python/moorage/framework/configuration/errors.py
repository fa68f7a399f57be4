"""The one exception of this package."""

from __future__ import annotations

from typing import Literal

from moorage.errors import InputError

Stage = Literal["load", "validate", "new"]


class ConfigurationError(InputError):
    """A configuration that kube-scheduler v1.36 refuses.

    Attributes
    ----------
    stage : {"load", "validate", "new"}
        Decoding and defaulting; validation of the whole configuration; building the scheduler.
    message : str
        Upstream's text. It names the fields, except for durations: there `path` does.
    """

    def __init__(self, stage: Stage, message: str, *, source: str = "", path: str = "") -> None:
        self.stage = stage
        super().__init__(message, source=source, path=path)
