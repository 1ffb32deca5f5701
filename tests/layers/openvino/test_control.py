"""Loops of an IR. tests/layers/onnx/test_control.py reads what is written from ONNX."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

import anylayer
from anylayer.errors import AnyLayerError
from anylayer.testing import assert_same
from tests.engine_names import ALL


def written(folder: Path, limit: Any = None, stops: bool = True) -> Path:
    """Write a loop in which s doubles until it exceeds 50; each s is a row, and its step is added to w."""
    step, s, w = (
        ops.parameter(shape, dtype) for shape, dtype in (([], np.int64), ([2], np.float32), ([], np.float32))
    )
    twice = ops.multiply(s, np.float32(2))
    more = ops.add(w, ops.convert(step, "f32"))
    goes_on = ops.less(ops.reduce_max(twice, np.int64([0]), False), np.float32(50))
    row = ops.unsqueeze(twice, np.int64([0]))
    body = ov.Model([goes_on if stops else ops.constant(np.array(True)), twice, more, row], [step, s, w], "body")
    x, n = ops.parameter([2], np.float32, "x"), ops.parameter([], np.int64, "n")
    x.output(0).set_names({"x"})
    n.output(0).set_names({"n"})
    loop = ops.loop(n if limit is None else ops.constant(np.int64(limit)), ops.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([0, 0])
    loop.set_merged_input(s, x.output(0), twice.output(0))
    loop.set_merged_input(w, ops.constant(np.float32(0)).output(0), more.output(0))
    outputs = [loop.get_iter_value(twice.output(0), -1), loop.get_iter_value(more.output(0), -1)]
    outputs.append(loop.get_concatenated_slices(row.output(0), 0, 1, 1, -1, 0))
    model = ov.Model([ops.result(o) for o in outputs], [x, n] if limit is None else [x], "model")
    ov.save_model(model, folder / "net.xml", compress_to_fp16=False)
    return folder / "net.xml"


def expected(x: Any, limit: int) -> list[Any]:
    rows, w = [], 0
    while len(rows) < limit and (not rows or rows[-1].max() < 50):
        w += len(rows)
        x = x * 2
        rows.append(x)
    return [x, np.float32(w), np.stack(rows)]


@pytest.mark.parametrize("engine", ALL)
def test_loop_matches_its_definition(engine: str, tmp_path: Path) -> None:
    model = anylayer.read(written(tmp_path)).compile(engine)
    for limit, x in ((1, [1, 2]), (3, [1, 2]), (30, [1, 2]), (30, [60, 1])):
        x = np.float32(x)
        for result, want in zip(model({"x": x, "n": np.array(limit)}).values(), expected(x, limit)):
            assert_same(result, want)


@pytest.mark.parametrize("limit", [2, -1])
def test_loop_of_constant_limit(limit: int, tmp_path: Path) -> None:
    for engine in ALL:
        results = anylayer.read(written(tmp_path, limit)).compile(engine)({"x": np.float32([1, 2])})
        for result, want in zip(results.values(), expected(np.float32([1, 2]), limit % 100)):
            assert_same(result, want)


BAD = {
    "port_map": (r"<port_map>.*</port_map>", "", "the loop has no <body> or no <port_map>"),
    "a port": (r'external_port_id="3"', 'external_port_id="77"', "the loop has no port 77"),
    "a layer": (
        r'to-layer="\d+" />\s*</back_edges>',
        'to-layer="88" /></back_edges>',
        "the body has no such layer",
    ),
    "slices": (r'<input external_port_id="2"', '<input axis="0" external_port_id="2"', "slices of an input"),
    "an axis": (r'axis="0"', 'axis="1"', "stacked along axis 0"),
}


@pytest.mark.parametrize("pattern, other, text", BAD.values(), ids=BAD)
def test_changed_loop_is_refused(pattern: str, other: str, text: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    markup = path.read_text()
    changed = re.sub(pattern, other, markup, count=1, flags=re.DOTALL)
    assert changed != markup
    path.write_text(changed)
    with pytest.raises(AnyLayerError, match=re.escape(text)):
        anylayer.read(path)
