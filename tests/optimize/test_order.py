"""The order of rules is that of optimize/order.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from anylayer.folders import modules
from anylayer.optimize.order import FILES, NEEDS, ONLY_FOR, STAGES, load_rules
from anylayer.optimize.rewrites import gelu
from anylayer.optimize.rules import ANY, RULES, rule

_ORDER = "import sys; sys.path[:] = {path!r}\n{first}\nfrom anylayer.optimize.rules import RULES\n"
_ORDER += "from anylayer.optimize.order import load_rules\nload_rules('optimize')\n"
_ORDER += "print([r.apply.__qualname__ for r in RULES])"


def test_order_does_not_depend_on_imports() -> None:
    def order(first: str) -> str:
        code = _ORDER.format(path=sys.path, first=first)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert order("import anylayer.optimize.rewrites.transposes, anylayer.optimize.rewrites.repeats") == order("")


def test_every_file_of_rewrites_is_listed() -> None:
    listed = {name for name, _ in FILES if name.startswith("optimize.rewrites.")}
    assert listed == {f"optimize.rewrites.{name}" for name in modules("optimize/rewrites")}


def test_every_rewrite_is_in_a_stage() -> None:
    load_rules("optimize")
    stages = {name for names, _ in STAGES for name in names}
    assert {r.stage for r in RULES if r.apply.__module__.startswith("anylayer.optimize.")} == stages


def test_rule_of_an_unlisted_file_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"test_order declares rules, so FILES in optimize/order\.py must list it"
    ):
        rule("Add")(lambda new, o: None)


@pytest.mark.parametrize("name", [name for name in ONLY_FOR if name != "optimize.layout_rules"])
def test_index_of_operators_is_that_of_the_rules(name: str) -> None:
    load_rules(name.split(".")[0])
    registered: dict[str, set[str]] = {}
    for r in RULES:
        for target in (r.targets or {""}) if r.apply.__module__ == f"anylayer.{name}" else ():
            registered.setdefault(target, set()).update(r.ops)
    want = {target: {ANY} if ANY in ops else ops for target, ops in registered.items()}
    assert {target: {*ops.split()} for target, ops in ONLY_FOR[name].items()} == want


def test_gelu_is_loaded_for_the_operators_that_it_reads() -> None:
    assert {*NEEDS["optimize.rewrites.gelu"].split()} == {*gelu._INNER}


_LOADED = """import sys; sys.path[:] = {path!r}
import numpy as np
from anylayer.network import TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import trace

graph = trace(lambda arrays: {result}, [TensorType.of((2, 3), np.float32)])
simplify(graph, "onnxruntime")
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("anylayer.optimize")))
"""


def test_files_of_rules_are_loaded_for_their_operators() -> None:
    def loaded(result: str) -> set[str]:
        code = _LOADED.format(path=sys.path, result=result)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return {*done.stdout.split()}

    few = loaded("[np.maximum(arrays[0] * 3, 0)]")
    assert {"identity", "activations"} <= few and not {"layout", "layout_rules", "sums", "blocks", "gelu"} & few
    more = loaded("[arrays[0].T[0:2].sum(0)]")
    assert {"layout", "layout_rules", "sums", "blocks"} <= more
