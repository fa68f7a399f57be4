"""The binder that answers what it is told."""

from __future__ import annotations

import pytest
from tests.volume.binding.binder_kit import NODE1, pod

from moorage.compat import (
    FakeVolumeBinderConfig,
    SchedulerVolumeBinder,
    new_fake_volume_binder,
    new_volume_binder,
)
from moorage.engine.volume import VolumeError
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store import InformerFactory, ObjectStore


def test_it_answers_what_it_is_told_and_notes_the_calls() -> None:
    config = FakeVolumeBinderConfig(all_bound=True, find_unbound_satisfied=True)
    fake = new_fake_volume_binder(config)
    binder: SchedulerVolumeBinder = fake
    assert (binder.find_pod_volumes(pod(), NODE1), binder.get_bindings_cache()) == ((True, False), None)
    for all_bound in (True, False):
        config.all_bound = all_bound
        assert (fake.assume_called, fake.bind_called) == (not all_bound, not all_bound)
        assert fake.assume_pod_volumes(pod(), "node1") == all_bound
        assert (fake.assume_called, fake.bind_called) == (True, not all_bound)
        fake.bind_pod_volumes(pod())
    assert fake.bind_called


def test_it_fails_as_it_is_told_and_notes_the_call() -> None:
    errors = {name: VolumeError(name) for name in ("find_err", "assume_err", "bind_err")}
    fake = new_fake_volume_binder(FakeVolumeBinderConfig(**errors))
    calls = (
        lambda: fake.find_pod_volumes(pod(), NODE1),
        lambda: fake.assume_pod_volumes(pod(), "node1"),
        lambda: fake.bind_pod_volumes(pod()),
    )
    for call, error in zip(calls, errors, strict=True):
        with pytest.raises(VolumeError, match=error):
            call()
    assert (fake.assume_called, fake.bind_called) == (True, True)


def test_real_ones_have_decisions_of_their_own() -> None:
    informers = InformerFactory(ObjectStore())

    def make() -> SchedulerVolumeBinder:
        return new_volume_binder(
            ObjectStore(),
            informers.informer(Node),
            informers.informer(PersistentVolumeClaim),
            informers.informer(PersistentVolume),
            informers.informer(StorageClass),
            10.0,
        )

    assert make().get_bindings_cache() is not make().get_bindings_cache()
