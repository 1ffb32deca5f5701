"""Compute the outputs of a plan in NumPy, with the hardware's rounding to 16-bit floats. In a deep network, the
rounding errors of the layers add up to more than the tolerance of the test, although each layer is correct. A test
against these outputs detects only errors of the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from anylayer.errors import at, wording
from anylayer.generators import Expected, Sample
from anylayer.generators.dv.graphs import TooLarge
from anylayer.generators.dv.plan import Convolution, DvLayer, DvPlan, FullyConnected, Runs
from anylayer.graph import Graph, Op, Value
from anylayer.layer.in_numpy import compute
from anylayer.network import Array
from anylayer.source import Source

_WEIGHTS = {"Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (1, 2), "MatMul": (1,), "PRelu": (1,)}
"""The inputs of operators that the hardware reads as 16-bit floats."""


def rounded(x: Array) -> Array:
    """Return an array of 32-bit floats with the precision of 16-bit floats; other arrays as they are."""
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float16).astype(np.float32) if x.dtype.kind == "f" else np.array(x)


def _half(x: Array) -> Array:
    """Return an array with the precision of 16-bit floats, without their limits."""
    halves = rounded(x)
    return np.where(np.isfinite(halves), halves, x).astype(halves.dtype)


def simulated(plan: DvPlan, expected: Expected) -> Expected:
    """Return the inputs with the outputs that the hardware computes, except for its order of summation."""
    simulation = _Simulation(plan)
    return replace(expected, samples=[simulation.sample(sample) for sample in expected.samples])


def with_half_layers(source: Source, expected: Expected) -> Expected:
    """Return the inputs with the outputs of the layers in NumPy, each of which takes and returns 16-bit floats."""
    samples = []
    for sample in expected.samples:
        values: dict[str, Array | None] = {"": None, **{n: _half(x) for n, x in sample.inputs.items()}}
        for t in source.nodes:
            if t.bound is not None:
                inputs = [None if x is None else x.copy() for x in map(values.get, t.node.inputs)]
                with np.errstate(all="ignore"):
                    values.update(zip(t.node.outputs, map(_half, t.bound(inputs))))
        outputs = {public: values[value] for public, value in source.outputs.items()}
        samples.append(replace(sample, outputs={name: x for name, x in outputs.items() if x is not None}))
    return replace(expected, samples=samples)


def difference(expected: Expected, other: Expected) -> float:
    """Return the largest difference of an output of floats, relative to its largest value."""
    worst, least = 0.0, float(np.finfo(np.float16).smallest_normal)
    for a, b in zip(expected.samples, other.samples):
        for name, want in a.outputs.items():
            if want.dtype.kind == "f" and want.size:
                error, size = np.abs(b.outputs[name] - want).max(), np.abs(want).max()
                worst = max(worst, float(error / max(size, least)))
    return worst if np.isfinite(worst) else 0.0


class _Simulation:
    """The simulation of a plan. `hardware` maps each operator that the hardware computes to its layers: several
    where it computes a mean in stages."""

    def __init__(self, plan: DvPlan) -> None:
        self.plan = plan
        kinds = (Convolution, FullyConnected)
        parts = [layer.kind.parts if isinstance(layer.kind, Runs) else [layer] for layer in plan.layers]
        layers = [layer for some in parts for layer in some if isinstance(layer.kind, kinds)]
        self.hardware: dict[Op, list[DvLayer]] = {}
        for layer in layers:
            for op in layer.ops:
                self.hardware.setdefault(op, []).append(layer)

    def sample(self, sample: Sample) -> Sample:
        """Return a sample with the outputs that the hardware computes."""
        graph = self.plan.graph
        values = {v: rounded(sample.inputs[v.name]) for v in graph.inputs}
        self.run(self.plan.ops, values)
        outputs = _results(graph, values)
        return replace(sample, outputs=dict(zip(sample.outputs, outputs)))

    def run(self, ops: Sequence[Op], values: dict[Value, Array]) -> None:
        """Compute operators, and add their outputs to `values`."""
        for op in ops:
            with np.errstate(all="ignore"):
                results = self.computed(op, [self.read(values, v, op, i) for i, v in enumerate(op.inputs)])
            for v, result in zip(op.outputs, results):
                view = self.plan.views.get(v)
                half = view is not None and view.buffer.half
                values[v] = self.rounded(op, result) if half else np.asarray(result)

    def rounded(self, op: Op, result: Array) -> Array:
        """Return what the hardware stores. Raises LayerError for numbers that 16-bit floats cannot hold."""
        halves = rounded(result)
        if np.isinf(halves).any() and np.isfinite(result).all():
            with at(next((layer.place for layer in self.plan.layers if op in layer.ops), "")):
                largest, layers = float(np.abs(result).max()), self.hardware.get(op)
                raise TooLarge(
                    f"16-bit floats hold at most 65504, and this layer gives values up to {largest:.3g} for the "
                    "test's inputs; give inputs in the range of real ones: " + wording("inputs={...}", "-i"),
                    layers[0].ops[0] if layers else op,
                    largest,
                )
        return halves

    def read(self, values: Mapping[Value, Array], v: Value | None, op: Op, i: int) -> Array | None:
        """Return an input of an operator: a value, or a constant rounded as the hardware stores it."""
        if v is None or v in values:
            return None if v is None else values[v]
        if i == 1 and op in self.plan.weights:
            return self.plan.weights[op]
        const = np.asarray(v.const)
        return rounded(const) if op in self.hardware and i in _WEIGHTS.get(op.op, ()) else const

    def computed(self, op: Op, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """Return the outputs of an operator, or of a layer that is called."""
        if op.op == "Loop" and op.body is not None and not op.domain:
            return self.loop_outputs(op, op.body, inputs)
        if op.body is not None:
            arguments = [x for v, x in zip(op.inputs, inputs) if v in self.plan.views and x is not None]
            values = dict(zip(op.body.inputs, arguments))
            self.run(op.body.ops, values)
            return _results(op.body, values)
        layers, attributes = self.hardware.get(op), dict(op.attrs)
        if layers:  # sums in double precision round to the same 16-bit floats in any order
            inputs = [None if x is None else x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        if op.op == "LeakyRelu" and layers:
            attributes["alpha"] = float(np.float16(attributes.get("alpha", 0.01)))
        if layers and op.op in ("AveragePool", "GlobalAveragePool") and len(layers) > 1 and inputs[0] is not None:
            return [_mean(inputs[0], layers)]
        results = compute(op, inputs, attributes)
        if layers and op.op in ("AveragePool", "GlobalAveragePool"):
            return [results[0] * _factor(layers[0])]
        return results

    def loop_outputs(self, op: Op, body: Graph, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """Return the last states of a loop, and its rows."""
        limit, go, *rest = inputs
        count, rows = int(op["states"]), list[list[Array]]()
        while (go is None or bool(np.all(go))) and (limit is None or len(rows) < np.max(limit)):
            values = dict(
                zip(body.inputs, [np.array(len(rows)), np.array(True), *(x for x in rest if x is not None)])
            )
            self.run(body.ops, values)
            go, *results = _results(body, values)
            rest[:count] = results[:count]
            rows.append(results[count:])
        stacked = (
            map(np.stack, zip(*rows))
            if rows
            else (np.zeros((0, *v.shape), v.dtype) for v in body.outputs[1 + count :])
        )
        return [*(x for x in rest[:count] if x is not None), *stacked]


def _results(graph: Graph, values: Mapping[Value, Array]) -> list[Array]:
    """Return the outputs of a graph whose values are computed."""
    return [values[v] if v.const is None else np.asarray(v.const) for v in graph.outputs]


def _mean(x: Array, layers: Sequence[DvLayer]) -> Array:
    """Return the mean of a map that the hardware computes in stages, each of which rounds its result."""
    for layer in layers:
        n, c, h, w = x.shape
        _, rows, columns = layer.output.shape
        blocks = rounded(x).astype(np.float64).reshape(n, c, rows, h // rows, columns, w // columns)
        x = blocks.mean(axis=(3, 5)) * _factor(layer)
    return x


def _factor(layer: DvLayer) -> float:
    """Return the hardware's average of a window relative to the exact one: the factor is a 16-bit float."""
    x, y = layer.kind.pool_size if isinstance(layer.kind, Convolution) else (1, 1)
    return float(np.float16(1 / (x * y))) * x * y
