"""What tests need of the inside of kube."""

# Annotations and rules of Gödel's reservations.
from moorage.compat.godel import ledger_of as ledger_of
from moorage.compat.godel import node_name_of as node_name_of
from moorage.compat.godel import placeholder_of as placeholder_of
from moorage.compat.godel import placeholder_pod as placeholder_pod
from moorage.compat.godel import unit_key as unit_key

# Looks at a rollout are counted: only what has changed is looked at.
from moorage.controllers.daemon_set_controller import DaemonRollout as DaemonRollout

# Objects as they are stored, field by field, and warnings about them.
from moorage.kube.admission.chain import Admission as Admission
from moorage.kube.admission.manifest_validation import OF_NEW_PODS as OF_NEW_PODS
from moorage.kube.admission.manifest_validation import manifest_causes as manifest_causes
from moorage.kube.admission.manifest_validation import newly_refused as newly_refused
from moorage.kube.admission.pod_requests import merge_tolerations as merge_tolerations
from moorage.kube.admission.policy.apply_configuration import applied as applied
from moorage.kube.admission.policy.apply_configuration import atomic_parts as atomic_parts
from moorage.kube.admission.request import AdmissionRequest as AdmissionRequest
from moorage.kube.admission.request import without_admission as without_admission

# What the API server warns of, which commands fold.
from moorage.kube.admission.secured_namespaces import SecuredNamespaces as SecuredNamespaces
from moorage.kube.admission.secured_namespaces import pod_template as pod_template
from moorage.kube.admission.stored.stored_objects import StoredObjects as StoredObjects
from moorage.kube.admission.stored.strategies import quality_of_service as quality_of_service
from moorage.kube.admission.stored.strategy_warnings import strategy_warnings as strategy_warnings

# Defaults of a manifest, field by field.
from moorage.kube.admission.stored.version_defaults import with_version_defaults as with_version_defaults

# Refusals of one object.
from moorage.kube.apiserver import merge_patch as apply_strategic_merge

# The table of fields, value by value.
from moorage.kube.apiserver import unknown_fields as unknown_fields
from moorage.kube.apiserver.apply_manifest import apply_manifest as apply_manifest
from moorage.kube.apiserver.apply_manifest import three_way_strategic_patch as three_way_strategic_patch

# Decoding of one object; the table of kinds is gone through.
from moorage.kube.apiserver.decode import _KINDS as _KINDS
from moorage.kube.apiserver.decode import CLUSTER_SCOPED as CLUSTER_SCOPED
from moorage.kube.apiserver.decode import decode as decode
from moorage.kube.apiserver.decode import decode_as as decode_as
from moorage.kube.apiserver.decode import decode_kind as decode_kind

# Which texts a dump has, struct by struct.
from moorage.kube.apiserver.hidden_texts import hide as hide
from moorage.kube.apiserver.merge_patch import json_text as json_text
from moorage.kube.apiserver.merge_patch import merge_patch as merge_patch
from moorage.kube.apiserver.merge_patch import rule_of as rule_of
from moorage.kube.apiserver.merge_patch import strategic_merge as strategic_merge
from moorage.kube.apiserver.merge_patch import three_way_patch as three_way_patch

# Kinds and versions, gone through.
from moorage.kube.apiserver.unknown_fields import check_kind as check_kind

# Which stage refuses an expression.
from moorage.kube.cel.cel_errors import CompileError as CompileError
from moorage.kube.cel.cel_errors import EvaluationError as EvaluationError
from moorage.kube.cel.cel_errors import ResultTypeError as ResultTypeError
from moorage.kube.cel.cel_errors import begin_work as begin_work
from moorage.kube.cel.kubernetes_functions import library as library
from moorage.kube.cel.parser import parse as parse
from moorage.kube.cel.program import Evaluation as Evaluation
from moorage.kube.cel.program import compile_expression as compile_expression
from moorage.kube.cel.type_checker import TypeChecker as TypeChecker
from moorage.kube.cel.values import DEVICE as DEVICE

# Stages of expressions, one by one, with upstream's cases; types, values and bounds of work.
from moorage.kube.cel.values import CelType as CelType
from moorage.kube.cel.values import Duration as Duration
from moorage.kube.cel.values import MapValue as MapValue
from moorage.kube.cel.values import Optional as Optional
from moorage.kube.cel.values import Timestamp as Timestamp
from moorage.kube.cel.values import Uint as Uint
from moorage.kube.cel.values import type_of_value as type_of_value

# Names of objects that are not dumped to a file.
from moorage.kube.edit import anonymize as anonymize

# Rules of manifests, field by field.
from moorage.kube.field_errors import Fault as Fault
from moorage.kube.field_errors import part as part
from moorage.kube.field_errors import parts as parts

# Durations and JSON as Go writes them.
from moorage.kube.go_texts import format_duration as format_duration
from moorage.kube.go_texts import format_nanoseconds as format_nanoseconds
from moorage.kube.go_texts import parse_duration as go_texts_parse_duration

# What is suspended, as a value.
from moorage.kube.model.cluster import Suspended as Suspended

# Times in seconds, for clocks and twins.
from moorage.kube.model.cluster import seconds as seconds

# The base of all objects, gone through; and how a condition is set.
from moorage.kube.model.meta import Struct as Struct

# Names of resources in paths and rights.
from moorage.kube.model.meta import plural as plural
from moorage.kube.model.meta import plural_of as plural_of
from moorage.kube.model.meta import resource as resource
from moorage.kube.model.meta import whole_number as whole_number
from moorage.kube.model.meta import with_condition as with_condition

# How many pods a workload may have.
from moorage.kube.plain import joined as joined

# Objects as JSON values, to compare them with what was read.
from moorage.kube.plain import plain as plain

# Readers by themselves; limits are lowered, and what must not be called is replaced.
from moorage.kube.read import read_objects as read_objects

# Parts of the two readers of YAML; how deep they go.
from moorage.kube.read.block_yaml import UnplacedError as UnplacedError

# Two readers of YAML, which have to be alike.
from moorage.kube.read.block_yaml import read_block_style as read_block_style
from moorage.kube.read.block_yaml import resolve_plain as resolve_plain

# YAML by itself, of any value.
from moorage.kube.read.documents import read_first as read_first
from moorage.kube.read.documents import read_yaml as read_yaml

# Two readers of pods, which have to be alike.
from moorage.kube.read.parts_reader import PartsReader as PartsReader

# Texts that are written and read back.
from moorage.kube.read.python_values import dump_yaml as dump_yaml
from moorage.kube.read.yaml_events import documents as documents

# Causes that runs find which tests make up.
from moorage.kube.releases.behaviours import Cause as Cause

# The tables of releases and gates, gone through, and written to pages.
from moorage.kube.releases.behaviours import described as described
from moorage.kube.releases.behaviours import differing as differing
from moorage.kube.releases.behaviours import find_causes as find_causes
from moorage.kube.releases.behaviours import switched as switched
from moorage.kube.releases.feature_gates import GATES as GATES
from moorage.kube.releases.feature_gates import OF_NO_INTEREST as OF_NO_INTEREST
from moorage.kube.releases.feature_gates import OF_OTHERS as OF_OTHERS
from moorage.kube.releases.feature_gates import OF_THE_SCHEDULER as OF_THE_SCHEDULER
from moorage.kube.releases.feature_gates import Effect as Effect
from moorage.kube.releases.feature_gates import Stage as Stage
from moorage.kube.releases.feature_gates import settable as settable
from moorage.kube.releases.release import _table as _table
from moorage.kube.releases.release import ended_version as ended_version

# Parsing of times, text by text.
from moorage.kube.strict_documents import parse_duration as parse_duration

# Objects of other projects as files have them, of which Kueue makes workloads.
from moorage.kube.workloads.custom_objects import read_custom as read_custom

# The slow twin of DaemonSets takes the rules of a single pod and node from here.
from moorage.kube.workloads.daemon_pods import node_of as node_of
from moorage.kube.workloads.daemon_pods import should_run as should_run

# The table of kinds, each of which a test has to expand.
from moorage.kube.workloads.kind_table import RULES as RULES

# Rules of a single pod for the slow twin of DaemonSets.
from moorage.kube.workloads.missing_pods import create_daemons as create_daemons
from moorage.kube.workloads.missing_pods import daemon_spec as daemon_spec
from moorage.kube.workloads.missing_pods import written_revision as written_revision

# Who is at the top of the owners of a pod; and workloads of outcomes that are made by hand.
from moorage.kube.workloads.ownership import Workload as Workload
from moorage.kube.workloads.ownership import is_healthy as is_healthy
from moorage.kube.workloads.revisions import is_updated as is_updated
from moorage.kube.workloads.revisions import mark_of as mark_of

# The steps of strategies, by themselves.
from moorage.kube.workloads.rollout_steps import steps_text as steps_text

# Claims of a pod's own, which others would make.
from moorage.kube.workloads.stateful_pods import ephemeral_claims as ephemeral_claims

# Two names of the room are the same.
__all__ = ["apply_strategic_merge", "go_texts_parse_duration"]
