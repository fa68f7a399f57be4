"""What tests need of the inside of autoscalers."""

# Counts of pods by domain, compared with their twin.
from moorage._core.provision.domain_counts import ConstraintGroups as ConstraintGroups
from moorage._core.provision.domain_counts import Host as Host
from moorage._core.provision.domain_counts import Ties as Ties
from moorage._core.provision.domain_counts import TopologyCounts as TopologyCounts

# Passes without the table, which has to change nothing.
from moorage._core.provision.host_table import HostTable as HostTable

# The algebra of requirements, compared with sets of values.
from moorage._core.provision.label_requirements import Vocabulary as Vocabulary

# A loop by itself: what vectors give it, and what they compare.
from moorage.autoscalers.cluster_autoscaler.cluster_autoscaler import ClusterAutoscaler as ClusterAutoscaler

# Expanders choose among options that are made one by one.
from moorage.autoscalers.cluster_autoscaler.expanders import Option as Option
from moorage.autoscalers.cluster_autoscaler.expanders import _price_score as _price_score
from moorage.autoscalers.cluster_autoscaler.expanders import narrow as narrow

# The page names all expanders; hints say where pods were last. What loops keep of nodes has rules.
from moorage.autoscalers.cluster_autoscaler.flags import EXPANDERS as EXPANDERS
from moorage.autoscalers.cluster_autoscaler.flags import Flags as Flags
from moorage.autoscalers.cluster_autoscaler.flags import Instance as Instance
from moorage.autoscalers.cluster_autoscaler.flags import Memory as Memory
from moorage.autoscalers.cluster_autoscaler.flags import NodeFacts as NodeFacts
from moorage.autoscalers.cluster_autoscaler.flags import PlacementHints as PlacementHints
from moorage.autoscalers.cluster_autoscaler.flags import PodPrices as PodPrices
from moorage.autoscalers.cluster_autoscaler.flags import ScaledGroup as ScaledGroup

# What an option of an expander is made of.
from moorage.autoscalers.cluster_autoscaler.group_states import NodeTemplate as NodeTemplate

# Pods in turns, compared with the way one by one, which is forced.
from moorage.autoscalers.cluster_autoscaler.node_snapshot import NodeSnapshot as NodeSnapshot
from moorage.autoscalers.cluster_autoscaler.pods_to_help import place_pods as place_pods

# Flags and groups are given without a file; the labels of each provider are gone through.
from moorage.autoscalers.group_settings import flags_of as flags_of
from moorage.autoscalers.group_sources import known_groups as known_groups

# A pass by itself: what vectors give it, and what they compare.
from moorage.autoscalers.karpenter.cluster_view import ClusterObjects as ClusterObjects
from moorage.autoscalers.karpenter.cluster_view import ClusterView as ClusterView
from moorage.autoscalers.karpenter.cluster_view import PassInput as PassInput
from moorage.autoscalers.karpenter.disrupt import METHODS as METHODS

# Each method by itself, as vectors ask for it.
from moorage.autoscalers.karpenter.disrupt import DisruptionPass as DisruptionPass

# Times of cron schedules, for schedules that never come.
from moorage.autoscalers.karpenter.disruption_candidates import next_hit as next_hit

# Simulations that are left out, which has to change nothing.
from moorage.autoscalers.karpenter.disruption_moves import Simulations as Simulations

# Go's sort, compared with recorded orders.
from moorage.autoscalers.karpenter.pod_shape import go_sorted as go_sorted
from moorage.autoscalers.karpenter.pod_validation import is_reschedulable as is_reschedulable
from moorage.autoscalers.karpenter.type_columns import Catalogue as Catalogue

# What vectors compare of the types of a claim.
# The nodes of two rounds, whose names have to differ.
from moorage.autoscalers.pool_scaler import PoolScaler as PoolScaler
from moorage.autoscalers.providers.aws.ec2_answers import Ec2Type as Ec2Type

# The provider for AWS by itself: what vectors give it, and what they compare.
from moorage.autoscalers.providers.aws.ec2_answers import catalogue as catalogue
from moorage.autoscalers.providers.aws.ec2_answers import price_list as price_list
from moorage.autoscalers.providers.aws.ec2_instance_types import Market as Market
from moorage.autoscalers.providers.aws.ec2_instance_types import instance_types as instance_types
from moorage.autoscalers.providers.aws.fleet import fleet as fleet
from moorage.autoscalers.providers.aws.node_class import NodeClass as NodeClass
from moorage.autoscalers.providers.aws.node_class import ProviderOptions as ProviderOptions
from moorage.autoscalers.providers.known_labels import AWS as AWS
from moorage.autoscalers.providers.known_labels import CORE as CORE
from moorage.autoscalers.providers.known_labels import PROVIDERS as PROVIDERS

# What is launched for a claim: vectors compare what EC2 is asked for.
from moorage.autoscalers.providers.launchers import launched as launched

# Types of pools as values, with the sentences about where they come from.
from moorage.autoscalers.providers.pool_types import types_of_objects as types_of_objects

# What options name, as commands read it.
from moorage.autoscalers.providers.type_files import given_types as given_types

# A pod that comes late, as a value of an answer.
from moorage.autoscalers.scale_up_answer import LatePod as LatePod
