"""What tests need of the inside of answers."""

# Programs are solved without starting a process for each.
# Changes are tried on fresh schedulers, to see that those of an explanation help.
# How many squares a picture and how many rows a table may have is lowered.
from moorage.answers.bounds import highs_process as highs_process

# A program that fails or prints in its process, which no plan makes happen.
from moorage.answers.bounds.linear_program import Rows as Rows
from moorage.answers.bounds.linear_program import solve as solve

# What is remembered of equal pods, compared with tries of each; the tries are counted.
from moorage.answers.explain import explain_group as explain_group

# Who would be evicted, without evicting.
from moorage.answers.explain.examine_preemption import examine_preemption as examine_preemption

# The document of an explanation that a test makes in Python.
from moorage.answers.explain.explain_document import document as document

# Constraints are dropped one by one, to see that the conflicts of an explanation are all there are.
from moorage.answers.explain.find_conflicts import pod_constraints as pod_constraints

# Constraints are dropped on the probe that explanations use.
from moorage.answers.explain.probe import Probe as Probe

# How many devices each rule of a request leaves, without a pod.
from moorage.answers.explain.request_survey import DeviceSurvey as DeviceSurvey

# A limit of the search is lowered to what a test can reach.
from moorage.answers.explain.rules import devices as devices

# The type of the evidence whose numbers are recomputed from objects.
from moorage.answers.explain.rules.room import RoomEvidence as RoomEvidence

# What explanations that count as alike are about.
from moorage.answers.explain.targets import Target as Target

# Explanations that count as alike, made by hand.
from moorage.answers.explain.targets import merge_alike as merge_alike

# A reduced series, compared with the whole one.
from moorage.answers.figures import m4 as m4

# What Kueue's queues tell, beside the vectors of what they decide.
from moorage.answers.queues.decided_workloads import new_preemptions as new_preemptions
from moorage.answers.queues.queue_changes import helpful_changes as helpful_changes

# The gate in the format of records of a control plane.
from moorage.answers.runs.gate import judge as judge

# Outcomes as values, compared with records of a control plane.
from moorage.answers.runs.simulation import SimulationSetup as SimulationSetup

# Forms of tables, for values that no command prints.
from moorage.answers.text_tables import PrintedTable as PrintedTable
