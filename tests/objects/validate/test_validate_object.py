"""An error of validation names its object and field; long texts are cut in the middle."""

from __future__ import annotations

import pytest

from moorage.errors import InputError, shorten
from moorage.kube import ObjectMeta, Pod, validate


def test_error_names_object_and_field() -> None:
    with pytest.raises(InputError) as caught:
        validate(Pod(metadata=ObjectMeta(name="p", namespace="dev")))
    error = caught.value
    assert (error.source, error.obj, error.path) == ("", "Pod dev/p", "spec.containers")


@pytest.mark.parametrize("length", [0, 1, 239, 240, 241, 10**6])
def test_a_long_text_keeps_its_ends(length: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    short = shorten(text)
    assert len(short) <= 240
    assert (short == text) == (length <= 240)
    assert short[:100] == text[:100]
    assert short[-50:] == text[-50:]
