"""What tests need of the inside of engine."""

# Allocations that fail one after the other.
from moorage._core.base import buffers as buffers

# Buffers, the journal and the change log: growth, and what a rollback takes back.
from moorage._core.base.buffers import Buffer as Buffer
from moorage._core.base.buffers import Journal as Journal
from moorage._core.base.change_log import ChangeLog as ChangeLog
from moorage._core.base.change_log import Kind as Kind

# What is asked about once, and which values are shared; how a group is evicted.
from moorage._core.base.fields import FieldRules as FieldRules
from moorage._core.base.fields import SpecMemo as SpecMemo
from moorage._core.base.fields import SpecRule as SpecRule
from moorage._core.base.fields import disrupted_whole as disrupted_whole

# Arrays that the sort refuses.
from moorage._core.base.go_sort import sort_order as sort_order

# Objects of an informer, compared with dicts; their undo and their copies.
from moorage._core.base.indexed_objects import IndexedObjects as IndexedObjects
from moorage._core.base.indexed_objects import Mark as Mark
from moorage._core.base.indexed_objects import Reader as Reader
from moorage._core.base.indexed_objects import of_dependents as of_dependents

# The texts of errors.
from moorage._core.base.label_syntax import requirement_error as requirement_error
from moorage._core.base.label_syntax import requirement_errors as requirement_errors

# Effective requests of a pod, under each gate.
from moorage._core.base.resources import PodGates as PodGates
from moorage._core.base.resources import pod_requests as pod_requests

# Rules of matching, one by one, and as parts of twins.
from moorage._core.base.selectors import field_requirement_error as field_requirement_error
from moorage._core.base.selectors import pod_matches_node_selector as pod_matches_node_selector
from moorage._core.base.selectors import tolerates as tolerates

# Interned sets, strings and symbols, compared with dicts; and what forks may share of them.
from moorage._core.base.string_index import StringIndex as StringIndex
from moorage._core.base.symbols import Symbols as Symbols

# Events and maps that make their objects late, compared with dicts; events that lossy watches give.
from moorage._core.base.watch_events import Cause as Cause
from moorage._core.base.watch_events import Notice as Notice
from moorage._core.base.watch_events import ObjectMap as ObjectMap

# Undo, where each allocation fails in turn.
from moorage._core.binder.running_pods import RunningPods as RunningPods

# Limits are lowered, and operations on many pods are compared with those on one; demands of volumes.
from moorage._core.decide import bulk_operations as bulk_operations
from moorage._core.decide import terms as terms

# Parts of a decision, compared with twins and with the way pod by pod.
from moorage._core.decide.batch_rows import BoundSink as BoundSink
from moorage._core.decide.batch_rows import LedgerSink as LedgerSink
from moorage._core.decide.batch_rows import Placements as Placements
from moorage._core.decide.batch_rows import Sink as Sink

# What is kept of classes, and how much of it.
from moorage._core.decide.class_state import ClassState as ClassState
from moorage._core.decide.class_state import ClassStates as ClassStates

# Copies of a pod, compared with as many pods; the undo of it.
from moorage._core.decide.copies import account_copies as account_copies
from moorage._core.decide.copies import filters_rows_alone as filters_rows_alone

# Parts of a decision, compared with twins.
from moorage._core.decide.decider import TieBreak as TieBreak
from moorage._core.decide.decider import count_verdicts as count_verdicts
from moorage._core.decide.decider import group_by_verdict as group_by_verdict
from moorage._core.decide.decider import most_allocated as most_allocated

# Plugins in a plan that are no kernels, by themselves.
from moorage._core.decide.external import PythonExternal as PythonExternal

# The core's loop, without a scheduler around it.
from moorage._core.decide.placer import Placer as Placer
from moorage._core.decide.plan import REASONS as REASONS
from moorage._core.decide.plan import UNRESOLVABLE as UNRESOLVABLE
from moorage._core.decide.plan import VERDICT_SHIFT as VERDICT_SHIFT

# The bits of verdicts.
from moorage._core.decide.plan import Plan as Plan

# Runs of equal pods; routes are forced, to compare two ways that have to decide alike.
from moorage._core.decide.pod_batch import PodBatch as PodBatch
from moorage._core.decide.pod_batch import Route as Route
from moorage._core.decide.pod_batch import Routes as Routes

# A heap, compared with Go's and with a stable sort.
from moorage._core.decide.scored_nodes import ScoredNodes as ScoredNodes

# Claims of equal pods, which are asked about once; the error of a write.
from moorage._core.devices.claims_of_pods import ClaimWriteError as ClaimWriteError
from moorage._core.devices.claims_of_pods import RepeatedClaims as RepeatedClaims
from moorage._core.devices.claims_of_pods import reserved as reserved
from moorage._core.devices.device_search import DeviceSearch as DeviceSearch
from moorage._core.devices.device_search import Wanted as Wanted

# Shares of GPUs, compared with a twin; limits.
from moorage._core.devices.gpu_shares import BEST_FIT as BEST_FIT
from moorage._core.devices.gpu_shares import MAX_GPUS as MAX_GPUS
from moorage._core.devices.gpu_shares import MAX_MODELS as MAX_MODELS
from moorage._core.devices.gpu_shares import RANDOM as RANDOM
from moorage._core.devices.gpu_shares import WORST_FIT as WORST_FIT
from moorage._core.devices.gpu_shares import GpuShares as GpuShares

# Dry runs, compared with a twin that looks at objects.
from moorage._core.preempt.dry_runs import DryRuns as DryRuns

# Orders, compared with upstream's and with Go's sort.
from moorage._core.preempt.importance import order_as_upstream as order_as_upstream

# Units that leave a row, and come back exactly.
from moorage._core.preempt.lower_units import LowerUnits as LowerUnits

# Runs of preemptors, compared with a twin without memory.
from moorage._core.preempt.preemptor import Preemptor as Preemptor

# Parts of the queue, compared with lists that are searched; a limit is lowered.
from moorage._core.queue import unschedulable_pods as unschedulable_pods
from moorage._core.queue.backoff_queue import BackoffQueue as BackoffQueue
from moorage._core.queue.entrance import CreationClock as CreationClock
from moorage._core.queue.in_flight import pods_of as pods_of
from moorage._core.queue.queued_pods import Strategy as Strategy

# Columns that are read beside a thread that adds rows.
from moorage._core.state import node_table as node_table

# The state by itself, compared with its twin; its undo, its errors, allocations that fail.
from moorage._core.state.cluster_state import ClusterState as ClusterState

# What pods of one template share, and what forks may share of it.
from moorage._core.state.pod_class import Shape as Shape

# Bound pods as tests and twins need them; specs that have to be read once.
from moorage._core.state.pod_spec import bound as bound
from moorage._core.state.pod_spec import spec_key as spec_key
from moorage._core.state.pod_spec import uses_volumes as uses_volumes

# The zone of a node, for the twin of the state.
from moorage._core.state.zone_tree import zone_key as zone_key

# The time of an allocation is shortened to one that a test can reach.
from moorage.engine.devices import allocator as allocator

# Calls of a hint are counted: one for each class of pods.
from moorage.engine.devices import claim_cache as claim_cache

# Conditions of a claim, one by one.
from moorage.engine.devices.allocated_devices import BindingError as BindingError

# The search for devices on one node after the other, with its errors and texts.
from moorage.engine.devices.allocated_devices import allocation_of as allocation_of
from moorage.engine.devices.allocated_devices import is_overdue as is_overdue
from moorage.engine.devices.allocated_devices import is_ready as is_ready
from moorage.engine.devices.allocator import AllocatedDevices as AllocatedDevices
from moorage.engine.devices.allocator import AllocationRules as AllocationRules
from moorage.engine.devices.allocator import ClaimResult as ClaimResult
from moorage.engine.devices.allocator import claim_results as claim_results

# Undo of the cache.
from moorage.engine.devices.claim_cache import ClaimCache as ClaimCache
from moorage.engine.devices.claim_requests import AllocationError as AllocationError
from moorage.engine.devices.claim_requests import ClaimRequests as ClaimRequests

# What each gate about devices switches off.
from moorage.engine.devices.claim_requests import Features as Features
from moorage.engine.devices.claim_requests import PoolsInvalidError as PoolsInvalidError
from moorage.engine.devices.claim_requests import SelectorError as SelectorError

# Writes that fail: how often they are tried, and the texts.
from moorage.engine.devices.claim_writer import ClaimWriter as ClaimWriter

# Claims of equal pods, without a scheduler around them.
from moorage.engine.devices.device_demands import AskingClaim as AskingClaim

# Devices of slices, as expressions see them.
from moorage.engine.devices.device_pools import PublishedSlice as PublishedSlice
from moorage.engine.devices.device_pools import SliceKinds as SliceKinds
from moorage.engine.devices.device_selector import CompiledSelector as CompiledSelector
from moorage.engine.devices.device_selector import compile_selector as compile_selector
from moorage.engine.devices.device_selector import device_value as device_value

# Counts of devices, compared with a recomputation.
from moorage.engine.devices.extended_resources import DeviceCounts as DeviceCounts

# Which class provides a resource, and the claim that is made of it.
from moorage.engine.devices.extended_resources import ExtendedRequestsOfPods as ExtendedRequestsOfPods
from moorage.engine.devices.extended_resources import claim_spec as claim_spec
from moorage.engine.devices.resource_classes import ResourceClasses as ResourceClasses
from moorage.engine.extenders import extender_wire as extender_wire
from moorage.engine.extenders import http_extender as http_extender

# A client by itself: what it sends, which answers it refuses, TLS.
from moorage.engine.extenders.http_extender import HTTPExtender as HTTPExtender
from moorage.engine.extenders.http_extender import make_extenders as make_extenders

# Interfaces of today, beside earlier ones; kinds of events, gone through.
from moorage.engine.framework import handle as handle
from moorage.engine.framework import interface as interface

# Which nodes a selector selects, for all at once and one by one.
from moorage.engine.framework import node_masks as node_masks
from moorage.engine.framework.claim_plugins import ClaimPlugin as ClaimPlugin
from moorage.engine.framework.claim_plugins import ClaimsOfBatch as ClaimsOfBatch
from moorage.engine.framework.configuration import POINTS as POINTS

# Loading step by step, with upstream's texts; parts of an effective configuration.
from moorage.engine.framework.configuration import build_extenders as build_extenders
from moorage.engine.framework.configuration import build_profiles as build_profiles
from moorage.engine.framework.configuration import effective as effective

# Loading step by step, with upstream's texts.
from moorage.engine.framework.configuration.loading import load_configuration as load_configuration

# Events by which tests move pods, and hints that are called once for a class.
from moorage.engine.framework.events import NODE_ADD as NODE_ADD
from moorage.engine.framework.events import PodEvents as PodEvents
from moorage.engine.framework.events import index_of as index_of
from moorage.engine.framework.events import indexed as indexed
from moorage.engine.framework.events import node_update_events as node_update_events
from moorage.engine.framework.events import of_class as of_class
from moorage.engine.framework.events import on as on
from moorage.engine.framework.events import pod_labels as pod_labels
from moorage.engine.framework.events import queue_if as queue_if

# The order in which PreBind plugins run side by side.
from moorage.engine.framework.extension_points import pre_bind_groups as pre_bind_groups

# Trees of groups that a test makes; what an index forgets.
from moorage.engine.framework.group_index import GroupTree as GroupTree
from moorage.engine.framework.group_index import PodGroups as PodGroups

# What forks may share, as it has no state.
from moorage.engine.framework.handle import AT_ONCE as AT_ONCE

# Extenders that tests write, and the victims that they are told.
from moorage.engine.framework.handle import Parallelizer as Parallelizer

# Which plugins the core runs; plugins of this kind that tests write.
from moorage.engine.framework.in_tree_plugins import NativePlugin as NativePlugin

# What each plugin says of a pod in its signature.
from moorage.engine.framework.in_tree_plugins import gates_by_group as gates_by_group
from moorage.engine.framework.in_tree_plugins import gates_only_with as gates_only_with

# Columns of two sources, which have to be alike.
from moorage.engine.framework.nodes_view import CycleColumns as CycleColumns

# Plugins behind the C ABI that tests compile or make of bytes.
from moorage.engine.framework.out_of_tree_plugins import from_address as from_address
from moorage.engine.framework.out_of_tree_plugins import from_capsule as from_capsule
from moorage.engine.framework.out_of_tree_plugins import include_dir as include_dir

# Profiles that are refused, with their texts.
from moorage.engine.framework.plugin_registry import check_profiles as check_profiles
from moorage.engine.framework.plugin_registry import make_profiles as make_profiles

# The bridge to plugins outside the core, node by node.
from moorage.engine.framework.search_calls import SearchCalls as SearchCalls

# Locks and threads; pods whose binding is held up.
from moorage.engine.framework.waiting_pods import PodInPreBind as PodInPreBind
from moorage.engine.framework.waiting_pods import WaitingPods as WaitingPods

# A plugin's steps, taken without a scheduler.
from moorage.engine.framework.waiting_pods import take_all as take_all

# Plugins that tests call, order, replace or leave out.
from moorage.engine.plugins.inter_pod_affinity import InterPodAffinity as InterPodAffinity

# The taint of a cordon.
from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE as UNSCHEDULABLE
from moorage.engine.plugins.node_resources import NodeResourcesFit as NodeResourcesFit

# All plugins, gone through; configurations that are read with them.
from moorage.engine.plugins.registry import IN_TREE as IN_TREE
from moorage.engine.plugins.registry import IN_TREE_CLASSES as IN_TREE_CLASSES
from moorage.engine.plugins.registry import in_tree as in_tree
from moorage.engine.plugins.registry import in_tree_registry as in_tree_registry
from moorage.engine.plugins.registry import read_configuration as read_configuration

# How well volumes are used, number by number.
from moorage.engine.plugins.volume_binding import StorageScore as StorageScore
from moorage.engine.plugins.volume_binding import VolumeBinding as VolumeBinding
from moorage.engine.plugins.volume_binding import sources_of as sources_of

# Steps of preemption, one by one, with upstream's texts.
from moorage.engine.preemption.actuation import clear_nominated_node_name as clear_nominated_node_name
from moorage.engine.preemption.actuation import evict_victims as evict_victims
from moorage.engine.preemption.actuation import make_room as make_room
from moorage.engine.preemption.dry_run import PreemptionDryRuns as PreemptionDryRuns
from moorage.engine.preemption.evaluator import call_extenders as call_extenders
from moorage.engine.preemption.eviction_units import Unit as Unit
from moorage.engine.preemption.eviction_units import groups_of as groups_of
from moorage.engine.preemption.eviction_units import num_candidates as num_candidates
from moorage.engine.preemption.eviction_units import units_by_importance as units_by_importance
from moorage.engine.preemption.eviction_units import violations as violations

# Preemptions that are held up, and when they are tried again.
from moorage.engine.preemption.running_preemptions import RETRY as RETRY
from moorage.engine.preemption.running_preemptions import RunningPreemptions as RunningPreemptions

# Limits are lowered; placements that are tried are noted.
from moorage.engine.scheduler import group_attempt as group_attempt
from moorage.engine.scheduler import group_batch as group_batch

# Limits are lowered, a clock is replaced, and what must not be made is counted or refused.
from moorage.engine.scheduler import loop as loop
from moorage.engine.scheduler import schedule_pods as schedule_pods
from moorage.engine.scheduler import scheduler_metrics as scheduler_metrics
from moorage.engine.scheduler import scheduler_state as scheduler_state

# Single cycles are replaced by errors, to see that they are not needed.
from moorage.engine.scheduler.cycle import cycle as cycle

# Steps of a cycle, one by one, as vectors have them; threads for bindings.
from moorage.engine.scheduler.cycle.binding_cycle import Started as Started
from moorage.engine.scheduler.cycle.cycle import binding_cycle as binding_cycle
from moorage.engine.scheduler.cycle.cycle import prepare_for_binding_cycle as prepare_for_binding_cycle
from moorage.engine.scheduler.cycle.cycle import resume_binding_cycles as resume_binding_cycles
from moorage.engine.scheduler.cycle.cycle import schedule_pod as schedule_pod

# Which engine has its turn, as vectors say it.
from moorage.engine.scheduler.cycle.engine import Rotation as Rotation

# Scores of extenders are noted for vectors.
from moorage.engine.scheduler.cycle.extended_search import ExtendedSearch as ExtendedSearch

# Patches of a pod's status, one by one.
from moorage.engine.scheduler.cycle.status_writes import StatusPatch as StatusPatch
from moorage.engine.scheduler.cycle.status_writes import not_scheduled as not_scheduled

# Patches of a group's status, one by one.
from moorage.engine.scheduler.cycle.status_writes import patch_groups as patch_groups
from moorage.engine.scheduler.cycle.status_writes import patch_pod as patch_pod

# Handlers are called one by one, and their calls are noted.
from moorage.engine.scheduler.event_handlers import NodeHandler as NodeHandler

# What is remembered of placements, and what makes it void.
from moorage.engine.scheduler.group_members import MOST_CHAINS as MOST_CHAINS
from moorage.engine.scheduler.group_members import MOST_PLACEMENTS as MOST_PLACEMENTS

# One group is placed without the queue, and compared with cycles of single pods.
from moorage.engine.scheduler.group_members import PlacementMemory as PlacementMemory

# Single steps of a run, interrupted or compared with twins.
from moorage.engine.scheduler.loop import Loop as Loop
from moorage.engine.scheduler.loop import Policy as Policy

# The clock of a cluster's own store.
from moorage.engine.scheduler.place import Placing as Placing

# One step of a hinted run, and its cycles, which are noted.
from moorage.engine.scheduler.place import place_listed as place_listed
from moorage.engine.scheduler.place_group import place_group as place_group

# Single cycles and replicas, with which runs of pods are compared.
from moorage.engine.scheduler.schedule_pods import schedule_one as schedule_one

# Metrics go to a registry of the test.
from moorage.engine.volume import metrics as metrics

# Which nodes volumes reach, all at once and one by one.
from moorage.engine.volume import volume_topology as volume_topology

# Matching of claims and volumes, with upstream's tables, and by a search through all volumes.
from moorage.engine.volume.claims import ClaimMatcher as ClaimMatcher

# Rules of a single claim or volume, one by one, and as parts of recomputations.
from moorage.engine.volume.claims import claim_class as claim_class
from moorage.engine.volume.claims import has_access_modes as has_access_modes
from moorage.engine.volume.claims import have_equal_modes as have_equal_modes
from moorage.engine.volume.claims import is_fully_bound as is_fully_bound
from moorage.engine.volume.claims import reaches_node as reaches_node
from moorage.engine.volume.claims import requested_storage as requested_storage
from moorage.engine.volume.claims import storage_capacity as storage_capacity
from moorage.engine.volume.claims import suitable_volumes as suitable_volumes
from moorage.engine.volume.claims import volume_class as volume_class
from moorage.engine.volume.claims import with_annotations as with_annotations

# Documented names, two levels below the package.
from moorage.engine.volume.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE as VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
)
from moorage.engine.volume.metrics import VOLUME_OPERATION_ERRORS as VOLUME_OPERATION_ERRORS
from moorage.engine.volume.metrics import VOLUME_OPERATION_SECONDS as VOLUME_OPERATION_SECONDS

# Volumes in use, compared with a recomputation; uses that a release loses.
from moorage.engine.volume.volumes_in_use import LostUses as LostUses
from moorage.engine.volume.volumes_in_use import VolumesInUse as VolumesInUse

# Expressions by themselves: bounds, errors, cost, and what they see of a device.
from moorage.kube.cel.device_expressions import FIELDS as FIELDS
