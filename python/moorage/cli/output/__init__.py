"""Output of the commands on stdout. Pages and pictures are imported when one is written."""

from .printing import Table as Table
from .printing import discard_output as discard_output
from .printing import ignore_broken_pipe as ignore_broken_pipe
from .printing import print_lines as print_lines
from .printing import print_table as print_table
from .printing import write_answer as write_answer
from .printing import write_value as write_value
