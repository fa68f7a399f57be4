"""What tests need of the inside of queues."""

# What becomes workloads, which no answer uses yet.
from moorage.queues.jobs.job_workloads import JobWorkloads as JobWorkloads
from moorage.queues.jobs.job_workloads import workload_name as workload_name

# Quotas in trees, compared with their twin; queues and cohorts that are made one by one.
from moorage.queues.objects import ClusterQueue as ClusterQueue
from moorage.queues.objects import ClusterQueueSpec as ClusterQueueSpec
from moorage.queues.objects import Cohort as Cohort
from moorage.queues.objects import CohortSpec as CohortSpec
from moorage.queues.objects import FlavorQuotas as FlavorQuotas
from moorage.queues.objects import ResourceGroup as ResourceGroup
from moorage.queues.objects import ResourceQuota as ResourceQuota
from moorage.queues.quota import Node as Node
from moorage.queues.quota import Undo as Undo
from moorage.queues.quota import undo as undo
from moorage.queues.snapshot import QueueSnapshot as QueueSnapshot

# The form in which vectors write amounts and times.
from moorage.queues.whole_amounts import text as text
from moorage.queues.workloads import milliseconds as milliseconds
