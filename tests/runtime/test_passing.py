"""Graphs with an output that is an input, or a reshaped one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.engines import load_engine
from anylayer.errors import EngineError
from anylayer.network import TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import record, trace
from tests.engine_names import GENERAL

SHAPE = (3, 4)
FUNCTIONS: dict[str, Callable[[Any], list[Any]]] = {
    "itself": lambda x: [x],
    "twice": lambda x: [x, x],
    "reshaped": lambda x: [x.reshape(-1), x],
    "beside another": lambda x: [x, x + np.float32(1)],
    **{
        op: lambda x, op=op: [record(op, [x], SHAPE, np.float32)]
        for op in ("Max", "Min", "Sum", "Mean", "Dropout")
    },
    "and on": lambda x: [np.maximum(record("Dropout", [x], SHAPE, np.float32), np.float32(2))],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("engine", GENERAL)
def test_outputs_that_are_an_input_have_its_values(name: str, engine: str) -> None:
    def plain(x: np.ndarray) -> list[np.ndarray]:
        known = {"itself": [x], "twice": [x, x], "reshaped": [x.reshape(-1), x], "beside another": [x, x + 1]}
        return known.get(name, [np.maximum(x, 2) if name == "and on" else x])

    graph = trace(lambda xs: FUNCTIONS[name](xs[0]), [TensorType.of(SHAPE)])
    program = load_engine(engine).compile(simplify(graph, engine, exact=True), 1)
    for start in range(3):
        x = np.arange(12, dtype=np.float32).reshape(SHAPE) + start
        for out in (None, [np.empty(v.shape, v.dtype) for v in graph.outputs]):
            got = program([x], out)
            assert len(got) == len(graph.outputs)
            for a, b in zip(got, plain(x)):
                np.testing.assert_array_equal(a, b)


def test_input_that_openvino_loses_is_refused() -> None:
    graph = trace(lambda xs: [record("Dropout", [xs[0]], SHAPE, np.float32)], [TensorType.of(SHAPE)])
    with pytest.raises(EngineError, match="engine 'openvino' has an input 'dropout_1', which the graph"):
        load_engine("openvino").compile(graph, 1)
