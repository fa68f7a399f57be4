"""Provisioning of volumes for claims without a matching volume (pv_controller.go, provisionClaim)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

from msgspec.structs import replace

from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store.errors import AlreadyExistsError, ApiError, NotFoundError
from moorage.volume.binding.claims import (
    VolumeError,
    claim_class,
    get_bind_volume_to_claim,
    with_annotations,
)
from moorage.volume.constants import (
    BETA_STORAGE_PROVISIONER,
    BOUND_BY_CONTROLLER,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    MIGRATED_TO,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    YES,
)

from . import controller_events as events
from .controller_reclaim import delete_real_volume
from .controller_state import IN_TREE, ControllerState
from .operations import logger
from .provisioning import ProvisionableVolumePlugin, VolumeOptions

CREATE_ATTEMPTS = 5
CREATE_INTERVAL = 10.0  # seconds


def provision_claim(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """Start to provision a volume for a claim, or request it from an external provisioner, unless that is in
    progress. Errors are reported as events, and the next sync tries again."""
    if not state.parameters.enable_dynamic_provisioning:
        return
    try:
        its_class = state.parameters.class_informer.lister.get(claim_class(claim))
        plugin = _plugin(state, its_class.provisioner)
    except (NotFoundError, VolumeError) as error:
        state.writes.event(claim, events.WARNING, events.PROVISIONING_FAILED, str(error))
        return

    def work() -> Iterator[float]:
        maker = state.migrated_plugins.get(its_class.provisioner, its_class.provisioner)
        state.times.begin(claim.key, maker, "provision")
        with state.times.counting_failures(claim.key):
            if plugin is None:
                _ask_for(state, claim, its_class.provisioner)
            else:
                yield from _provision(state, claim, plugin, its_class)

    state.operations.run(f"provision-{claim.key}[{claim.metadata.uid}]", work)


def _plugin(state: ControllerState, provisioner: str) -> ProvisionableVolumePlugin | None:
    """The plugin that provisions volumes of a class; None for an external provisioner."""
    if provisioner in state.migrated_plugins:
        return None
    try:
        return state.plugins.provisionable(provisioner)
    except VolumeError:
        if provisioner.startswith(IN_TREE):
            raise
        return None


def _ask_for(state: ControllerState, claim: PersistentVolumeClaim, provisioner: str) -> None:
    """Annotate a claim with its external provisioner."""
    driver = state.migrated_plugins.get(provisioner, provisioner)
    marks = {MIGRATED_TO: driver} if driver != provisioner else {}
    claim = _with_provisioner(state, claim, driver, marks)
    message = (
        "waiting for a volume to be created, either by external provisioner "
        f'"{driver}" or manually created by system administrator'
    )
    state.writes.event(claim, events.NORMAL, events.EXTERNAL_PROVISIONING, message)


def _with_provisioner(
    state: ControllerState, claim: PersistentVolumeClaim, name: str, marks: dict[str, str]
) -> PersistentVolumeClaim:
    marks = {BETA_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name, **marks}
    return state.writes.claim(claim, with_annotations(claim, marks))


def _provision(
    state: ControllerState,
    claim: PersistentVolumeClaim,
    plugin: ProvisionableVolumePlugin,
    its_class: StorageClass,
) -> Iterator[float]:
    """Provision the volume of a claim; the next sync binds it."""
    claim = _with_provisioner(state, claim, plugin.name, {})
    name = f"pvc-{claim.metadata.uid}"
    try:
        state.parameters.kube_client.get(PersistentVolume, name)
    except NotFoundError:
        pass
    else:
        return  # an earlier operation made it
    volume = _make(state, claim, plugin, its_class, name)
    volume, _ = get_bind_volume_to_claim(volume, claim)
    volume = replace(
        with_annotations(volume, {BOUND_BY_CONTROLLER: YES, PROVISIONED_BY: plugin.name}),
        spec=replace(volume.spec, storage_class_name=claim_class(claim)),
        status=replace(volume.status, phase="Bound"),
    )
    error = yield from _attempts(lambda: _create(state, volume))
    if error is None:
        message = f"Successfully provisioned volume {volume.name} using {plugin.name}"
        state.writes.event(claim, events.NORMAL, events.PROVISIONING_SUCCEEDED, message)
        return
    message = f"Error creating provisioned PV object for claim {claim.key}: {error}. Deleting the volume."
    state.writes.event(claim, events.WARNING, events.PROVISIONING_FAILED, message)
    error = yield from _attempts(lambda: delete_real_volume(state, volume))
    if error is not None:
        message = f"Error cleaning provisioned volume for claim {claim.key}: {error}. Please delete manually."
        state.writes.event(claim, events.WARNING, events.PROVISIONING_CLEANUP_FAILED, message)


def _make(
    state: ControllerState,
    claim: PersistentVolumeClaim,
    plugin: ProvisionableVolumePlugin,
    its_class: StorageClass,
    name: str,
) -> PersistentVolume:
    """Provision a volume by a plugin. Errors are reported as events; if provisioning itself failed, the claim
    loses its selected node, so that the scheduler chooses again."""
    options = _options(state, claim, its_class, name)
    if options.mount_options and not plugin.supports_mount_option():
        shown = f"[{' '.join(options.mount_options)}]"
        raise _reported(
            state,
            claim,
            f'Mount options are not supported by the provisioner but StorageClass "{its_class.name}" has '
            f"mount options {shown}",
        )
    try:
        provisioner = plugin.new_provisioner(options)
    except Exception as error:
        raise _reported(state, claim, f"Failed to create provisioner: {error}") from error
    node, selected = None, claim.metadata.annotations.get(SELECTED_NODE)
    if selected is not None:
        try:
            node = state.parameters.node_informer.lister.get(selected)
        except NotFoundError as error:
            raise _reported(state, claim, f"Failed to get target node: {error}") from error
    try:
        made = provisioner.provision(node, its_class.allowed_topologies)
    except Exception as error:
        _reschedule(state, claim)
        text = f'Failed to provision volume with StorageClass "{its_class.name}": {error}'
        raise _reported(state, claim, text) from error
    return replace(made, metadata=replace(made.metadata, name=made.name or name))


def _options(
    state: ControllerState, claim: PersistentVolumeClaim, its_class: StorageClass, name: str
) -> VolumeOptions:
    return VolumeOptions(
        pv_name=name,
        pvc=claim,
        persistent_volume_reclaim_policy=its_class.reclaim_policy or "Delete",
        mount_options=its_class.mount_options,
        parameters=its_class.parameters,
        cluster_name=state.parameters.cluster_name,
        cloud_tags={
            CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG: claim.namespace,
            CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG: claim.name,
            CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG: name,
        },
    )


def _reported(state: ControllerState, claim: PersistentVolumeClaim, text: str) -> VolumeError:
    """Report the failure of an operation; returns it as an error."""
    state.writes.event(claim, events.WARNING, events.PROVISIONING_FAILED, text)
    return VolumeError(text)


def _reschedule(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    meta = claim.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key != SELECTED_NODE}
    try:
        state.writes.claim(claim, replace(claim, metadata=replace(meta, annotations=annotations)))
    except ApiError as error:  # the failure to be told of is that of the plugin
        logger.info("Failed to delete annotation %r for claim %s: %s", SELECTED_NODE, claim.key, error)


def _create(state: ControllerState, volume: PersistentVolume) -> None:
    with suppress(AlreadyExistsError):  # made by an attempt whose answer was lost
        state.volumes.store(state.parameters.kube_client.create(volume))


def _attempts(attempt: Callable[[], object]) -> Generator[float, None, Exception | None]:
    """Repeat an attempt until it succeeds; returns the last error, or None."""
    error: Exception | None = None
    for number in range(CREATE_ATTEMPTS):
        if number:
            yield CREATE_INTERVAL
        try:
            attempt()
        except Exception as failure:
            error = failure
        else:
            return None
    return error
