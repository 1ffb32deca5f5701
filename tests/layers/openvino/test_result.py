"""Tests of network outputs."""

from __future__ import annotations

from pathlib import Path

import openvino as ov
from openvino import opset15 as o15

from .harness import noise, read_net, reference


def test_outputs_keep_names_and_order(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    x = o15.parameter([1, 3], name="x")
    first, second = o15.exp(x), o15.relu(x)
    for node, name in ((first, "zebra"), (second, "ant")):
        node.output(0).set_names({name})
    ov.serialize(ov.Model([o15.result(first), o15.result(second)], [x], "net"), str(path))
    net = read_net(path)
    assert list(net.network.outputs) == ["zebra", "ant"]
    got = net.compile(engine="numpy")({"x": noise(1, 3)})
    for name, want in zip(("zebra", "ant"), reference(path, [noise(1, 3)])):
        assert abs(got[name] - want).max() < 1e-5


def test_one_value_as_two_outputs(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    x = o15.parameter([1, 3], name="x")
    y = o15.exp(x)
    ov.serialize(ov.Model([o15.result(y), o15.result(y)], [x], "net"), str(path))
    assert len(read_net(path).compile(engine="numpy")({"x": noise(1, 3)})) == 2
