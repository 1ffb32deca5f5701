"""The inputs of a network: their types and arrays, and which inputs and nodes some outputs need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from anylayer.compile.limits import need_countable
from anylayer.errors import InputError, adding_advice, at, need, need_one_of, wording
from anylayer.network import Array, Network, Node, TensorType, nodes_behind


def has_open_sizes(shapes: Mapping[str, Sequence[Any]] | None) -> bool:
    """Return whether input shapes have sizes that are not numbers. Raises InputError unless they are a dict."""
    rule = f"shapes must be a dict such as {{'data': (1, 3, 224, 224)}}, got {shapes!r:.60}"
    need(shapes is None or isinstance(shapes, Mapping), rule, InputError)
    return any(not isinstance(d, (int, np.integer)) for shape in (shapes or {}).values() for d in shape)


def input_types(network: Network, shapes: Mapping[str, Sequence[Any]] | None) -> dict[str, TensorType | None]:
    """Return the types of the network's inputs, with `shapes` in place of those in the file.

    A type is None where neither gives the shape, or where the file leaves the batch size open and its conditions
    on the sizes do not allow 1. Raises InputError for a name that is not an input, and for a shape that is not a
    sequence of integers of 0 or more, or breaks the conditions.
    """
    types = dict(network.inputs)
    for name, shape in (shapes or {}).items():
        need_one_of(name, types, f"the network has no input '{name}'", "its inputs")
        need(
            all(isinstance(d, (int, np.integer)) and d >= 0 for d in shape),
            f"input '{name}': a shape must be integers of 0 or more, got {tuple(shape)}",
            InputError,
        )
        types[name] = TensorType.of((int(d) for d in shape), network.input_dtype(name))
    with at(network.source):
        for name, type_ in types.items():
            if type_ is not None:
                need_countable(type_.shape, f"input '{name}'", InputError)
        if network.sizes is not None:
            try:
                network.sizes.check(types)
            except InputError:
                types.update(dict.fromkeys(network.open.keys() - (shapes or {}).keys()))
                network.sizes.check(types)
    return types


def advising_batch(network: Network, types: Mapping[str, TensorType | None]) -> AbstractContextManager[None]:
    """Return a context that adds advice to a LayerError, where the file leaves the batch size of an input open
    (`types` has 1 for it) and fixes a larger first size of another input."""
    shaped = [(name, kind) for name, kind in types.items() if kind is not None and kind.shape]
    opened = [(n, k) for n, k in shaped if network.open.get(n, (0,))[0] is None and k == network.inputs[n]]
    fixed = [int(k.shape[0]) for n, k in shaped if n not in network.open and k.shape[0] > 1]
    if not opened or not fixed:
        return nullcontext()
    name, shape = opened[0][0], (fixed[0], *opened[0][1].shape[1:])
    remedy = wording(f"shapes={{{name!r}: {shape}}}", f"--shape {name}={','.join(map(str, shape))}")
    return adding_advice(
        f"the file leaves the batch size of input '{name}' open, so it is 1 here; give another: {remedy}"
    )


def input_arrays(network: Network, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return an array of the network's dtype for each of its inputs. Raises InputError for one that is missing."""
    arrays: dict[str, Array] = {}
    for name in network.inputs:
        value = inputs[name] if name in inputs else absent_input(network, name, network.outputs)
        arrays[name] = np.asarray(value, network.input_dtype(name), order="C")
    return arrays


def absent_input(network: Network, name: str, outputs: Mapping[str, str]) -> Array:
    """Return the initial value of an input that is not given, zeros if no node reads it, or raise InputError."""
    if name in network.initial:
        return np.ascontiguousarray(network.initial[name])
    is_read = name in outputs.values() or any(name in node.inputs for node in network.nodes)
    rule = f"input '{name}' is missing; the network's inputs: {', '.join(network.inputs)}"
    need(not is_read, rule, InputError)
    kind = network.inputs[name]
    sizes = kind.shape if kind is not None else network.open.get(name, ())
    return np.zeros([d if isinstance(d, int) else 1 for d in sizes], network.input_dtype(name))


def needed_nodes(network: Network, outputs: Mapping[str, str]) -> list[Node]:
    """Return the nodes that the outputs depend on, in computing order."""
    return nodes_behind(network.nodes, outputs.values())


def needed_inputs(network: Network, outputs: Mapping[str, str]) -> list[str]:
    """Return the names of the inputs that a caller must give, in order.

    These are all inputs where `outputs` are the network's own, and otherwise those that the outputs depend on.
    """
    if dict(outputs) == network.outputs:
        return list(network.inputs)
    read = {name for node in needed_nodes(network, outputs) for name in node.inputs} | set(outputs.values())
    return [name for name in network.inputs if name in read]
