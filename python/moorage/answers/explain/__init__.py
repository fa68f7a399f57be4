"""Explanations: why a pod fits nowhere, and the changes with which it would fit."""

from moorage.cluster.helpful_changes import HelpfulChange as HelpfulChange
from moorage.cluster.requirements import Constraint as Constraint

from .explain_document import Explanation as Explanation
from .explanation import Situation as Situation
from .situations import explain_after_run as explain_after_run
from .situations import explain_alone as explain_alone
from .situations import explain_in_turn as explain_in_turn
