"""Seeded inputs where the caller has no data: noise, or values in the range that a layer reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from anylayer.compile.limits import bytes_text, size
from anylayer.compile.nodes import Definitions, trace_nodes
from anylayer.compile.plan import Plan
from anylayer.errors import InputError, need, wording
from anylayer.graph import Op, Value
from anylayer.graph.operators import REARRANGES
from anylayer.graph.sizes import is_static
from anylayer.layer import Layer
from anylayer.layer.samples import Sampler, boxes, indices, regions
from anylayer.network import Array, Network, TensorType
from anylayer.numerics import TOLERANCE, normal_noise, scale_of, tells_enough, uniform_noise
from anylayer.source import TracedNode

SCALES = (1, 0.05, 2e-3, 1e-4, 20)
"""The standard deviations of noise, in the order in which they are tried until the outputs tell enough."""
LITTLE = "empty, constant, saturated or tiny for these inputs"
"""What an output is that tells little; see numerics.tells_enough."""

_SAMPLES: Mapping[tuple[str, int], Sampler] = {
    ("RoiAlign", 1): boxes,
    ("RoiAlign", 2): indices,
    ("MaxRoiPool", 1): regions,
}
"""The samplers of operators, by name and index of the input. The attributes are those of a layer."""
MAX_NOISE_BYTES = 1 << 28
"""Bytes of all inputs that are made: a file of a few lines can claim inputs of any size."""
_MAX_FULL_BYTES = 2
"""An integer input of at most this size takes all values of its dtype."""


def noise(
    network: Network,
    definitions: Definitions,
    types: Mapping[str, TensorType | None],
    seed: int = 0,
    scale: float = 1,
) -> dict[str, Array]:
    """Return seeded values for the inputs whose types are known.

    They are normal for floats, with the standard deviation `scale`, and 0 or 1 for other dtypes, with these
    exceptions. An input that a layer names in `samples`, also through views, has such values: regions inside the
    picture, scores from 0 to 1. Integers that select from a table are indices of it. Other integers of 8 or 16
    bits cover the range of their dtype.
    """
    known_types = {name: kind for name, kind in types.items() if kind is not None}
    total = sum(size(kind) for kind in known_types.values())
    need(
        total <= MAX_NOISE_BYTES,
        f"{network.source}: its inputs take {bytes_text(total)}; the limit for inputs of noise is "
        f"{bytes_text(MAX_NOISE_BYTES)}. Give smaller ones: {wording('shapes={...}', '--shape')}",
        InputError,
    )
    arrays = dict(zip(known_types, normal_noise(known_types.values(), seed)))
    if scale != 1:
        arrays = {n: x * x.dtype.type(scale) if x.dtype.kind == "f" else x for n, x in arrays.items()}
    random = np.random.default_rng(seed)
    for name, kind in known_types.items():
        if kind.dtype.kind in "iu" and kind.dtype.itemsize <= _MAX_FULL_BYTES:
            limits = np.iinfo(kind.dtype)
            arrays[name] = random.integers(limits.min, limits.max, kind.shape, kind.dtype, endpoint=True)
    if _may_need_samples(network, definitions, known_types):
        traced = trace_nodes(network, network.nodes, definitions, types, lenient=True)
        for name, draw in _samplers(traced, types):
            if name in known_types:
                arrays[name] = np.asarray(draw(known_types[name], random), known_types[name].dtype, order="C")
    return arrays


def plan_noise(plan: Plan) -> list[Array]:
    """Return uniform noise for the inputs of a plan, but integers that its operators can take: see `noise`."""
    arrays = dict(zip(plan.inputs, uniform_noise(plan.inputs.values())))
    random = np.random.default_rng(0)
    for name, draw in _samplers(plan.nodes, plan.inputs):
        if plan.inputs[name].dtype.kind in "iu":
            arrays[name] = np.asarray(draw(plan.inputs[name], random), plan.inputs[name].dtype, order="C")
    return [*arrays.values()]


def telling_noise(
    network: Network,
    definitions: Definitions,
    types: Mapping[str, TensorType],
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    seed: int = 0,
    fixed: Mapping[str, Array] = MappingProxyType({}),
    tolerance: float = TOLERANCE["float32"],
) -> tuple[dict[str, Array], Mapping[str, Array], bool]:
    """Return noise of the first of SCALES for which the outputs tell enough, the outputs, and whether they do. If
    there is no such scale, the first one stands for it.

    run: a function of the inputs that returns the outputs. fixed: the values of some inputs.
    """
    tried: list[tuple[dict[str, Array], Mapping[str, Array], bool]] = []
    for scale in SCALES:
        arrays = {**noise(network, definitions, types, seed, scale), **fixed}
        outputs = run(arrays)
        told = all(tells_enough(x, tolerance * scale_of(x)) for x in outputs.values())
        tried.append((arrays, outputs, told))
        if told:
            return tried[-1]
    return tried[0]


def real_data(argument: str = "verify") -> str:
    """Return the advice to compare on real data. argument: the one that takes it."""
    return f"compare on data of the kind that the network was trained for, {wording(f'{argument}={{...}}', '-i')}"


def _may_need_samples(network: Network, definitions: Definitions, types: Mapping[str, TensorType]) -> bool:
    """Return whether an input is an integer, or a layer names its samples."""
    integers = any(kind.dtype.kind in "iu" for kind in types.values())
    kinds = {node.type for node in network.nodes}
    classes = [d.cls for type_ in kinds for d in definitions.get(type_, ())]
    ops = {op for op, _ in _SAMPLES}
    return integers or bool(kinds & ops) or any(isinstance(c, type) and _samples_of(c) for c in classes)


def _samples_of(cls: type) -> Mapping[int, Sampler]:
    return cls.samples if issubclass(cls, Layer) else {}


def _samplers(nodes: Iterable[TracedNode], types: Mapping[str, TensorType | None]) -> Iterator[Any]:
    """Yield (input of the network, function of the type to draw and random numbers) for each input that needs
    other values than noise."""
    views = {name: name for name in types}
    constants = {""}
    for t in nodes:
        if t.problem is None and t.bound is not None and isinstance(t.bound.instance, Layer):
            inputs = [kind for kind in t.inputs if kind is not None]
            for i, sampler in t.bound.instance.samples.items():
                if i < len(t.node.inputs) == len(inputs) and t.node.inputs[i] in views and _is_known(inputs):
                    yield views[t.node.inputs[i]], partial(sampler, t.bound.instance, inputs)
        if t.body is not None:
            yield from _in_body(t, views, constants)
        constants.update(t.node.outputs[i] for i in t.constants)


def _in_body(t: TracedNode, views: dict[str, str], constants: set[str]) -> Iterator[Any]:
    """Yield the same for the operators of a node, and add its outputs that are views of inputs to `views`."""
    if t.body is None:
        return
    free = [name for name in t.node.inputs if name not in constants]
    inner: dict[Value | None, str] = {v: views[n] for v, n in zip(t.body.inputs, free) if n in views}
    for o in t.body.ops if inner else ():
        for i, value in enumerate(o.inputs):
            if value in inner and not o.domain:
                sampler = _sampler(o, i)
                if sampler is not None:
                    yield inner[value], sampler
        if (o in REARRANGES or o.op in ("Cast", "Expand")) and o.inputs[0] in inner:
            inner[o.outputs[0]] = inner[o.inputs[0]]
    views.update({n: inner[v] for n, v in zip(t.node.outputs, t.body.outputs) if v in inner})


def _sampler(o: Op, index: int) -> Any:
    """Return the function that draws input `index` of an operator; None where any values suit."""
    kinds = [v.type for v in o.inputs if v is not None]
    sampler = _SAMPLES.get((o.op, index))
    if sampler is not None:
        return partial(sampler, SimpleNamespace(**o.attrs), kinds) if _is_known(kinds) else None
    if o.op == "Equal" and kinds[index].dtype.kind in "iu":
        other = o.inputs[1 - index]
        same = None if other is None else other.const
        if same is None or same.size == 0:
            return None
        return lambda kind, random: random.choice(same.ravel(), kind.shape)
    rows: Any = None
    if (o.op, index) in (("Gather", 1), ("GatherElements", 1)):
        rows = kinds[0].shape[o["axis"]]
    elif (o.op, index) == ("OneHot", 0) and o.inputs[1] is not None and o.inputs[1].const is not None:
        rows = int(np.ravel(o.inputs[1].const)[0])
    if not isinstance(rows, int) or rows < 1:
        return None
    return lambda kind, random: random.integers(0, rows, kind.shape)


def _is_known(kinds: list[TensorType]) -> bool:
    return is_static(kinds[0].shape)
