"""The package says everything by the names of upstream's persistentvolume, in the field's spelling."""

from __future__ import annotations

from inspect import Parameter, signature

import pytest
from tests.doors.controllers import (
    InMemoryProvisioner,
    PersistentVolumeController,
    RecyclableVolumePlugin,
    persistent_volume,
)
from tests.doors.engine import metrics

import moorage.compat
import moorage.engine.volume
from moorage.compat import (
    CachingVolumeBinder,
    ControllerParameters,
    FakeVolumeBinder,
    FakeVolumeBinderConfig,
    PodBindingCache,
    SchedulerVolumeBinder,
)
from moorage.engine.volume import AssumeCache, PVAssumeCache, PVCAssumeCache

BY_KEYWORD = Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("get_bind_volume_to_claim", "volume claim"),
        ("is_delay_binding_mode", "claim class_lister"),
        ("is_volume_bound_to_claim", "volume claim"),
        ("new_assume_cache", "informer description index_name index_func"),
        ("new_pv_assume_cache", "informer"),
        ("new_pvc_assume_cache", "informer"),
        ("new_pod_binding_cache", ""),
        ("new_fake_volume_binder", "config"),
        ("new_controller", "parameters"),
        ("register_volume_scheduling_metrics", ""),
        (
            "new_volume_binder",
            "client node_informer pvc_informer pv_informer storage_class_informer bind_timeout",
        ),
    ],
)
def test_functions_have_the_parameters_of_upstreams(function: str, parameters: str) -> None:
    """What can be given by keyword only is no part of upstream's calls, and may be left out."""
    rooms = (moorage.engine.volume, metrics, moorage.compat, persistent_volume)
    room = next(room for room in rooms if hasattr(room, function))
    found = signature(getattr(room, function)).parameters.values()
    assert [one.name for one in found if one.kind not in BY_KEYWORD] == parameters.split()
    assert all(one.default is not Parameter.empty for one in found if one.kind is Parameter.KEYWORD_ONLY)


BINDER = "find_pod_volumes 2 assume_pod_volumes 2 bind_pod_volumes 1 get_bindings_cache 0"


@pytest.mark.parametrize(
    ("of", "methods"),
    [
        (AssumeCache, "assume 1 restore 1 get 1 get_api_obj 1 list 1"),
        (PVAssumeCache, "get_pv 1 get_api_pv 1 list_pvs 1 assume 1 restore 1"),
        (PVCAssumeCache, "get_pvc 1 get_api_pvc 1 assume 1 restore 1"),
        (PodBindingCache, "update_bindings 4 clear_bindings 2 get_bindings 2 get_provisioned_pvcs 2"),
        (PodBindingCache, "get_decisions 1 delete_bindings 1"),
        *[(of, BINDER) for of in (SchedulerVolumeBinder, CachingVolumeBinder, FakeVolumeBinder)],
        (PersistentVolumeController, "run 1"),
    ],
)
def test_methods_take_as_many_arguments_as_upstreams(of: type, methods: str) -> None:
    """Each with so many arguments."""
    words = methods.split()
    for name, arguments in zip(words[::2], words[1::2], strict=True):
        assert len(signature(getattr(of, name)).parameters) == 1 + int(arguments)


@pytest.mark.parametrize(
    ("of", "parameters"),
    [
        (
            ControllerParameters,
            "kube_client sync_period volume_plugins cluster_name volume_informer claim_informer "
            "class_informer pod_informer node_informer event_recorder enable_dynamic_provisioning",
        ),
        (
            FakeVolumeBinderConfig,
            "all_bound find_unbound_satisfied find_bound_satisfied find_err assume_err bind_err",
        ),
    ],
)
def test_what_a_controller_and_a_fake_are_made_of(of: type, parameters: str) -> None:
    assert set(signature(of).parameters) == {*parameters.split()}


def test_a_plugin_in_memory_recycles() -> None:
    assert isinstance(InMemoryProvisioner("p"), RecyclableVolumePlugin)


def test_parameters_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        ControllerParameters(None)  # type: ignore[misc, call-arg, arg-type]
