"""What tests need of the inside of cli."""

# How long a command runs before it shows progress is changed.
from moorage.cli import messages as messages

# All commands and options, gone through.
from moorage.cli.app import COMMANDS as COMMANDS
from moorage.cli.app import app as app

# The steps of the tour, whose commands are repeated.
from moorage.cli.commands.demo import STEPS as STEPS

# Options of the servers, which the manifests of deploy/ have to know.
from moorage.cli.commands.live_command import extender as extender
from moorage.cli.commands.live_command import scheduler as scheduler
from moorage.cli.commands.live_command import twin as twin

# The progress bar, on streams that a test makes.
from moorage.cli.messages import Stages as Stages

# Signals and limits of the process, which a test sends and replaces.
from moorage.cli.options import process as process

# Changes in the format of records of a control plane.
from moorage.cli.options.change_options import RequestedChange as RequestedChange

# What a live scheduler is built with, without a server.
from moorage.cli.options.serving import live_settings as live_settings

# Forms of tables, for values that no command prints.
from moorage.cli.output.printing import Table as Table
from moorage.cli.output.printing import csv_text as csv_text
from moorage.cli.output.printing import markdown_text as markdown_text
from moorage.cli.output.printing import print_lines as print_lines
from moorage.cli.output.printing import print_table as print_table

# The script of the action, in a checkout that is hostile.
from moorage.cli.pull_request import Comments as Comments
from moorage.cli.pull_request import main as main

# Explanations that count as alike, made by hand.
from moorage.cli.runs.alike_targets import merge_alike as merge_alike

# The gate in the format of records of a control plane.
from moorage.cli.runs.gate import judge as judge

# Templates as options give them, for questions that have to agree.
from moorage.cli.runs.pod_templates import read_templates as read_templates

# Outcomes as values, compared with records of a control plane.
from moorage.cli.runs.simulation import Preparation as Preparation
from moorage.cli.runs.simulation import Simulation as Simulation

# What explanations that count as alike are about.
from moorage.cli.runs.targets import Target as Target

# A twin without a server of its own.
from moorage.cli.twin.asked_twin import Answer as Answer
from moorage.cli.twin.asked_twin import AskedTwin as AskedTwin

# The server of tools, in this process.
from moorage.cli.twin.mcp_server import McpServer as McpServer
from moorage.cli.twin.mcp_server import mcp_server as mcp_server

# Files of the page, as a browser gets them.
from moorage.cli.twin.page_files import page_files as page_files

# Questions by themselves, of any parameters: each is a command or a refusal.
from moorage.cli.twin.questions import ASKED as ASKED
from moorage.cli.twin.questions import Question as Question
from moorage.cli.twin.questions import command_of as command_of
from moorage.cli.twin.questions import named_questions as named_questions
from moorage.cli.twin.questions import parameters_of as parameters_of
from moorage.cli.twin.questions import question_of as question_of

# A twin behind another server.
from moorage.cli.twin.remote_twin import RemoteTwin as RemoteTwin

# Standing questions that tests ask by hand; names of their metrics.
from moorage.cli.twin.standing_questions import GAUGES as GAUGES
from moorage.cli.twin.standing_questions import StandingAnswers as StandingAnswers
from moorage.cli.twin.standing_questions import read_questions as read_questions
