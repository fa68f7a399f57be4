"""What tests need of the inside of kube."""

# Which stage refuses an expression.
from moorage.cel.cel_errors import CompileError as CompileError
from moorage.cel.cel_errors import EvaluationError as EvaluationError
from moorage.cel.cel_errors import ResultTypeError as ResultTypeError

# Stages of expressions, one by one, with upstream's cases; types, values and bounds of work.
from moorage.cel.cel_types import DEVICE as DEVICE
from moorage.cel.cel_types import CelType as CelType
from moorage.cel.library.all_functions import library as library
from moorage.cel.library.semver import compare as compare
from moorage.cel.library.semver import parse_semver as parse_semver
from moorage.cel.program import Evaluation as Evaluation
from moorage.cel.program import compile_expression as compile_expression
from moorage.cel.syntax.parser import parse as parse
from moorage.cel.type_checker import TypeChecker as TypeChecker
from moorage.cel.values import Duration as Duration
from moorage.cel.values import MapValue as MapValue
from moorage.cel.values import Optional as Optional
from moorage.cel.values import Timestamp as Timestamp
from moorage.cel.values import Uint as Uint
from moorage.cel.values import type_of_value as type_of_value
from moorage.cel.work import MAX_WORK as MAX_WORK
from moorage.cel.work import begin_work as begin_work

# How tolerations are merged, one by one.
from moorage.objects.admission.runtime_classes import merge_tolerations as merge_tolerations

# Names of objects that are not dumped to a file.
from moorage.objects.anonymize import anonymize as anonymize

# Patches of JSON values, one by one; their calls are counted.
from moorage.objects.apply import strategic_merge as apply_strategic_merge
from moorage.objects.apply.apply_manifest import apply_manifest as apply_manifest
from moorage.objects.apply.merge_patch import json_text as json_text
from moorage.objects.apply.merge_patch import merge_patch as merge_patch
from moorage.objects.apply.merge_patch import three_way_patch as three_way_patch
from moorage.objects.apply.strategic_merge import rule_of as rule_of
from moorage.objects.apply.strategic_merge import strategic_merge as strategic_merge
from moorage.objects.apply.strategic_patch import three_way_strategic_patch as three_way_strategic_patch

# What is suspended, as a value.
from moorage.objects.model.cluster import Suspended as Suspended

# Parsers of fields, one by one.
from moorage.objects.model.field_rules import percent as percent
from moorage.objects.model.field_rules import whole_number as whole_number

# Kinds, annotations and rules of Gödel, with which the tests of BinderCache are made.
from moorage.objects.model.godel import ASSUMED_NODE as ASSUMED_NODE
from moorage.objects.model.godel import CNR as CNR
from moorage.objects.model.godel import RESOURCE_TYPE as RESOURCE_TYPE
from moorage.objects.model.godel import CNRStatus as CNRStatus
from moorage.objects.model.godel import CurrentOwners as CurrentOwners
from moorage.objects.model.godel import Movement as Movement
from moorage.objects.model.godel import NMNode as NMNode
from moorage.objects.model.godel import NMNodeStatus as NMNodeStatus
from moorage.objects.model.godel import Reservation as Reservation
from moorage.objects.model.godel import ReservationSpec as ReservationSpec
from moorage.objects.model.godel import ReservationStatus as ReservationStatus
from moorage.objects.model.godel import ReservationTemplate as ReservationTemplate
from moorage.objects.model.godel import ledger_of as ledger_of
from moorage.objects.model.godel import node_name_of as node_name_of
from moorage.objects.model.godel import unit_key as unit_key

# The base of all objects, gone through; and how a condition is set.
from moorage.objects.model.meta import Struct as Struct
from moorage.objects.model.meta import with_condition as with_condition

# The annotation of Gödel's groups.
from moorage.objects.model.pod_group import GROUP_ANNOTATION as GROUP_ANNOTATION

# A status that is not there.
from moorage.objects.model.policy import NO_STATUS as NO_STATUS

# Annotations and rules of Gödel's reservations.
from moorage.objects.model.reservation import MATCHED_PLACEHOLDER as MATCHED_PLACEHOLDER
from moorage.objects.model.reservation import RESERVATION as RESERVATION
from moorage.objects.model.reservation import RESERVATION_INDEX as RESERVATION_INDEX
from moorage.objects.model.reservation import deployment_of as deployment_of
from moorage.objects.model.reservation import is_placeholder as is_placeholder
from moorage.objects.model.reservation import placeholder_of as placeholder_of
from moorage.objects.model.reservation import placeholder_pod as placeholder_pod

# How many pods a workload may have.
from moorage.objects.model.workload import MAX_PODS as MAX_PODS

# Objects as JSON values, to compare them with what was read.
from moorage.objects.plain import plain as plain

# Readers by themselves; limits are lowered, and what must not be called is replaced.
from moorage.objects.read import load as load
from moorage.objects.read import unpacking as unpacking
from moorage.objects.read import yaml_events as yaml_events

# Two readers of YAML, which have to be alike.
from moorage.objects.read.block_yaml import read_block_style as read_block_style

# Decoding of one object; the table of kinds is gone through.
from moorage.objects.read.decode import _KINDS as _KINDS
from moorage.objects.read.decode import decode as decode
from moorage.objects.read.decode import decode_as as decode_as
from moorage.objects.read.decode import decode_kind as decode_kind
from moorage.objects.read.decode import is_known as is_known

# Two readers of pods, which have to be alike.
from moorage.objects.read.parts_reader import PartsReader as PartsReader

# Parts of the two readers of YAML; how deep they go.
from moorage.objects.read.plain_scalars import MAX_DEPTH as MAX_DEPTH
from moorage.objects.read.plain_scalars import RefusedError as RefusedError
from moorage.objects.read.plain_scalars import resolve_plain as resolve_plain

# Texts that are written and read back.
from moorage.objects.read.write import dump_yaml as dump_yaml

# YAML by itself, of any value.
from moorage.objects.read.yaml_reader import read_first as read_first
from moorage.objects.read.yaml_reader import read_yaml as read_yaml

# Names of resources in paths and rights.
from moorage.objects.resource_names import plural as plural
from moorage.objects.resource_names import resource as resource

# Parsing of times, text by text.
from moorage.objects.time_spans import parse_duration as parse_duration

# The table of fields, value by value.
from moorage.objects.validate import unknown_fields as unknown_fields

# Schemas, gone through; which rule refuses a value.
from moorage.objects.validate.custom_schemas import schemas as schemas
from moorage.objects.validate.custom_schemas import spec_problems as spec_problems

# Refusals of one object.
from moorage.objects.validate.gated_operators import refuse_comparisons as refuse_comparisons

# Kinds and versions, gone through.
from moorage.objects.validate.unknown_fields import KARPENTER as KARPENTER
from moorage.objects.validate.unknown_fields import check_kind as check_kind

# Causes that runs find which tests make up.
from moorage.releases.attribution import MOST_TOGETHER as MOST_TOGETHER
from moorage.releases.attribution import Cause as Cause
from moorage.releases.attribution import Run as Run
from moorage.releases.attribution import find_causes as find_causes

# The tables of releases and gates, gone through, and written to pages.
from moorage.releases.behaviours import described as described
from moorage.releases.behaviours import differing as differing
from moorage.releases.behaviours import switched as switched
from moorage.releases.ended_versions import _table as _table
from moorage.releases.ended_versions import ended_version as ended_version
from moorage.releases.feature_gates import GATES as GATES
from moorage.releases.feature_gates import Gate as Gate
from moorage.releases.feature_gates import Stage as Stage
from moorage.releases.feature_gates import settable as settable
from moorage.releases.gate_effects import OF_NO_INTEREST as OF_NO_INTEREST
from moorage.releases.gate_effects import OF_OTHERS as OF_OTHERS
from moorage.releases.gate_effects import OF_THE_SCHEDULER as OF_THE_SCHEDULER
from moorage.releases.gate_effects import Effect as Effect

# The room has two functions of this name.
__all__ = ["apply_strategic_merge"]
