"""A message names the user's line, not a line of a package that the user's code calls."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import TraceError
from anylayer.graph import place
from anylayer.network import TensorType
from anylayer.tracing import trace
from anylayer.tracing.checked import trace_checked

X = TensorType((2, 3), np.dtype("float32"))

NET = """
name: "net" input: "x" input_shape { dim: 2 dim: 3 }
layer { name: "mine" type: "Mine" bottom: "x" top: "y" }
"""

PACKAGE = """
import numpy as np

def threshold(x):
    return x if x > 0 else -x

def convert(x):
    return np.asarray(x) * 2

def measure(x):
    return float(x[0, 0])

def apply(function, x):
    return function(x)

def fail(x):
    raise KeyError("nothing here")
"""

LAYER = """
import somewhere

def threshold(x):
    return somewhere.threshold(x) + 1

def convert(x):
    return somewhere.convert(x) + 1

def measure(x):
    return x * somewhere.measure(x)

def inside(x):
    return somewhere.apply(lambda y: y if y > 0 else -y, x)

def fine(x):
    return somewhere.apply(lambda y: y * 2, x)

def fail(x):
    return somewhere.fail(x)
"""


def module(name: str, text: str, file: Path) -> ModuleType:
    """Return a module whose code claims to come from a file."""
    made = ModuleType(name)
    exec(compile(text, str(file), "exec"), made.__dict__)
    return made


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a user's module that calls an installed package."""
    installed = Path(sysconfig.get_path("purelib")) / "somewhere.py"
    monkeypatch.setitem(sys.modules, "somewhere", module("somewhere", PACKAGE, installed))
    return module("mine", LAYER, tmp_path / "mine.py")


@pytest.mark.parametrize(("name", "line", "at"), [("threshold", 5, 5), ("convert", 8, 8), ("measure", 11, 11)])
def test_refusal_names_lines_of_user_and_package(layer: Any, name: str, line: int, at: int) -> None:
    with pytest.raises(
        TraceError, match=rf"mine.py:{line}: .*{name}\(\) \(at somewhere.py:{at}\) needs the values"
    ):
        trace(lambda xs: [getattr(layer, name)(xs[0])], [X])


def test_callback_of_user_is_users_line(layer: Any) -> None:
    with pytest.raises(TraceError, match=r"mine.py:14: if, while, and, or, not"):
        trace(lambda xs: [layer.inside(xs[0])], [X])


def test_operators_keep_users_line(layer: Any) -> None:
    graph = trace(lambda xs: [layer.fine(xs[0])], [X])
    assert [o.place for o in graph.ops] == ["mine.py:17"]


def test_line_that_calls_the_shared_code_of_built_in_layers_is_named(tmp_path: Path) -> None:
    shared = module(
        "_shared", "def double(x):\n    return x * 2\n", Path(anylayer.__file__).parent / "layers/_shared.py"
    )
    mine = module("mine", "def forward(double, x):\n    return double(x)\n", tmp_path / "mine.py")
    graph = trace(lambda xs: [mine.forward(shared.double, xs[0])], [X])
    assert [o.place for o in graph.ops] == ["mine.py:2"]


def test_exception_in_package_names_users_line(layer: Any) -> None:
    with pytest.raises(TraceError, match=r"mine.py:20: forward raised .KeyError: 'nothing here'. when it was"):
        trace_checked(lambda xs: [layer.fail(xs[0])], [X])


def test_installed_layer_is_named(tmp_path: Path) -> None:
    installed = Path(sysconfig.get_path("purelib")) / "somewhere.py"
    text = (
        PACKAGE.replace("x > 0", "str(x.any()) == 'True'")
        + """
class Mine:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [threshold(inputs[0])]
"""
    )
    net = tmp_path / "net.prototxt"
    net.write_text(NET)
    read = anylayer.read(net, layers={"Mine": module("somewhere", text, installed).Mine})
    with pytest.warns(UserWarning, match=r"runs in Python: somewhere.py:5: .*f-string needs"):
        read.compile(engine="onnxruntime")


def test_files_of_tracer_are_not_users_code() -> None:
    for room in ("graph", "tracing", "ops"):
        file = str(Path(place.__file__).parents[1] / room / "anything.py")
        assert place._kind(file) == place._RECORDER
