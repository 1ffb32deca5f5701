"""Compare the last nodes before outputs that tell too little, such as a saturated softmax, alone on noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anylayer.compile.noise import telling_noise
from anylayer.errors import AnyLayerError
from anylayer.inspect.correspondence import Link, Side, tells
from anylayer.inspect.differences import Comparer, output_error
from anylayer.network import Array, TensorType, part_of
from anylayer.runtime.run import NumpyRunner


def tail_error(comparer: Comparer, output: str) -> float | None:
    """Return the relative error of an output of B for noise in place of the last values that tell something.

    None where the nodes after those values do not compute from the same ones in A and in B, or do not run on
    noise, or where their result tells too little, too. Nodes of A may read another value for its shape alone.
    """
    a, b, value = comparer.a, comparer.b, comparer.outputs[output]
    telling = {n: link for n, link in comparer.links.items() if tells(a.values[link.name]) and n != output}
    nodes = b.between(telling, output)
    links = {n: telling[n] for i in nodes for n in b.data_inputs(b.nodes[i]) if n in telling}
    start = {link.name for link in links.values()}
    mine = a.between(start, value)
    if not nodes or not mine or not _inputs(b, nodes) <= links.keys():
        return None
    try:
        return _compare(comparer, output, mine, nodes, links, _inputs(a, mine) - start)
    except AnyLayerError:  # noise may not suit the nodes
        return None


def _inputs(side: Side, nodes: list[int]) -> set[str]:
    """Return the values that some nodes read and none of them computes."""
    computed = {n for i in nodes for n in side.nodes[i].outputs}
    return {n for i in nodes for n in side.data_inputs(side.nodes[i])} - computed


def _compare(
    comparer: Comparer,
    output: str,
    mine: list[int],
    nodes: list[int],
    links: Mapping[str, Link],
    shaping: set[str],
) -> float | None:
    a, b, value = comparer.a, comparer.b, comparer.outputs[output]
    chosen = [a.nodes[i] for i in mine]
    computed = {n for node in chosen for n in node.outputs}
    read = dict.fromkeys(n for node in chosen for n in node.inputs if n and n not in computed)
    fixed = {n: a.constants[n] for n in read if n in a.constants}
    arrays_of_a = {**a.values, **fixed}
    types = {n: TensorType.of(arrays_of_a[n].shape, arrays_of_a[n].dtype) for n in read}
    network = part_of(a.network, types, chosen, {value: value})

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return NumpyRunner(network, a.definitions, network.outputs)([arrays[n] for n in types], {})

    arrays, results, told = telling_noise(network, a.definitions, types, run, fixed=fixed)
    if shaping - fixed.keys():
        others = {n: np.roll(x, 1) + np.ones_like(x) if n in shaping else x for n, x in arrays.items()}
        if not np.array_equal(run(others)[value], results[value], equal_nan=True):
            return None
    values = dict(b.constants)
    for name, link in links.items():
        values[name] = link.how(arrays[link.name]).astype(comparer.values[name].dtype)
    for i in nodes:
        node = b.nodes[i]
        outputs = b.compute(node, [values[n] if n else None for n in node.inputs])
        values.update((n, x) for n, x in zip(node.outputs, outputs) if n not in b.constants)
    return output_error(results[value], values[output])[0] if told else None
