"""What a file is that is given as a KubeSchedulerConfiguration and is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from moorage.errors import InputError

_OTHER_KIND = re.compile(r'no kind "(.*)" is registered for version "(.*)" in scheme ".*"')
_WITHOUT_KIND = "Object 'Kind' is missing in "


@contextmanager
def naming_other_kinds() -> Iterator[None]:
    """Say of a file that is no KubeSchedulerConfiguration what it is, where kube-scheduler names the place in
    its source that has no such kind.

    Raises
    ------
    InputError
    """
    try:
        yield
    except InputError as error:
        other = _OTHER_KIND.fullmatch(error.message)
        if other is None and not error.message.startswith(_WITHOUT_KIND):
            raise
        what = "no kind" if other is None else f"a {other[1]} of {other[2]}"
        expected = "expected a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"
        raise InputError(f"{what}; {expected}", source=error.source) from None
