"""Plugins behind the C ABI, compiled here: loading them, and what they are shown."""

from __future__ import annotations

import ctypes
import gc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.engine import from_address, from_capsule, include_dir, schedule_one
from tests.framework.runtime.compiled import compiled
from tests.make import configuration, container, node, pod
from tests.scheduler.make import scheduler_with

from moorage import Scheduler, load_native_plugin
from moorage.engine.framework import Plugin, Registry
from moorage.engine.scheduler import Profile
from moorage.errors import InputError
from moorage.kube import Cluster, Container, ResourceRequirements

GPU, FPGA = "example.com/gpu", "example.com/fpga"
Make = Callable[..., Path]
NULL_BYTE = "embedded null byte" if sys.version_info < (3, 13) else "lstat: embedded null character in path"
"""What the interpreter says of such a path."""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Compiles the probe with macros."""
    return lambda **macros: compiled(tmp_path, **macros)


# ---- loading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("macros", "points", "weight"),
    [
        ({"FILTER": "by_pool"}, {"filter"}, 0),
        ({"SCORE": "by_gpus", "WEIGHT": 3}, {"score"}, 3),
        ({"FILTER": "by_pool", "SCORE": "by_gpus"}, {"filter", "score"}, 0),
    ],
)
def test_a_plugin_extends_what_it_has_functions_for(
    make: Make, macros: dict[str, Any], points: set[str], weight: int
) -> None:
    plugin = load_native_plugin(make(**macros))
    assert (plugin.name, set(plugin.extension_points), plugin.default_weight) == ("Probe", points, weight)
    assert plugin.in_core


@pytest.mark.parametrize(
    ("macros", "text"),
    [
        ({"ABI": "2u"}, "plugin ABI 2, where this moorage has 1"),
        ({"ABI": "0u"}, "plugin ABI 0, where this moorage has 1"),
        ({"SIZE": 64}, "struct_size 64 of the plugin is below 112"),
        ({"SIZE": 111}, "struct_size 111 of the plugin is below 112"),
        ({"NAME": "0"}, "the plugin has no name"),
        ({"NAME": '""'}, "the plugin has no name"),
        ({"NAME": '"\\xff"'}, "name of the plugin is not UTF-8"),
        ({"NAME": '"NodeName"'}, 'plugin "NodeName" has the name of a plugin of the core'),
        ({"REASON": '"\\xff"'}, "reason of the plugin is not UTF-8"),
        ({"FILTER": "0"}, 'plugin "Probe" has neither filter nor score'),
        ({"NORMALIZE": "doubles"}, 'plugin "Probe" has normalize, but no score'),
        ({"WEIGHT": "-1"}, 'plugin "Probe" has weight -1'),
        ({"RESOURCE": '"cpu"'}, 'plugin "Probe" declares the resource cpu, which every row has anyway'),
        ({"SYMBOL": "another"}, "no symbol moorage_plugin"),
    ],
)
def test_a_wrong_plugin_is_refused(make: Make, macros: dict[str, Any], text: str) -> None:
    library = make(**({"FILTER": "by_pool"} | macros))
    with pytest.raises(InputError) as caught:
        load_native_plugin(library)
    assert str(caught.value) == f"{library}: {text}"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (None, "target - 0 mode - who -"),
        ({"target": 40, "mode": "fast"}, "target 40 40 mode fast who -"),
        (
            {"target": 0.5, "mode": True, "who": ["a", {"b": 1}]},
            'target 0.5 0.5 mode true who ["a", {"b": 1}]',
        ),
        ({"target": None}, "target - 0 mode - who -"),
    ],
)
def test_a_plugin_gets_its_arguments(make: Make, args: dict[str, Any] | None, text: str) -> None:
    plugin = load_native_plugin(make(FILTER="tells_arguments"), args=args)
    decision = schedule_one(scheduler_with(plugin).context, pod("p"))
    assert text in decision.error
    assert text in schedule_one(scheduler_with(plugin.another()).context, pod("p")).error


def test_a_configuration_gives_a_plugin_its_arguments(make: Make) -> None:
    library = make(FILTER="tells_arguments")
    registry = Registry({"Probe": lambda args, handle: load_native_plugin(library, args=args)})
    profile = {
        "plugins": {"filter": {"enabled": [{"name": "Probe"}]}},
        "pluginConfig": [{"name": "Probe", "args": {"mode": "slow"}}],
    }
    config = configuration(profiles=[profile])
    of = Scheduler(Cluster(nodes=[node("a")]), config=config, registry=registry)
    assert "mode slow" in of.schedule_one(pod("p")).error


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"targets": 1}, 'targets: plugin "Probe" has no such argument; nearest: target'),
        ({"mode": "a\0b"}, "mode: a plugin in C takes no text with a NUL"),
    ],
)
def test_arguments_that_a_plugin_does_not_declare_are_refused(
    make: Make, args: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_native_plugin(make(FILTER="tells_arguments"), args=args)
    assert str(caught.value).endswith(text)


def test_a_plugin_sees_what_each_container_asks_for(make: Make) -> None:
    plugin = load_native_plugin(make(FILTER="tells_containers"))
    limits = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2"})
    containers = (container(), Container(name="d", resources=limits))
    of = scheduler_with(plugin)
    first = schedule_one(of.context, pod("p", containers=containers)).error
    assert "containers 2: -1 -1 -1 -1; 1000 2000 1073741824 -1;" in first
    more = ResourceRequirements(requests=limits.requests, limits={"cpu": "3"})
    containers = (container(), Container(name="d", resources=more))
    assert "1000 3000 1073741824 -1;" in schedule_one(of.context, pod("q", containers=containers)).error


def test_a_plugin_is_loaded_by_the_symbol_that_is_named(make: Make) -> None:
    library = make(FILTER="by_pool", SYMBOL="another")
    assert load_native_plugin(library, "another").name == "Probe"
    with pytest.raises(InputError, match=r"'a;b' is not the name of a symbol$"):
        load_native_plugin(library, "a;b")


def test_a_struct_of_a_later_version_is_read_as_far_as_it_is_known(make: Make) -> None:
    assert load_native_plugin(make(FILTER="by_pool", SIZE=4096)).name == "Probe"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("absent.so", r"absent\.so: no such file"),
        ("text.so", r"text\.so: not a shared library: .+"),
        ("circle", "circle: (not a path: .+|no such file)"),
        ("a\0b", re.escape(rf"a\x00b: not a path: {NULL_BYTE}")),
        ("x" * 300, f"{'x' * 300}: not a path: File name too long"),
        ("a/" * 3000, f"{'a/' * 3000}: not a path: File name too long"),
        ("", "'': no such file"),
    ],
)
def test_a_path_that_names_no_library_is_refused(
    path: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.so").write_text("int main;")
    Path("circle").symlink_to("round")
    Path("round").symlink_to("circle")
    with pytest.raises(InputError) as caught:
        load_native_plugin(path)
    assert re.fullmatch(text, str(caught.value))


@pytest.mark.parametrize("symbol", ["", "a\0b", "é", "\ud800"])
def test_no_name_of_a_symbol(make: Make, symbol: str) -> None:
    library = make(FILTER="by_pool")
    with pytest.raises(InputError) as caught:
        load_native_plugin(library, symbol)
    assert str(caught.value) == f"{library}: {symbol!r} is not the name of a symbol"


def test_a_symbol_like_an_attribute_of_python(make: Make) -> None:
    with pytest.raises(InputError, match=r": no symbol __class__$"):
        load_native_plugin(make(FILTER="by_pool"), "__class__")


def test_a_name_is_taken_once(make: Make) -> None:
    library = make(FILTER="by_pool")
    with pytest.raises(InputError, match=r'^plugin "Probe" already registered as "FilterPlugin"$'):
        Profile([load_native_plugin(library), load_native_plugin(library)])
    registry = Registry()
    registry.register("Probe", lambda args, handle: load_native_plugin(library))
    with pytest.raises(InputError, match=r"^a plugin named Probe already exists$"):
        registry.register("Probe", lambda args, handle: load_native_plugin(library))


@pytest.mark.parametrize("address", [0, -8, 1 << 64, "x", None, 12345679])
def test_what_is_no_address_of_a_plugin_is_refused(address: Any) -> None:
    with pytest.raises(InputError, match=r"^plugin at an address: .* is not the address of a plugin"):
        from_address(address)


def capsule(address: int, name: bytes) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, name, None)


def address_in(library: ctypes.CDLL) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(library, "moorage_plugin"))


def places(plugin: Plugin) -> dict[str, str]:
    """Where two pods go among nodes that `by_pool` rejects but for one."""
    nodes = [
        node("a", labels={"pool": "bad"}),
        node("b", labels={"pool": "good"}),
        node("c", labels={"pool": "worse"}),
    ]
    return scheduler_with(plugin, nodes=nodes, pods=[pod("p"), pod("q")]).run().placements


def test_from_an_address(make: Make) -> None:
    library = ctypes.CDLL(str(make(FILTER="by_pool")))
    assert places(from_address(address_in(library), keep=library)) == {"default/p": "b", "default/q": "b"}


NAME = b"moorage_plugin"  # a capsule keeps the address of its name


def test_from_a_capsule(make: Make) -> None:
    library = ctypes.CDLL(str(make(FILTER="by_pool")))
    assert places(from_capsule(capsule(address_in(library), NAME))) == {"default/p": "b", "default/q": "b"}
    with pytest.raises(InputError, match=r'^plugin in a capsule: not a capsule named "moorage_plugin"$'):
        from_capsule(capsule(address_in(library), b"else"))
    with pytest.raises(InputError, match=r'^plugin in a capsule: not a capsule named "moorage_plugin"$'):
        from_capsule(object())


def test_destroy_is_called_when_nobody_can_call_the_plugin_any_more(make: Make) -> None:
    file = make(FILTER="by_pool")
    library = ctypes.CDLL(str(file))
    destroyed = ctypes.c_int32.in_dll(library, "moorage_counts")
    plugin = load_native_plugin(file)
    one = scheduler_with(plugin)
    del plugin
    gc.collect()
    assert destroyed.value == 0
    del one
    gc.collect()
    assert destroyed.value == -1


def test_a_plugin_that_was_refused_is_not_destroyed(make: Make) -> None:
    file = make(FILTER="by_pool", WEIGHT="-1")
    library = ctypes.CDLL(str(file))
    with pytest.raises(InputError):
        load_native_plugin(file)
    gc.collect()
    assert ctypes.c_int32.in_dll(library, "moorage_counts").value == 0


@pytest.mark.parametrize("compiler", [["cc", "-std=c11", "-xc"], ["c++", "-std=c++11", "-xc++"]])
def test_the_header_stands_alone(tmp_path: Path, compiler: list[str]) -> None:
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include_dir()}", "-fsyntax-only"]
    source = tmp_path / "empty"
    source.write_text("#include <moorage/plugin.h>\nstruct moorage_plugin plugin;\n")
    subprocess.run([*compiler, *strict, str(source)], check=True)


# ---- what a plugin is shown --------------------------------------------------------------------------------


def told(library: Path, nodes: list[Any], pods: list[Any]) -> str:
    """The text that a filter fails with for the last of the pods; the others are bound."""
    one = scheduler_with(load_native_plugin(library), nodes=nodes, pods=pods[:-1])
    return schedule_one(one.context, pods[-1]).error.removeprefix('running "Probe" filter plugin: ')


def test_a_plugin_reads_the_amounts_and_labels_of_rows(make: Make) -> None:
    nodes = [
        node("7", labels={"pool": "bé"}, cpu="2", memory="1Ki", **{GPU: "4"}),
        node("b", unschedulable=True),
    ]
    there = pod("q", "7", requests={"cpu": "300m", GPU: "3"})
    assert told(make(FILTER="tells_row"), nodes, [there, pod("p")]) == (
        "7 of 2, 1 asked: cpu 2000-300-300 memory 1024-0-2.09715e+08 pods 1/10 flags 1 gpu 4-3 fpga 0-0 "
        "pool bé number 1:7 none 1"
    )


def test_a_plugin_reads_the_requests_and_labels_of_the_pod(make: Make) -> None:
    requests = {"cpu": "1500m", FPGA: "2"}
    text = told(
        make(FILTER="tells_pod"),
        [node("a", **{FPGA: "2"})],
        [pod("p", requests=requests, labels={"app": "x"})],
    )
    assert text == "default cpu 1500 1500 memory 0 209715200 gpu 0 fpga 2 pool - app x 1"


def test_values_beyond_doubles(make: Make) -> None:
    memory = (1 << 60) + 1
    text = told(make(FILTER="tells_exact"), [node("a", memory=str(memory))], [pod("p")])
    assert text == f"4000 {memory} 0"


def test_a_text_without_an_end_is_cut(make: Make) -> None:
    assert told(make(FILTER="overflows"), [node("a")], [pod("p")]) == "x" * 255


def test_text_that_utf_8_cannot_say(make: Make) -> None:
    text = told(make(FILTER="tells_row"), [node("a", labels={"pool": "\ud800"})], [pod("p")])
    assert text.endswith("pool - number 0:0 none 1")


def test_nodes_that_come_and_labels_that_change_are_seen(make: Make) -> None:
    one = scheduler_with(
        load_native_plugin(make(FILTER="by_pool")), nodes=[node("a", labels={"pool": "bad"})]
    )
    assert schedule_one(one.context, pod("p")).node is None
    for number in range(100):  # more than fit the memory of the start
        one.cache.add_node(node(f"n{number}", labels={"pool": "worse"}))
    assert schedule_one(one.context, pod("p")).node is None
    one.cache.update_node(node("a", labels={"pool": "bad"}), node("a", labels={"pool": "good"}))
    assert schedule_one(one.context, pod("p")).node == "a"
