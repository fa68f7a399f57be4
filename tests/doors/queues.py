"""What tests need of the inside of queues."""

# What becomes workloads.
from moorage.queues.jobs.job_workloads import JobWorkloads as JobWorkloads
from moorage.queues.jobs.job_workloads import workload_name as workload_name

# Quotas in trees, compared with their twin.
from moorage.queues.quota import Undo as Undo
from moorage.queues.snapshot import QueueSnapshot as QueueSnapshot

# The form in which vectors write amounts and times.
from moorage.queues.whole_amounts import text as text
from moorage.queues.workloads import milliseconds as milliseconds
