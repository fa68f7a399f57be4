"""The soak: eight threads, each with its rounds, and a failure that is told."""

from __future__ import annotations

from tests.campaign.soak import soak, workers


def test_each_thread_does_its_rounds() -> None:
    done, found = soak(workers(1), 0, least=3)
    assert not found
    assert len(done) == 8
    assert min(done.values()) >= 3


def test_what_one_thread_finds_ends_the_others() -> None:
    def broken() -> None:
        raise AssertionError("not what it was")

    done, found = soak({"good": lambda: None, "bad": broken}, 3600)
    assert len(found) == 1
    assert found[0].startswith("bad, round 0: ")
    assert "not what it was" in found[0]
    assert not done["bad"]
