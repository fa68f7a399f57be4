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
from moorage.objects import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store import InformerFactory, ObjectStore
from moorage.volume import VolumeError


def test_it_answers_what_it_is_told() -> None:
    config = FakeVolumeBinderConfig(all_bound=True, find_unbound_satisfied=True)
    fake = new_fake_volume_binder(config)
    assert fake.find_pod_volumes(pod(), NODE1) == (True, False)
    assert (fake.assume_called, fake.bind_called) == (False, False)
    assert fake.assume_pod_volumes(pod(), "node1")
    assert (fake.assume_called, fake.bind_called) == (True, False)
    fake.bind_pod_volumes(pod())
    assert fake.bind_called
    binder: SchedulerVolumeBinder = fake
    assert binder.get_bindings_cache() is None
    config.all_bound = False
    assert not fake.assume_pod_volumes(pod(), "node1")


def test_it_fails_as_it_is_told_and_notes_the_call() -> None:
    config = FakeVolumeBinderConfig(
        find_err=VolumeError("find"), assume_err=VolumeError("assume"), bind_err=VolumeError("bind")
    )
    fake = new_fake_volume_binder(config)
    with pytest.raises(VolumeError, match="find"):
        fake.find_pod_volumes(pod(), NODE1)
    with pytest.raises(VolumeError, match="assume"):
        fake.assume_pod_volumes(pod(), "node1")
    with pytest.raises(VolumeError, match="bind"):
        fake.bind_pod_volumes(pod())
    assert fake.assume_called
    assert fake.bind_called


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
