"""Compare two networks of any formats: which nodes correspond, and where their numbers part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anylayer.compile.inputs import input_arrays, input_types
from anylayer.compile.limits import need_memory, size
from anylayer.compile.nodes import trace_nodes
from anylayer.compile.noise import LITTLE, real_data, telling_noise
from anylayer.compile.plan import require_types
from anylayer.errors import AnyLayerError, InputError, at, nearest, need, some, wording
from anylayer.inspect.correspondence import Link, Side, arrangements, layouts, output_error, plain_name, tells
from anylayer.inspect.diff_result import Diff, OutputPair, rows_of
from anylayer.inspect.differences import MAX_DIFFERENCES, Comparer
from anylayer.network import Array, Network, Node, TensorType, part_of
from anylayer.numerics import tolerance_for
from anylayer.runtime.run import NumpyRunner
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net

_Inputs = Mapping[str, object] | None
_Shapes = Mapping[str, Sequence[int]] | None
_Count = Callable[[], None]


def diff(
    a: Net,
    b: Net,
    inputs: _Inputs = None,
    *,
    shapes: _Shapes = None,
    names: Mapping[str, str] | None = None,
    seed: int = 0,
    count: _Count = lambda: None,
) -> Diff:
    """Return the comparison; see anylayer.diff. count: is called after each node that has run."""
    a.require_known(a.network.outputs)
    b.require_known(b.network.outputs)
    mapping = dict(names or {})
    _need_known(a.network, b.network, mapping)
    pairs = _pairs("input", a.network.inputs, b.network.inputs, mapping)
    notes: list[str] = []
    outputs = _pair_outputs(a, b, mapping, notes)
    types = _types(a.network, b.network, pairs, shapes, inputs)
    fixed = require_types(a.network, types)
    side_a = Side(a.network, a.definitions, list(_trace(a, fixed)))
    need_memory(2 * sum(map(size, side_a.types)), "holding all values of a network")
    arrays, values = _run_first(a, fixed, inputs, seed, count)
    links = {
        mine: _input_link(a.network, b.network, name, mine, arrays[name], notes) for name, mine in pairs.items()
    }
    feed = {mine: link.how(arrays[link.name]) for mine, link in links.items()}
    feed = {
        name: _reversed_channels(a.network, b.network, links[name].name, name, x, notes)
        for name, x in feed.items()
    }
    feed = {name: _cast(x, b.network, name) for name, x in feed.items()}
    side_b = Side(
        b.network, b.definitions, list(_trace(b, {n: TensorType(x.shape, x.dtype) for n, x in feed.items()}))
    )
    public = {*a.network.outputs.values(), *a.network.inputs, *side_a.producers}
    side_a.values = {name: x for name, x in values.items() if name in public}
    comparer = Comparer(
        side_a, side_b, links, {b.network.outputs[y]: a.network.outputs[x] for x, y in outputs.items()}, count
    )
    need_memory(sum(map(size, side_b.types)), "holding all values of a network")
    comparer.values.update(feed)
    comparer.run()
    half = _half(comparer)
    checks = [
        _check(comparer, a.network.outputs[x], b.network.outputs[y], (x, y), half) for x, y in outputs.items()
    ]
    weak = [c.a for c in checks if not c.tells]
    if weak:
        notes.append(f"output {some(weak)} is {LITTLE}: {real_data('inputs')}")
    alone = [c.a for c in checks if c.alone]
    if alone:
        notes.append(f"output {some(alone)} is {LITTLE}: its last nodes were compared on noise, too")
    if len(comparer.differences) == MAX_DIFFERENCES:
        notes.append(f"the comparison stopped after {MAX_DIFFERENCES} differences")
    left = [name for name in a.network.outputs if name not in outputs]
    extra = [name for name in b.network.outputs if name not in outputs.values()]
    if extra:
        notes.append(f"output {some(list(map(repr, extra)))} of B has no counterpart in A, and was not compared")
    return Diff(a.network, b.network, pairs, checks, rows_of(comparer), comparer.differences, left, extra, notes)


def _check(comparer: Comparer, value: str, output: str, names: tuple[str, str], half: bool) -> OutputPair:
    """Compare an output as each network computes it alone, and its last nodes on noise if it tells too little."""
    want, actual = comparer.a.values[value], comparer.free[output]
    error, how = output_error(want, actual)
    deep = tolerance_for(np.dtype(np.float16) if half else want.dtype, deep=True)
    alone = None if tells(want) or comparer.differences else _tail_error(comparer, output)
    shapes = (str(TensorType(want.shape, want.dtype)), str(TensorType(actual.shape, actual.dtype)))
    fits = error <= deep and (alone is None or alone <= deep)
    layout = "" if how is None else str(how)
    return OutputPair(
        *names, max(error, alone or 0.0), fits, tells(want) or alone is not None, layout, shapes, alone is not None
    )


def _half(comparer: Comparer) -> bool:
    return np.float16 in [t.dtype for side in (comparer.a, comparer.b) for t in side.types]


def _trace(net: Net, types: Mapping[str, TensorType]) -> Iterator[TracedNode]:
    return trace_nodes(net.network, net.network.nodes, net.definitions, types)


# ------------------------------------------------------------------ outputs that tell too little


def _tail_error(comparer: Comparer, output: str) -> float | None:
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
    if not nodes or not mine or not _inputs_of(b, nodes) <= links.keys():
        return None
    try:
        return _compare_tail(comparer, output, mine, nodes, links, _inputs_of(a, mine) - start)
    except AnyLayerError:  # noise may not suit the nodes
        return None


def _inputs_of(side: Side, nodes: list[int]) -> set[str]:
    """Return the values that some nodes read and none of them computes."""
    computed = {n for i in nodes for n in side.nodes[i].outputs}
    return {n for i in nodes for n in side.data_inputs(side.nodes[i])} - computed


def _compare_tail(
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
    run = NumpyRunner(network, a.definitions, network.outputs).run
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


# ------------------------------------------------------------------ names


def _plain(name: str) -> str:
    return plain_name(name).removeprefix("serving_default_").casefold()


def _pairs(what: str, a: Iterable[str], b: Iterable[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs of B by those of A: as `mapping` says, by name, or the only ones that are left.

    Raises InputError where that is ambiguous.
    """
    pairs = {x: y for x, y in mapping.items() if x in a and y in b}
    for x in a:
        same = [y for y in b if y not in pairs.values() and _plain(y) == _plain(x)]
        if x not in pairs and len(same) == 1:
            pairs[x] = same[0]
    left, right = ([n for n in names if n not in used] for names, used in ((a, pairs), (b, pairs.values())))
    if len(left) == len(right) == 1:
        pairs[left[0]] = right[0]
    elif what == "input":
        first, second = (left or list(a))[0], (right or list(b))[0]
        how = wording(f"names={{{first!r}: {second!r}}}", f"--map {first}={second}")
        rule = f"the inputs of A ({some(list(a), 9)}) and of B ({some(list(b), 9)}) do not have the same names"
        need(not left and not right, f"{rule}; say which is which, for example {how}", InputError)
    return pairs


def _need_known(a: Network, b: Network, mapping: Mapping[str, str]) -> None:
    """Raise InputError for a pair of names that are not inputs or outputs of A and of B."""
    for letter, net, names in (("A", a, mapping.keys()), ("B", b, mapping.values())):
        there = [*net.inputs, *net.outputs]
        for name in names:
            need(name in there, f"{letter} has no input or output '{name}'{nearest(name, there)}", InputError)
    for x, y in mapping.items():
        rule = f"'{x}' of A and '{y}' of B are an input and an output; give two inputs or two outputs"
        need((x in a.inputs and y in b.inputs) or (x in a.outputs and y in b.outputs), rule, InputError)
        others = [n for n, name in mapping.items() if name == y]
        need(len(others) == 1, f"{some(others)} of A cannot all be '{y}' of B", InputError)


def _pair_outputs(a: Net, b: Net, mapping: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """Return the outputs of B by those of A: by name, else in their order if both have as many."""
    pairs = _pairs("output", a.network.outputs, b.network.outputs, mapping)
    left = [x for x in a.network.outputs if x not in pairs]
    right = [y for y in b.network.outputs if y not in pairs.values()]
    if left and len(left) == len(right):
        pairs.update(zip(left, right))
        how = wording("names={...} pairs", "--map pairs")
        shown = some([f"{x} | {y}" for x, y in zip(left, right)])
        notes.append(f"outputs with other names were paired in their order: {shown}; {how} others")
    return pairs


# ------------------------------------------------------------------ inputs


def _layout(network: Network, name: str) -> str:
    return network.layouts.get(name) or ("NCHW" if network.format == "caffe" else "")


def _input_link(a: Network, b: Network, name: str, mine: str, x: Array, notes: list[str]) -> Link:
    """Return how an array of A's input becomes B's: as it is, or in the other layout, as the shapes require."""
    kind = b.inputs[mine]
    sizes = b.open.get(mine) or (kind.shape if kind is not None else None)
    if sizes is None or len(sizes) == x.ndim:
        fixed = [None] * x.ndim if sizes is None else sizes
        fits = [p for p in layouts(x.ndim) if all(w in (None, x.shape[k]) for w, k in zip(fixed, p))]
        other = {_layout(a, name), _layout(b, mine)} == {"NCHW", "NHWC"}
        if other and len(fits) > 1:
            to_other = layouts(x.ndim)[1 if _layout(a, name) == "NCHW" else 2]
            fits.sort(key=lambda axes: axes != to_other)
        if fits:
            how = next(h for h in arrangements(x.shape, tuple(x.shape[k] for k in fits[0])) if h.axes == fits[0])
            if how.axes != tuple(range(x.ndim)):
                notes.append(f"input '{mine}' of B has another layout than '{name}' of A: {how}")
            return Link(name, how)
    else:
        squeezed = next(iter(arrangements(x.shape, tuple(1 if d is None else d for d in sizes))), None)
        if squeezed is not None:
            return Link(name, squeezed)
    with at(b.source):
        remedy = wording(f"shapes={{{name!r}: ...}}", f"--shape {name}=...")
        raise InputError(
            f"input '{mine}' is {list(sizes or ())}; A's input '{name}' is {list(x.shape)} and does not fit. "
            f"Give A a shape that fits both: {remedy}"
        )


def _reversed_channels(a: Network, b: Network, name: str, mine: str, x: Array, notes: list[str]) -> Array:
    """Return the array with its channels in B's order, where both files state different ones."""
    orders = a.channel_orders.get(name), b.channel_orders.get(mine)
    if None in orders or orders[0] == orders[1]:
        return x
    axes = [axis for axis in (1, x.ndim - 1) if x.shape[axis] == 3]
    need(axes, f"input '{mine}' takes {orders[1]}, but no axis of {x.shape} has 3 channels", InputError)
    notes.append(f"input '{name}' takes {orders[0]} in A, and {orders[1]} in B: B gets the channels reversed")
    return np.flip(x, axes[0])


def _cast(x: Array, network: Network, name: str) -> Array:
    dtype = network.input_dtype(name)
    y = np.ascontiguousarray(x.astype(dtype))
    exact = dtype.kind == "f" or np.array_equal(y.astype(x.dtype), x)
    need(
        exact,
        f"input '{name}' of B takes {dtype}, which cannot hold the {x.dtype} values of A's input",
        InputError,
    )
    return y


def _types(
    a: Network, b: Network, pairs: Mapping[str, str], shapes: _Shapes, inputs: _Inputs
) -> dict[str, TensorType | None]:
    """Return the types of A's inputs, with B's sizes where A's file leaves sizes open."""
    types = input_types(a, shapes)
    for name, mine in pairs.items():
        kind, opened = b.inputs[mine], a.open.get(name)
        if name in (shapes or {}) or (types[name] is not None and not opened) or kind is None or mine in b.open:
            continue
        for axes in layouts(len(kind.shape)):
            shape = tuple(kind.shape[k] for k in axes)
            if opened is None or (
                len(opened) == len(shape) and all(w in (None, d) for w, d in zip(opened, shape))
            ):
                types[name] = TensorType(shape, a.input_dtype(name))
                break
    for name, x in (inputs or {}).items():
        need(name in types, f"A has no input '{name}'{nearest(name, types)}", InputError)
        types[name] = TensorType(np.asarray(x).shape, a.input_dtype(name))
    return types


def _run_first(
    a: Net, types: Mapping[str, TensorType], inputs: _Inputs, seed: int, count: _Count
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run A, and return its inputs and all of its values. Noise is scaled until its outputs tell something."""
    network = a.network
    values: dict[str, Array] = {}

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        values.clear()
        values.update(arrays)

        def watch(node: Node, bound: object, into: object, outputs: list[Array]) -> None:
            values.update({n: x for n, x in zip(node.outputs, outputs) if n})
            count()

        runner = NumpyRunner(network, a.definitions, network.outputs)
        for _ in runner.steps(arrays, watch):
            pass
        return {public: values[value] for public, value in network.outputs.items()}

    if inputs is not None and set(inputs) == set(network.inputs):
        arrays = input_arrays(network, inputs)
        run(arrays)
        return arrays, dict(values)
    fixed = {n: np.asarray(x, network.input_dtype(n)) for n, x in (inputs or {}).items()}
    arrays, results, _ = telling_noise(network, a.definitions, types, run, seed, fixed)
    if any(values[network.outputs[n]] is not x for n, x in results.items()):
        run(arrays)
    return arrays, dict(values)
