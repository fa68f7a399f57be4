"""Writes the JSON schemas of ``-o json`` from the Structs of the answers: `python docs/make_schemas.py`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from msgspec import UnsetType
from msgspec.json import schema_components
from msgspec.structs import fields

from moorage.document import Document
from moorage.kube.model.about_input import AboutInput

SCHEMAS = Path(__file__).parent.parent / "python/moorage/cli/schemas"
ANSWERS = {
    "check": ["moorage.answers.runs.check_answer:CheckDocument"],
    "compare": ["moorage.answers.runs.comparison:CompareDocument"],
    "simulate": ["moorage.answers.runs.simulation_answer:SimulationDocument"],
    "capacity": ["moorage.answers.template_capacity:CapacityDocument"],
    "explain": [
        "moorage.answers.explain.explain_document:ExplanationDocument",
        "moorage.answers.explain.explain_document:ExplanationList",
        "moorage.answers.explain.refusals_by_place:RefusalsDocument",
        "moorage.autoscalers.node_removal:NodeFate",
        "moorage.answers.node_emptying:NodeReport",
    ],
    "nodes": [
        "moorage.answers.nodes.node_room:NodesDocument",
        "moorage.answers.nodes.pod_use:NamespacesDocument",
        "moorage.answers.nodes.pod_use:WorkloadsDocument",
        "moorage.answers.nodes.device_use:DevicesDocument",
        "moorage.answers.queues.queue_use:QueuesDocument",
    ],
    "lint": ["moorage.answers.findings.finding_list:FindingsDocument"],
    "plan": [
        "moorage.answers.new_nodes:NodesNeededDocument",
        "moorage.answers.node_emptying:EmptyingPlanDocument",
        "moorage.answers.bounds.placement_bound:Bound",
        "moorage.answers.queues.quota_plan:QuotaPlan",
        "moorage.autoscalers.consolidation_rounds:ConsolidationDocument",
    ],
    "replay": [
        "moorage.sim.replay.history_document:HistoryDocument",
        "moorage.sim.replay.history_document:VerificationDocument",
    ],
    "sweep": ["moorage.sim.sweep_result:SweepDocument"],
}
"""The Structs of the answers of each command."""
READS_CLUSTERS = ("capacity", "nodes", "lint", "plan", "explain")
"""The commands that print the fields of `AboutInput` after those of the answer."""


def import_types(module: ModuleType) -> None:
    """Import what a module imports for type checkers alone: types of parts that most answers lack."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), str(module.__file__), "exec"), vars(module))


def structs(base: type[Document] = Document) -> Iterator[type[Document]]:
    """Iterate over the Structs of all answers."""
    for document in base.__subclasses__():
        yield document
        yield from structs(document)


@cache
def classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the definitions of a module's classes by name; they are looked up for each answer."""
    body = ast.parse(inspect.getsource(import_module(module))).body
    return {node.name: node for node in body if isinstance(node, ast.ClassDef)}


def meanings(document: type[Document]) -> dict[str, str]:
    """Return the docstrings of a Struct's fields, with those of its bases and of what all answers say about
    the input, by their names in Python."""
    texts = dict[str, str]()
    for base in (*document.__mro__[: document.__mro__.index(Document)], AboutInput):
        if base.__doc__ is None:  # made by defstruct
            continue
        definition = classes(base.__module__)[base.__name__]
        for field, text in zip(definition.body, definition.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(meaning))):
                    texts.setdefault(name, " ".join(meaning.replace("`", "").split()))
    return texts


def described(document: type[Document], schema: dict[str, Any]) -> dict[str, Any]:
    """Return msgspec's schema of a Struct with what its fields mean, and what no answer lacks."""
    texts, properties, required = meanings(document), {}, []
    for field in fields(document):
        name, kind = field.encode_name, dict(schema["properties"][field.encode_name])
        kind.pop("default", None)
        if len(kind.get("enum", ())) == 1:
            kind = {"const": kind["enum"][0]}
        choices = kind.get("anyOf", ())
        if choices and all("type" in choice for choice in choices):  # a value or null
            kind = reduce(or_, choices) | {"type": [choice["type"] for choice in choices]}
        properties[name] = ({"description": texts[field.name]} if field.name in texts else {}) | kind
        is_omitted = document.__struct_config__.omit_defaults and not field.required
        required += [] if is_omitted or UnsetType in get_args(field.type) else [name]
    closed = {"additionalProperties": False}
    return {"type": "object", "properties": properties, "required": required} | closed


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a command's answer."""
    places = [place.split(":") for place in ANSWERS[name]]
    for module, _ in places:
        import_types(import_module(module))
    wholes = [getattr(import_module(module), document) for module, document in places]
    about = [AboutInput] if name in READS_CLUSTERS else []
    _, components = schema_components([*wholes, *about], ref_template="#/$defs/{name}")
    text = json.dumps(components)  # has those of `extra_json_schema`, too
    named = [part for part in structs() if f'"#/$defs/{part.__name__}"' in text]
    _, components = schema_components([*wholes, *about, *named], ref_template="#/$defs/{name}")
    for part in structs():
        if part.__name__ in components:
            components[part.__name__] = described(part, components[part.__name__])
    answers = [
        deepcopy(components[whole.__name__]) if whole in named else components.pop(whole.__name__)
        for whole in wholes
    ]
    for more in [components.pop(part.__name__) for part in about]:
        for answer in answers:
            answer["properties"] |= more["properties"]
            answer["required"] += more["required"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://moorage.dev/schemas/{name}.v1.json",
        "title": f"Output of moorage {name}",
        **(answers[0] if len(answers) == 1 else {"anyOf": answers}),
        **({"$defs": components} if components else {}),
    }


def text_of(name: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in ANSWERS:
        (SCHEMAS / f"{name}.v1.json").write_text(text_of(name))
