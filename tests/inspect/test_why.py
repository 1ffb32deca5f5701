"""`inspect --why` says which rules replace the operators of a node, and why others do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.cli import main
from anylayer.errors import InputError
from anylayer.inspect.why import why
from anylayer.network import TensorType
from anylayer.optimize.rules import RuleLog
from anylayer.optimize.simplify import simplify
from anylayer.tracing import trace

NET = """
input: "data" input_shape {{ dim: 1 dim: 3 dim: 8 dim: 8 }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {{ num_output: 4 kernel_size: 3 }} }}
layer {{ name: "scale" type: "Scale" bottom: "conv" top: "scale"
  scale_param {{ filler {{ type: "constant" value: 2 }} }} }}
layer {{ name: "relu" type: "ReLU" bottom: "{relu}" top: "relu" }}
layer {{ name: "sum" type: "Eltwise" bottom: "scale" bottom: "relu" top: "sum" }}
layer {{ name: "prelu" type: "PReLU" bottom: "sum" top: "prelu" }}
layer {{ name: "lrn" type: "LRN" bottom: "prelu" top: "lrn" }}
"""
_FOLD = "Mul: Fold a scale and a shift per channel into the convolution"


def net(tmp_path: Path, relu: str) -> Path:
    (tmp_path / "net.prototxt").write_text(NET.format(relu=relu))
    return tmp_path / "net.prototxt"


def explained(path: Path, node: str, engine: str) -> list[str]:
    return [*why(anylayer.read(path).fill(), node, [engine])]


def test_consumers_of_the_convolution_are_the_reason(tmp_path: Path) -> None:
    lines = explained(net(tmp_path, "conv"), "scale", "onnxruntime")
    assert lines[:3] == ["scale (Scale)", "  records Mul", "  onnxruntime: Mul"]
    (line,) = [text for text in lines if _FOLD in text]
    assert line.startswith("    not applied to") and line.endswith("has other consumers")


def test_applied_rule_is_named(tmp_path: Path) -> None:
    lines = explained(net(tmp_path, "scale"), "scale", "onnxruntime")
    assert any(line.startswith(f"    applied to {_FOLD}") for line in lines)
    assert not any("not applied to " + _FOLD in line for line in lines)


def test_rule_for_another_engine_says_so(tmp_path: Path) -> None:
    path = net(tmp_path, "scale")
    (line,) = [text for text in explained(path, "lrn", "openvino") if "1x1 Conv" in text]
    assert line.endswith(": it is for onnxruntime only")
    (line,) = [text for text in explained(path, "prelu", "onnxruntime") if "Compute PRelu" in text]
    assert line.startswith("    applied to PRelu: ")
    assert "  openvino: PRelu" in explained(path, "prelu", "openvino")


def test_correction_is_named(tmp_path: Path) -> None:
    """OpenVINO must not fuse the operators before a comparison."""
    (tmp_path / "layers.py").write_text(
        "import numpy as np\nimport anylayer\n"
        '@anylayer.layer("Above")\n'
        "class Above(anylayer.Layer):\n"
        "    def forward(self, inputs):\n"
        "        return [np.where(np.floor(inputs[0] * np.float32(3) + np.float32(1)) > 2, inputs[0], 0)]\n"
    )
    text = 'input: "x" input_shape { dim: 2 dim: 3 }\nlayer { name: "a" type: "Above" bottom: "x" top: "y" }'
    (tmp_path / "net.prototxt").write_text(text)
    lines = [*why(anylayer.read(tmp_path / "net.prototxt", layers=tmp_path / "layers.py"), "a", ["openvino"])]
    assert "    applied to Add: Round after each operator, and compute Div by division" in lines


def test_pattern_names_the_part_that_differs() -> None:
    def almost(x: np.ndarray) -> np.ndarray:
        return ops.relu(x) + np.float32(0.1) * np.maximum(x, np.float32(-1))

    graph = trace(lambda xs: [almost(*xs)], [TensorType.of((2, 3), np.float32)])
    log = RuleLog()
    simplify(graph, log=log)
    trials = [t for t in log.trials if t.rule.apply.__name__ == "_relu_and_minimum" and not t.applied]
    assert any(t.reason.endswith("is not computed by Min") for t in trials)


def test_last_bits_are_the_reason_before_a_selection() -> None:
    def selected(x: np.ndarray) -> np.ndarray:
        scaled = (x - np.float32(0.1)) / np.float32(0.3)
        return np.argmax(scaled, 1)

    graph = trace(lambda xs: [selected(*xs)], [TensorType.of((1, 3, 8, 8), np.float32)])
    log = RuleLog()
    simplify(graph, "onnxruntime", log=log)
    reasons = {t.reason for t in log.trials if t.rule.apply.__name__ == "_affine_chain" and not t.applied}
    assert "its last bits can change a later comparison, rounding or selection" in reasons


def test_log_does_not_change_the_graph() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x)) + np.maximum(x, 0)

    graph = trace(lambda xs: [function(*xs)], [TensorType.of((1, 3, 8, 8), np.float32)])
    for engine in (None, "onnxruntime", "openvino"):
        logged = simplify(graph, engine, log=RuleLog())
        assert [(o.op, o.attrs) for o in logged.ops] == [(o.op, o.attrs) for o in simplify(graph, engine).ops]


def test_unknown_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no node 'scal'; did you mean 'scale'"):
        explained(net(tmp_path, "conv"), "scal", "onnxruntime")


def test_command_prints_the_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", str(net(tmp_path, "conv")), "--why", "scale"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "scale (Scale)" in out and "has other consumers" in out
