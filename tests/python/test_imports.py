# SPDX-License-Identifier: Apache-2.0
"""The package's modules depend one way: no module reaches itself through its imports, those inside functions included."""

import ast
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "weft"
# A module imports what is on lines above its own, and nothing else of the package.
LAYERS = """
errors notebook prepared
_c dlpack custom
sheets schedules
machines profiles problems arrays blocks
caches
frameworks features
operations
plans
simulation tuning recommendation plots
traces tables
ranks
sharing picture html_tables compute masks by_torch
transformers cascade grouped shared_products products xla
dist jax_products jax_ring
torch jax
flash_attn
flash_attn_3 vllm sglang
engines
__init__ __main__
"""
MODULES = {path.stem: path for path in PACKAGE.glob("*.py")}


def imports_of(source, modules):
    """The modules of the package that a source names, by an import statement or, for importlib and sys.modules, as text."""
    found = set()

    def add(path):
        """A dotted path below the package; what is no module is a name in __init__."""
        name = path.partition(".")[0]
        found.add(name if name in modules else "__init__")

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.partition(".")[0] == "weft"):
            below = node.module or "" if node.level else node.module.partition(".")[2]
            for path in [below] if below else [alias.name for alias in node.names]:
                add(path)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "weft":
                    add(alias.name.partition(".")[2])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            package, _, name = node.value.partition(".")
            if package in ("", "weft") and name in modules:
                found.add(name)
    return found


def circle_in(graph):
    """The modules on a way from one back to itself, as a list that begins and ends with it; None: there is no such way."""
    done = set()

    def visit(module, way):
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return None
        for other in sorted(graph[module]):
            circle = visit(other, [*way, module])
            if circle:
                return circle
        done.add(module)
        return None

    return next(filter(None, (visit(module, []) for module in sorted(graph))), None)


def package():
    return {name: imports_of(path.read_text(), MODULES) for name, path in MODULES.items()}


def test_no_circle():
    assert circle_in(package()) is None


def test_layers():
    layer = {name: i for i, line in enumerate(LAYERS.split("\n")) for name in line.split()}
    graph = package()
    assert layer.keys() == graph.keys()
    assert [(name, other) for name in graph for other in graph[name] if layer[other] >= layer[name]] == []


def test_every_way_to_import_counts():
    modules = {"__init__", "a", "b", "torch"}
    for source, expected in (
        ("from . import a", {"a"}), ("from .a import x", {"a"}), ("from . import x", {"__init__"}), ("import weft.b as c", {"b"}),
        ("import weft", {"__init__"}), ("from weft import b", {"b"}), ("from weft.a import x", {"a"}), ("import torch", set()),
        ("from torch import nn", set()), ("def f():\n    from . import torch as t", {"torch"}),
        ("importlib.import_module('.a', __package__)", {"a"}), ("sys.modules['weft.torch']", {"torch"}), ("x = 'torch'", set()),
    ):  # fmt: skip
        assert imports_of(source, modules) == expected, source


def test_circles_are_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle_in({"a": {"a"}}) == ["a", "a"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
