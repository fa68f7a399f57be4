"""What tests need of the inside of kube."""

# How tolerations are merged, one by one.
from moorage.kube.admission.runtime_classes import merge_tolerations as merge_tolerations

# Names of objects that are not dumped to a file.
from moorage.kube.anonymize import anonymize as anonymize

# Patches of JSON values, one by one; their calls are counted.
from moorage.kube.apply import strategic_merge as apply_strategic_merge
from moorage.kube.apply.apply_manifest import apply_manifest as apply_manifest
from moorage.kube.apply.merge_patch import json_text as json_text
from moorage.kube.apply.merge_patch import merge_patch as merge_patch
from moorage.kube.apply.merge_patch import three_way_patch as three_way_patch
from moorage.kube.apply.strategic_merge import rule_of as rule_of
from moorage.kube.apply.strategic_merge import strategic_merge as strategic_merge
from moorage.kube.apply.strategic_patch import three_way_strategic_patch as three_way_strategic_patch

# Which stage refuses an expression.
from moorage.kube.cel.cel_errors import CompileError as CompileError
from moorage.kube.cel.cel_errors import EvaluationError as EvaluationError
from moorage.kube.cel.cel_errors import ResultTypeError as ResultTypeError
from moorage.kube.cel.cel_types import DEVICE as DEVICE

# Stages of expressions, one by one, with upstream's cases; types, values and bounds of work.
from moorage.kube.cel.cel_types import CelType as CelType
from moorage.kube.cel.library.all_functions import library as library
from moorage.kube.cel.library.semver import compare as compare
from moorage.kube.cel.library.semver import parse_semver as parse_semver
from moorage.kube.cel.program import Evaluation as Evaluation
from moorage.kube.cel.program import compile_expression as compile_expression
from moorage.kube.cel.syntax.parser import parse as parse
from moorage.kube.cel.type_checker import TypeChecker as TypeChecker
from moorage.kube.cel.values import Duration as Duration
from moorage.kube.cel.values import MapValue as MapValue
from moorage.kube.cel.values import Optional as Optional
from moorage.kube.cel.values import Timestamp as Timestamp
from moorage.kube.cel.values import Uint as Uint
from moorage.kube.cel.values import type_of_value as type_of_value
from moorage.kube.cel.work import MAX_WORK as MAX_WORK
from moorage.kube.cel.work import begin_work as begin_work

# Durations and JSON as Go writes them.
from moorage.kube.go_texts import SECOND as SECOND
from moorage.kube.go_texts import format_duration as format_duration
from moorage.kube.go_texts import format_nanoseconds as format_nanoseconds
from moorage.kube.go_texts import parse_duration as go_texts_parse_duration

# What is suspended, as a value.
from moorage.kube.model.cluster import Suspended as Suspended

# Parsers of fields, one by one.
from moorage.kube.model.field_rules import percent as percent
from moorage.kube.model.field_rules import whole_number as whole_number

# Kinds, annotations and rules of Gödel, with which the tests of BinderCache are made.
from moorage.kube.model.godel import ASSUMED_NODE as ASSUMED_NODE
from moorage.kube.model.godel import CNR as CNR
from moorage.kube.model.godel import RESOURCE_TYPE as RESOURCE_TYPE
from moorage.kube.model.godel import CNRStatus as CNRStatus
from moorage.kube.model.godel import CurrentOwners as CurrentOwners
from moorage.kube.model.godel import Movement as Movement
from moorage.kube.model.godel import NMNode as NMNode
from moorage.kube.model.godel import NMNodeStatus as NMNodeStatus
from moorage.kube.model.godel import Reservation as Reservation
from moorage.kube.model.godel import ReservationSpec as ReservationSpec
from moorage.kube.model.godel import ReservationStatus as ReservationStatus
from moorage.kube.model.godel import ReservationTemplate as ReservationTemplate
from moorage.kube.model.godel import ledger_of as ledger_of
from moorage.kube.model.godel import node_name_of as node_name_of
from moorage.kube.model.godel import unit_key as unit_key

# The base of all objects, gone through; and how a condition is set.
from moorage.kube.model.meta import Struct as Struct
from moorage.kube.model.meta import with_condition as with_condition

# The annotation of Gödel's groups.
from moorage.kube.model.pod_group import GROUP_ANNOTATION as GROUP_ANNOTATION

# A status that is not there.
from moorage.kube.model.policy import NO_STATUS as NO_STATUS

# Annotations and rules of Gödel's reservations.
from moorage.kube.model.reservation import MATCHED_PLACEHOLDER as MATCHED_PLACEHOLDER
from moorage.kube.model.reservation import RESERVATION as RESERVATION
from moorage.kube.model.reservation import RESERVATION_INDEX as RESERVATION_INDEX
from moorage.kube.model.reservation import deployment_of as deployment_of
from moorage.kube.model.reservation import is_placeholder as is_placeholder
from moorage.kube.model.reservation import placeholder_of as placeholder_of
from moorage.kube.model.reservation import placeholder_pod as placeholder_pod

# How many pods a workload may have.
from moorage.kube.model.workload import MAX_PODS as MAX_PODS

# Objects as JSON values, to compare them with what was read.
from moorage.kube.plain import plain as plain

# Readers by themselves; limits are lowered, and what must not be called is replaced.
from moorage.kube.read import load as load
from moorage.kube.read import unpacking as unpacking
from moorage.kube.read import yaml_events as yaml_events

# Two readers of YAML, which have to be alike.
from moorage.kube.read.block_yaml import read_block_style as read_block_style

# Decoding of one object; the table of kinds is gone through.
from moorage.kube.read.decode import _KINDS as _KINDS
from moorage.kube.read.decode import decode as decode
from moorage.kube.read.decode import decode_as as decode_as
from moorage.kube.read.decode import decode_kind as decode_kind
from moorage.kube.read.decode import is_known as is_known

# Two readers of pods, which have to be alike.
from moorage.kube.read.parts_reader import PartsReader as PartsReader

# Parts of the two readers of YAML; how deep they go.
from moorage.kube.read.plain_scalars import MAX_DEPTH as MAX_DEPTH
from moorage.kube.read.plain_scalars import RefusedError as RefusedError
from moorage.kube.read.plain_scalars import resolve_plain as resolve_plain

# Texts that are written and read back.
from moorage.kube.read.write import dump_yaml as dump_yaml

# YAML by itself, of any value.
from moorage.kube.read.yaml_reader import read_first as read_first
from moorage.kube.read.yaml_reader import read_yaml as read_yaml
from moorage.kube.releases.attribution import MOST_TOGETHER as MOST_TOGETHER

# Causes that runs find which tests make up.
from moorage.kube.releases.attribution import Cause as Cause
from moorage.kube.releases.attribution import Run as Run
from moorage.kube.releases.attribution import find_causes as find_causes

# The tables of releases and gates, gone through, and written to pages.
from moorage.kube.releases.behaviours import described as described
from moorage.kube.releases.behaviours import differing as differing
from moorage.kube.releases.behaviours import switched as switched
from moorage.kube.releases.ended_versions import _table as _table
from moorage.kube.releases.ended_versions import ended_version as ended_version
from moorage.kube.releases.feature_gates import GATES as GATES
from moorage.kube.releases.feature_gates import Gate as Gate
from moorage.kube.releases.feature_gates import Stage as Stage
from moorage.kube.releases.feature_gates import settable as settable
from moorage.kube.releases.gate_effects import OF_NO_INTEREST as OF_NO_INTEREST
from moorage.kube.releases.gate_effects import OF_OTHERS as OF_OTHERS
from moorage.kube.releases.gate_effects import OF_THE_SCHEDULER as OF_THE_SCHEDULER
from moorage.kube.releases.gate_effects import Effect as Effect

# Names of resources in paths and rights.
from moorage.kube.resource_names import plural as plural
from moorage.kube.resource_names import resource as resource

# Parsing of times, text by text.
from moorage.kube.time_spans import parse_duration as parse_duration

# The table of fields, value by value.
from moorage.kube.validate import unknown_fields as unknown_fields

# Schemas, gone through; which rule refuses a value.
from moorage.kube.validate.custom_schemas import schemas as schemas
from moorage.kube.validate.custom_schemas import spec_problems as spec_problems

# Refusals of one object.
from moorage.kube.validate.gated_operators import refuse_comparisons as refuse_comparisons

# Kinds and versions, gone through.
from moorage.kube.validate.unknown_fields import KARPENTER as KARPENTER
from moorage.kube.validate.unknown_fields import check_kind as check_kind

# Times in seconds, for clocks and twins.
from moorage.kube.workloads.ages import seconds as seconds

# The slow twin of DaemonSets takes the rules of a single pod and node from here.
from moorage.kube.workloads.daemon_pods import node_of as node_of
from moorage.kube.workloads.daemon_pods import should_run as should_run

# Looks at a rollout are counted: only what has changed is looked at.
from moorage.kube.workloads.daemon_rollout import DaemonRollout as DaemonRollout

# Times of CronJobs, schedule by schedule.
from moorage.kube.workloads.jobs.cron_runs import due as due
from moorage.kube.workloads.jobs.cron_runs import next_run as next_run

# The table of kinds, each of which a test has to expand.
from moorage.kube.workloads.kinds.kind_table import RULES as RULES

# Rules of a single pod for the slow twin of DaemonSets.
from moorage.kube.workloads.missing_pods import create_daemons as create_daemons
from moorage.kube.workloads.missing_pods import daemon_spec as daemon_spec
from moorage.kube.workloads.missing_pods import written_revision as written_revision

# Names, UIDs and hashes, one by one.
from moorage.kube.workloads.naming import Names as Names
from moorage.kube.workloads.naming import stable_uid as stable_uid
from moorage.kube.workloads.naming import template_hash as template_hash
from moorage.kube.workloads.ownership import FINISHED as FINISHED
from moorage.kube.workloads.ownership import is_active as is_active
from moorage.kube.workloads.ownership import is_healthy as is_healthy

# Claims of a pod's own, which others would make.
from moorage.kube.workloads.pod_claims import ephemeral_claims as ephemeral_claims
from moorage.kube.workloads.revisions import is_updated as is_updated
from moorage.kube.workloads.revisions import mark_of as mark_of

# Who is at the top of the owners of a pod; and workloads of outcomes that are made by hand.
from moorage.kube.workloads.top_controller import Workload as Workload
from moorage.kube.workloads.top_controller import Workloads as Workloads

# Two names of the room are the same.
__all__ = ["apply_strategic_merge", "go_texts_parse_duration"]
