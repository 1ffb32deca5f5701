"""The order of rules is that of optimize/order.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from anylayer.folders import modules
from anylayer.optimize.order import FILES, STAGES, load_rules
from anylayer.optimize.rules import RULES, rule

_ORDER = "import sys; sys.path[:] = {path!r}\n{first}\nfrom anylayer.optimize.simplify import RULES, simplify\n"
_ORDER += "from anylayer.graph import Graph\nsimplify(Graph())\nprint([r.apply.__qualname__ for r in RULES])"


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
