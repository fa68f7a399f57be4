"""The public names of the modules that users import from, and what their docstrings lack.

The names are those that a module itself makes public, so that the reference cannot miss one.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from make_schemas import meanings

from moorage.document import Document

FRONT_DOORS = (
    "moorage",
    "moorage.kube",
    "moorage.errors",
    "moorage.store",
    "moorage.live.client",
    "moorage.engine.cache",
    "moorage.engine.queue",
    "moorage.engine.scheduler",
    "moorage.engine.framework",
    "moorage.engine.volume",
    "moorage.engine.volume.metrics",
    "moorage.engine.devices",
    "moorage.engine.preemption",
    "moorage.document",
    "moorage.answers",
    "moorage.autoscalers",
    "moorage.queues",
    "moorage.sim",
    "moorage.sim.timeline",
    "moorage.sim.replay",
    "moorage.sim.sweep",
    "moorage.sim.scheduling_policies",
    "moorage.sim.measures",
    "moorage.compat.binder_cache",
    "moorage.sim.gym",
    "moorage.testing",
    "moorage.compat",
    "moorage.compat.v1alpha1",
)
"""The modules that users import from."""

UNIT = re.compile(
    r"(nano|milli|micro)?seconds?|minutes|hour|per cent|%|share|part|fraction|ratio|rate|weight|score"
    r"|number|count|multiple|unit|cores|bytes|quantity|price|money|clock|least|value|measure|\b1\b",
    re.IGNORECASE,
)
"""Words that tell what a number counts or measures."""

LONGEST = 100
"""Characters of a signature in one line."""

LISTED = 12
"""Members from which on a class begins with a list of them."""

RULE = re.compile(
    r"(?:typing\.)?Annotated\[((?:[^\[\]]|\[[^\]]*\])*?), "
    r"(?:<function .*? at \w+>|(?:\w+\.)*Meta\([^()]*\))\]"
)
"""A type with a rule that its values keep."""

SOURCES = Path(__file__).parent.parent / "pyx"
"""The Cython of the compiled modules."""

STUBS = Path(__file__).parent.parent / "python"
"""Their stubs, which have the types."""


def public_names(module: ModuleType) -> list[str]:
    """Return what a module makes public.

    Parameters
    ----------
    module : module

    Returns
    -------
    list of str
        Its ``__all__``; or what it imports under the same name (``from .x import A as A``); or, if it imports
        nothing so, the classes and functions that it defines itself.
    """
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("__")]
    body = ast.parse(Path(str(module.__file__)).read_text()).body
    imported = [alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in _public(node)]
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return imported or [name for name in defined if not name.startswith("_")]


def _public(node: ast.ImportFrom) -> Iterator[ast.alias]:
    return (alias for alias in node.names if alias.name == alias.asname)


@cache
def homes() -> dict[int, str]:
    """Return where each public object is documented: at the first of the front doors that have it.

    Returns
    -------
    dict of int to str
        By the identity of the object, its name with that of the module.
    """
    found: dict[int, str] = {}
    for module_name in FRONT_DOORS:
        module = import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            if callable(value):  # constants may be one object by chance, such as two equal numbers
                found.setdefault(id(value), f"{module_name}.{name}")
    return found


def reference(module_name: str) -> Iterator[str]:
    """Iterate over the lines of Markdown that document the public names of a module. What an earlier front
    door has too is named there alone."""
    module = import_module(module_name)
    names = sorted(public_names(module), key=str.lower)
    values: dict[str, Any] = {name: getattr(module, name) for name in names}
    places = {name: homes()[id(value)] for name, value in values.items() if callable(value)}
    own = [name for name, place in places.items() if place == f"{module_name}.{name}"]
    if elsewhere := [place for name, place in places.items() if name not in own]:
        yield from ("", "Also: " + ", ".join(f"`{name}`" for name in elsewhere) + ".")
    if own:
        yield from ("", "| name | what it is for |", "|---|---|")
    for name in own:
        yield f"| {_link(name, f'{module_name}.{name}')} | {_summary(values[name])} |"
    for name in own:
        yield from ("", f"### {module_name}.{name}", "")
        yield from of_object(name, values[name])
    if constants := [name for name in names if name not in places]:
        yield from ("", "**Constants:** " + ", ".join(f"`{name}`" for name in constants) + ".")


def of_object(name: str, value: Any) -> Iterator[str]:
    """Iterate over the lines of a class with its members, or of a function."""
    yield from _signature(f"class {name}" if inspect.isclass(value) else name, value)
    yield from _markdown(_doc(value))
    if not inspect.isclass(value):
        return
    if fields := [*_fields(value)] if issubclass(value, Document) else []:
        yield from ("", "**Fields**", "", *fields)
    bases = [homes()[id(base)] for base in value.__mro__[1:] if id(base) in homes()]
    if bases:
        yield from (
            "",
            "Inherits what it does not define from " + ", ".join(f"`{base}`" for base in bases) + ".",
        )
    told = {
        key: member
        for key, member in sorted(_members(value).items())
        if inspect.getdoc(member)
        and (inspect.isroutine(member) or (inspect.isdatadescriptor(member) and not _is_listed(value, key)))
    }
    if len(told) >= LISTED:
        yield from ("", "Members: " + ", ".join(_link(key, f"{name}.{key}") for key in told) + ".")
    for key, member in told.items():
        yield from ("", f"#### {name}.{key}", "")
        yield from _signature(key, member) if inspect.isroutine(member) else ()
        yield from _markdown(_doc(member))


def _fields(document: type[Document]) -> Iterator[str]:
    """Iterate over lines that list the fields of a document."""
    texts = meanings(document)
    for field in document.__struct_fields__:
        yield f"- `{field}` : {_type(inspect.signature(document).parameters[field].annotation)}"
        if field in texts:
            yield f"  {texts[field]}"


def _link(text: str, heading: str) -> str:
    """Return a link to a heading of the same page, as code hosts name it."""
    anchor = re.sub(r"[^\w-]", "", heading.lower())
    return f"[`{text}`](#{anchor})"


def _doc(value: Any) -> str:
    """Return a docstring, without the signature that Cython writes before it."""
    return re.sub(r"^[\w.]+\(.*\)(?: -> .*)?\n\n", "", inspect.getdoc(value) or "")


def _summary(value: Any) -> str:
    """Return the first sentence of a docstring, for a cell of a table."""
    paragraph = " ".join(_doc(value).partition("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s|:$", paragraph)[0]
    return sentence.replace("``", "`").replace("|", "\\|")


def _members(kind: type[Any]) -> dict[str, Any]:
    """Return the public members of a class that are not documented with a public base."""
    return {
        key: getattr(kind, key)
        for base in kind.__mro__
        if base.__module__.startswith("moorage") and (base is kind or id(base) not in homes())
        for key in vars(base)
        if not key.startswith("_")
    }


def _parameter(parameter: inspect.Parameter) -> str:
    """Return how a signature shows a parameter."""
    default = parameter.default
    shown = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    if parameter.annotation is not parameter.empty:
        shown += f": {_type(parameter.annotation)}"
    if default is not parameter.empty:
        is_simple = isinstance(default, _SIMPLE)
        shown += f" = {getattr(default, '__name__', repr(default)) if is_simple else '...'}"
    return shown


def _type(annotation: Any) -> str:
    """Return an annotation without modules, and without the rules that its values keep."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    before = ""
    while text != before:
        before, text = text, RULE.sub(r"\1", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)


_SIMPLE = (int, float, str, tuple, type(None), type)  # what a signature shows of default values


def _signature(name: str, value: Any) -> Iterator[str]:
    """Iterate over the lines of a signature, one for each parameter where one line is too long."""
    try:
        signature = _of_stub(value) or inspect.signature(value)
    except (TypeError, ValueError, NameError):  # NameError: a struct has types that are imported late
        yield from ("```python", name, "```", "")
        return
    parameters = [one for key, one in signature.parameters.items() if key not in ("self", "cls")]
    shown, by_name = [_parameter(one) for one in parameters], inspect.Parameter.KEYWORD_ONLY
    kinds = [one.kind for one in parameters]
    if by_name in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(by_name), "*")
    is_class = signature.return_annotation is signature.empty or inspect.isclass(value)
    line = f"{name}({', '.join(shown)})" + ("" if is_class else f" -> {_type(signature.return_annotation)}")
    if len(line) > LONGEST:
        line = "\n".join((f"{name}(", *(f"    {one}," for one in shown), line[line.rindex(")") :]))
    yield from ("```python", line, "```", "")


def _of_stub(value: Any) -> inspect.Signature | None:
    """Return the signature of a compiled function or method, with the types of its stub."""
    if type(value).__name__ != "cython_function_or_method":
        return None
    path = STUBS.joinpath(*value.__module__.split(".")).with_suffix(".pyi")
    node: Any = ast.parse(path.read_text())
    for name in value.__qualname__.split("."):
        node = next(inner for inner in node.body if getattr(inner, "name", "") == name)
    node.decorator_list, scope = [], dict[str, Any]()
    exec(f"from __future__ import annotations\n{ast.unparse(node)}", scope)  # its types stay texts
    return inspect.signature(scope[node.name])


def _markdown(text: str) -> Iterator[str]:
    """Iterate over the lines of a docstring in numpy's style, as Markdown."""
    lines = text.splitlines()
    section = False
    for at, line in enumerate(lines):
        after = lines[at + 1] if at + 1 < len(lines) else ""
        if line.startswith("---") and not line.strip("-"):
            continue
        if after.startswith("---") and not after.strip("-"):
            section = line not in ("Notes", "Examples", "References", "See Also")
            yield from (f"**{line}**", "")
        elif section and line and not line.startswith(" "):
            name, colon, rest = line.partition(" : ")
            yield f"- `{name}`{colon}{rest}".replace("``", "`")
        else:
            yield (f"  {line.strip()}" if section and line else line).replace("``", "`")


def undocumented(module_name: str) -> Iterator[str]:
    """Iterate over what the docstrings of a module's public names lack.

    Parameters
    ----------
    module_name : str

    Yields
    ------
    str
        The name, and what is not documented of it: itself, a parameter, or what it returns.
    """
    module = import_module(module_name)
    for name in public_names(module):
        value: Any = getattr(module, name)
        if not getattr(value, "__module__", "").startswith("moorage"):  # a constant, or a type of Python
            continue
        if inspect.isclass(value):
            yield from of_class(f"{module_name}.{name}", value)
        elif inspect.isroutine(value):
            yield from of_routine(f"{module_name}.{name}", value, inspect.getdoc(value) or "")


def of_class(name: str, kind: type[Any]) -> Iterator[str]:
    text = inspect.getdoc(kind) or ""
    if not text:
        yield name
    yield from without_unit(name, text)
    for base in kind.__mro__:  # the reference shows inherited members, too
        if base.__module__.startswith("moorage"):
            yield from _of_members(name, kind, base)


def _of_members(name: str, kind: type[Any], base: type[Any]) -> Iterator[str]:
    text = inspect.getdoc(base) or ""
    overridden = {key for over in kind.__mro__[: kind.__mro__.index(base)] for key in vars(over)}
    for key, value in vars(base).items():
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if (
            key.startswith("_")
            or key in overridden
            or isinstance(function, type)
            or _has(text, "Attributes", key)
        ):
            continue
        if inspect.isroutine(function):
            yield from of_routine(f"{name}.{key}", function, inspect.getdoc(getattr(kind, key)) or "")
            continue
        is_attribute = isinstance(function, property) or inspect.isgetsetdescriptor(function)
        if is_attribute and not function.__doc__ and not _has(text, "Parameters", key):
            yield f"{name}.{key}"


def of_routine(name: str, function: Any, text: str) -> Iterator[str]:
    if not text:
        yield name
        return
    if not hasattr(function, "__code__"):  # an attribute of a class that is made when it is read
        return
    signature = _of_stub(function) or inspect.signature(function)
    parameters = signature.parameters
    for parameter in parameters:
        if parameter in ("self", "cls") or parameters[parameter].kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if not _has(text, "Parameters", parameter) and not _says_enough(
            parameter, parameters[parameter].annotation
        ):
            yield f"{name}: {parameter}"
    yield from without_unit(name, text)
    for error in _raised(inspect.unwrap(function)):
        if not _has(text, "Raises", error):
            yield f"{name}: when it raises {error}"
    if hasattr(function, "__wrapped__"):  # a context manager
        return
    result = signature.return_annotation
    tells = re.search(r"^(Returns|Yields)\n-", text, re.MULTILINE)
    if result is not signature.empty and not tells and not _says_enough(text.partition("\n\n")[0], result):
        yield f"{name}: what it returns"


def _says_enough(name: str, annotation: Any) -> bool:
    """Whether a name and a type need no more words: an array has a shape, and a float a unit."""
    if annotation is inspect.Parameter.empty:
        return False
    return not re.search(r"\b(float|NDArray|ndarray)\b", str(annotation)) or bool(UNIT.search(name))


def _raised(function: Any) -> list[str]:
    """Return the names of the errors that the body of a function raises itself, sorted."""
    if not inspect.isfunction(function):
        return sorted(set(re.findall(r"\braise (\w+)\(", _compiled_body(function))))
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    found, inner = set[str](), list(ast.iter_child_nodes(tree))
    while inner:
        node = inner.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue  # raises when it is called
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            named = node.exc.func
            found.add(named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", ""))
        inner += ast.iter_child_nodes(node)
    return sorted(name for name in found if name[:1].isupper())


def _compiled_body(function: Any) -> str:
    """Return the Cython of a function or method, up to the next line that is not indented more."""
    path = SOURCES.joinpath(*function.__module__.split(".")).with_suffix(".pyx")
    *outer, name = function.__qualname__.split(".")
    text = path.read_text()
    if outer:
        text = re.split(rf"^cdef class {outer[-1]}\b", text, flags=re.MULTILINE)[1]
    found = re.search(rf"^( *)(?:def|cpdef\b[^(\n]*) {name}\(", text, re.MULTILINE)
    assert found is not None, function
    rest = text[found.end() :].partition("\n")[2]
    return re.split(rf"^ {{0,{len(found[1])}}}\S", rest, maxsplit=1, flags=re.MULTILINE)[0]


def without_unit(name: str, text: str) -> Iterator[str]:
    """Iterate over the floats of a docstring of which no word tells what they count or measure."""
    listed = re.findall(r"^(\w[^\n]*?)(?: : |\n)([^\n]*\n?(?: {4}[^\n]*\n?)*)", text, re.MULTILINE)
    explained = {one for one, rest in listed if UNIT.search(one + rest)}
    for one, rest in listed:
        if re.search(r"\bfloats?\b|\bfloat64\b", rest.partition("\n")[0]) and one not in explained:
            yield f"{name}: the unit of {one}"


def _is_listed(kind: type[Any], attribute: str) -> bool:
    """Whether the docstring of a class, or of one that it inherits from, documents an attribute."""
    return any(_has(inspect.getdoc(base) or "", "Attributes", attribute) for base in kind.__mro__)


def _has(text: str, section: str, name: str) -> bool:
    """Whether a section of a docstring in numpy's style documents a name."""
    _, _, rest = text.partition(f"{section}\n---")
    listed = re.findall(r"^\*{0,2}(\w[\w, *]*?)(?: :|$)", rest, re.MULTILINE)
    return name in {one.strip(" *") for line in listed for one in line.split(",")}
