"""Networks with absent optional inputs, open sizes and other dtypes than float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.api import Net
from anylayer.compile.plan import make_plan
from anylayer.errors import InputError
from anylayer.inspect.profile import profile
from anylayer.inspect.verify import verify
from anylayer.layer import Layer
from anylayer.layer.registry import Definition
from anylayer.network import Network, Node, TensorType
from tests.engine_names import ALL


class Sum(Layer):
    """Compute a + b + c, where b may be absent."""

    def forward(self, a: Any, b: Any, c: Any) -> Any:
        return a + c if b is None else a + b + c


class Branching:
    """Compute Sum with OpenCV's contract, in a way that cannot be traced."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        a, b, c = inputs
        return [a + c if float(str(a.max())) > -1e9 and b is None else a]


def net(cls: Any, **more: Any) -> Net:
    kind = TensorType((2, 3), np.dtype(np.int32))
    network = Network(
        "n",
        "caffe",
        {"x": kind, "y": kind},
        [Node("s", "S", ["x", "", "y"], ["s"], place="n: layer 's' (S)")],
        {"s": "s"},
        source="n",
        **more,
    )
    return Net(network, {"S": Definition("S", cls, "here")})


@pytest.mark.filterwarnings("ignore:layer 's' .S. runs in Python")
@pytest.mark.parametrize("cls", [Sum, Branching])
@pytest.mark.parametrize("engine", ALL)
def test_absent_input_is_none(cls: Any, engine: str) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    subject = net(cls)
    out = subject.compile(engine)({"x": x, "y": x})["s"]
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, 2 * x)
    assert [name for name, _ in subject.inspect().nodes[0].inputs] == ["x", "y"]


@pytest.mark.parametrize("cls", [Sum, Branching])
def test_verify_and_profile_accept_an_absent_input(cls: Any) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert [check.ok for check in verify(net(cls), {"x": x, "y": x})] == [True]
    found = profile(net(cls), {"x": x, "y": x}, "onnxruntime", seconds=0.01)
    assert {name for cost in found.costs for name in cost.layers} == {"s"}


def test_open_size_needs_a_shape() -> None:
    subject = net(Sum)
    subject.network.inputs["x"] = None
    subject.network.open["x"] = (None, 3)
    with pytest.raises(InputError, match=r"^n: the shape of input 'x' is \[\?, 3\] in the file\. Give shapes=\{"):
        make_plan(subject.network, subject.definitions, subject.inputs, {"s": "s"})


class Constant(Layer):
    """Return 1, 2, 3."""

    def forward(self) -> Any:
        return np.arange(1, 4, dtype=np.int32)


class Twice(Layer):
    """Return 2 x."""

    def forward(self, x: Any) -> Any:
        return x * np.int32(2)


def test_report_layers_omit_nodes_that_only_make_constants() -> None:
    subject = net(Sum)
    place = "n: layer 'c' (C)"
    subject.network.nodes = [
        Node("c", "C", [], ["c"], place=place),
        Node("d", "D", ["c"], ["d"], place=place),
        Node("s", "S", ["x", "d", "y"], ["s"], place=place),
    ]
    kinds = {"S": Sum, "C": Constant, "D": Twice}
    report = Net(subject.network, {t: Definition(t, c, "here") for t, c in kinds.items()}).inspect()
    assert [n.where for n in report.nodes] == ["constant", "constant", "engine"]
    assert [n.name for n in report.layers] == ["s"]
    assert [n.name for n in report.layers] == ["s"]
    assert [n["name"] for n in report.to_dict()["nodes"]] == ["c", "d", "s"]
