"""What tests need of the inside of cli."""

# How long a command runs before it shows progress is changed.
from moorage.cli import messages as messages

# All commands and options, gone through.
from moorage.cli.app import COMMANDS as COMMANDS
from moorage.cli.app import app as app

# Standing questions that tests ask by hand; names of their metrics.
from moorage.cli.asked_twin import GAUGES as GAUGES
from moorage.cli.asked_twin import AskedTwin as AskedTwin
from moorage.cli.asked_twin import StandingAnswers as StandingAnswers

# A twin without a server of its own.
from moorage.cli.asked_twin import read_questions as read_questions

# Forms of tables, for values that no command prints.
from moorage.cli.commands.printing import csv_text as csv_text
from moorage.cli.commands.printing import markdown_text as markdown_text
from moorage.cli.commands.printing import print_lines as print_lines
from moorage.cli.commands.printing import print_table as print_table

# Options of the servers, which the manifests of deploy/ have to know.
from moorage.cli.commands.serve import extender as extender
from moorage.cli.commands.serve import scheduler as scheduler
from moorage.cli.commands.serve import twin as twin

# The server of tools, in this process.
from moorage.cli.mcp_server import McpServer as McpServer

# A twin behind another server.
from moorage.cli.mcp_server import RemoteTwin as RemoteTwin
from moorage.cli.mcp_server import mcp_server as mcp_server

# The progress bar, on streams that a test makes.
from moorage.cli.messages import Stages as Stages

# Signals and limits of the process, which a test sends and replaces.
from moorage.cli.options.serving import LineFormatter as LineFormatter
from moorage.cli.options.serving import allow_many_connections as allow_many_connections
from moorage.cli.options.serving import ending_on_signals as ending_on_signals

# What a live scheduler is built with, without a server.
from moorage.cli.options.serving import live_settings as live_settings

# The script of the action, in a checkout that is hostile.
from moorage.cli.pull_request import Comments as Comments
from moorage.cli.pull_request import main as main

# Questions by themselves, of any parameters: each is a command or a refusal.
from moorage.cli.questions import ASKED as ASKED
from moorage.cli.questions import command_of as command_of
from moorage.cli.questions import named_questions as named_questions
from moorage.cli.questions import parameters_of as parameters_of
from moorage.cli.questions import question_of as question_of

# Files of the page, as a browser gets them.
from moorage.cli.serve_twin import page_files as page_files

# What a twin reads for its page, with answers and a clock of a test; its numbers.
from moorage.cli.twin_overview import TwinOverview as TwinOverview
from moorage.cli.twin_overview import totals as totals
