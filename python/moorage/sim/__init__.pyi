# The public names: for type checkers, and for the room, which imports each at its first use.

from moorage.answers.runs.summary import Summary as Summary
from moorage.answers.runs.summary import summarize as summarize
