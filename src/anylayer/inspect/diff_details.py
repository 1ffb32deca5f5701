"""What two nodes have that differs: operators, attributes and weights, as both record them when they are traced.

The operators are ONNX's for every format, so a pad or an epsilon has one name, and weights have one order of axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.graph.ir import Op
from anylayer.graph.operators import PRODUCTS, REARRANGES
from anylayer.inspect.correspondence import best_fit
from anylayer.inspect.listing import flat_params
from anylayer.network import Array, TensorType, as_written
from anylayer.numerics import difference_text, largest_error, scale_of
from anylayer.source import TracedNode

Detail = tuple[str, str, str]
"""What differs, in A, and in B. "" in A and B for a remark on both."""
_EQUAL = 2e-6
_IMPLIED = ("kernel_shape",)


@dataclass(slots=True)
class Difference:
    """Nodes of A and of B, by index, that compute different numbers from the same inputs.

    `a_value` and `b_value` are what they compute; `a_array` and `b_array` the numbers, that of A in B's layout.
    Where B lacks nodes, `b_nodes` is empty, and where A does, `a_nodes`. `rejoins` says that B computes A's
    numbers again if it is given A's at this point. `details` say what differs, if that is known.
    """

    a_nodes: list[int]
    b_nodes: list[int]
    a_value: str
    b_value: str
    a_array: Array
    b_array: Array
    rejoins: bool = True
    details: list[Detail] | None = None

    @property
    def error(self) -> float:
        """The largest difference, infinite where the shapes differ."""
        if self.a_array.shape != self.b_array.shape:
            return float("inf")
        return largest_error(self.b_array, self.a_array)

    @property
    def scale(self) -> float:
        return scale_of(self.a_array)


def details(a: Sequence[TracedNode], b: Sequence[TracedNode]) -> list[Detail]:
    """Return what differs between the nodes of a place in A and in B."""
    if len(a) == len(b) == 1 and a[0].node.type == b[0].node.type and None in (a[0].body, b[0].body):
        return list(_fields(a[0].node.params, b[0].node.params))
    left, right = _ops(a), _ops(b)
    facts: list[Detail] = []
    pads = [_pad_before(ops) for ops in (left, right)]
    folded = [o.op for o in left] != [o.op for o in right]
    if folded and len(a) == len(b) == 1:
        shown = [", ".join(o.op for o in ops) or "none" for ops in (left, right)]
        facts.append(("operators", shown[0], shown[1]))
    for o in left:
        same = next((p for p in right if p.op == o.op and p.domain == o.domain), None)
        product = next((p for p in right if o in PRODUCTS and p in PRODUCTS), None)
        if same is not None:
            facts += [_with_pads(fact, pads) for fact in _attributes(o, same)]
            facts += _sizes(o, same) if len(a) > 1 or len(b) > 1 else ()
        partner = same or product
        if partner is not None:
            right.remove(partner)
            facts += _constants(o, partner, folded)
    return facts


def folded_fault(nodes: Sequence[TracedNode], folded: Sequence[TracedNode]) -> tuple[int, list[Detail]] | None:
    """Return which of the nodes Conv and BatchNormalization differs from the node into which they are folded, and
    how if that is not what `details` says. None where it is not clear."""
    ops, others = _ops(nodes), _ops(folded)
    if [o.op for o in ops] != ["Conv", "BatchNormalization"] or [o.op for o in others] != ["Conv"]:
        return None
    arrays = [o.constant(i) for o, i in ((ops[0], 1), (others[0], 1), (ops[1], 1), (ops[1], 4))]
    weights, products, scale, variance = (np.zeros(0) if x is None else x.astype(np.float64) for x in arrays)
    is_known = all(x.size for x in (weights, scale, variance))
    if not is_known or weights.shape != products.shape or len(nodes) != len(ops):
        return None
    turned = weight_details("", _without_factor(weights), _without_factor(products))
    if any(_attributes(ops[0], others[0])) or any(turned):
        return 0, []
    rows = [x.reshape(len(x), -1) for x in (products, weights)]
    largest = np.arange(len(weights)), np.abs(rows[1]).argmax(1)
    epsilon = ops[1]["epsilon"]
    factor, of_norm = rows[0][largest] / rows[1][largest], scale / np.sqrt(variance + epsilon)
    if np.allclose(factor, of_norm, rtol=_EQUAL, atol=0):
        return None
    epsilons, c = (scale / factor) ** 2 - variance, int(np.argmax(np.abs(factor / of_norm - 1)))
    if np.ptp(epsilons) <= _EQUAL * max(variance):
        return 1, [("BatchNormalization epsilon", f"{epsilon:g}", f"about {np.median(epsilons):.1g}")]
    return 1, [(f"factor of channel {c}", f"{of_norm[c]:g}", f"{factor[c]:g}")]


def without_same_weights(facts: Sequence[Detail]) -> list[Detail]:
    """Return what differs without weights that only have another order or precision."""
    return [fact for fact in facts if not fact[2].startswith("A's")]


def _pad_before(ops: Sequence[Op]) -> str:
    """Return the pads of an operator Pad among operators as text."""
    return next((f" after Pad {_plain(o.constant(1))}" for o in ops if o.op == "Pad"), "")


def _with_pads(fact: Detail, pads: Sequence[str]) -> Detail:
    """Return what differs, with the operators Pad before an operator that pads, too."""
    what, a, b = fact
    return (what, a + pads[0], b + pads[1]) if what.endswith(" pads") else fact


def _ops(nodes: Sequence[TracedNode]) -> list[Op]:
    return [o for t in nodes if t.body is not None for o in t.body.ops if o not in REARRANGES and o.op != "Cast"]


def _fields(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Detail]:
    left, right = dict(flat_params("", a)), dict(flat_params("", b))
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            yield name, left.get(name, "absent"), right.get(name, "absent")


def _attributes(a: Op, b: Op) -> Iterator[Detail]:
    names = dict.fromkeys([*a.attrs, *b.attrs])
    for name in names:
        if name in _IMPLIED:
            continue
        try:
            left, right = _plain(_positive(a, name)), _plain(_positive(b, name))
        except KeyError:
            left, right = _plain(a.attrs.get(name)), _plain(b.attrs.get(name))
        if left != right and not (_is_default(left) and _is_default(right)):
            yield f"{a.op} {name}", str(left), str(right)


def _sizes(a: Op, b: Op) -> Iterator[Detail]:
    """Yield the sizes of the results of two operators, if they differ by more than their order."""
    left, right = (list(o.outputs[0].shape) for o in (a, b))
    if sorted(map(str, left)) != sorted(map(str, right)):
        yield f"{a.op} output", str(left), str(right)


def _positive(o: Op, name: str) -> object:
    """Return an attribute; an axis is counted from the first one."""
    value = o[name]
    return value + len(o.first.shape) if name == "axis" and isinstance(value, int) and value < 0 else value


def _plain(value: object) -> object:
    """Return an attribute for comparison: a list for a tuple or an array, and a float as float32 rounds it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return as_written(value) if isinstance(value, float) and np.isfinite(value) else value


def _is_default(value: object) -> bool:
    """Return whether a value of pads, strides or dilations is what its absence means."""
    return value is None or value in ([0] * 4, [1, 1], [0, 0], [1], [0] * 6, [1] * 3, [])


def _constants(a: Op, b: Op, folded: bool) -> Iterator[Detail]:
    """Yield how the constant inputs of two operators differ. folded: others are folded into one of them, so
    weights are compared up to a factor per channel, and other constants are not."""
    for i in range(max(len(a.inputs), len(b.inputs))):
        left, right = a.constant(i), b.constant(i)
        what = f"{a.op} " + ("weights" if a in PRODUCTS and i == 1 else "bias" if a in PRODUCTS else f"input {i}")
        if left is not None and right is not None:
            if not folded:
                yield from weight_details(what, left, right)
            elif a.op == b.op == "Conv" and i == 1 and left.size == right.size and len(left) == len(right):
                facts = weight_details(what, _without_factor(left), _without_factor(right))
                yield from (d for d in facts if d[2].startswith("A's"))
            elif a in PRODUCTS and i == 1 and left.size == right.size:
                turned = right.T if left.shape != right.shape == left.shape[::-1] else right
                facts = weight_details(what, left, turned)
                yield from (d for d in facts if d[2].startswith("A's"))
        elif not folded and (left is not None or right is not None):
            x = left if left is not None else right
            other = b.input(i) if left is not None else a.input(i)
            if x is not None and np.any(x):
                absent = "absent" if other is None else "computed"
                texts = [absent if v is None else _text(v) for v in (left, right)]
                yield what, texts[0], texts[1]


def _without_factor(x: Array) -> Array:
    """Return weights whose largest value is 1 in each output channel."""
    rows = x.reshape(len(x), -1)
    largest = rows[np.arange(len(x)), np.abs(rows).argmax(1)]
    return np.divide(x, np.where(largest == 0, 1, largest).reshape(-1, *[1] * (x.ndim - 1)))


def weight_details(what: str, x: Array, y: Array) -> Iterator[Detail]:
    """Yield how two constants differ; nothing where they are equal."""
    if x.size == y.size == 1:
        if not np.allclose(x.ravel(), y.ravel(), rtol=_EQUAL, atol=0, equal_nan=True):
            yield what, _text(x), _text(y)
        return
    fit = best_fit(x, y)
    if fit is not None and fit[1] <= _EQUAL:
        moved = iter(axis for axis in fit[0].axes if x.shape[axis] != 1)
        axes = tuple(axis if d == 1 else next(moved) for axis, d in enumerate(x.shape))
        if axes != tuple(range(x.ndim)):
            yield what, _text(x), f"A's, transposed by {axes}"
        return
    if fit is not None:
        for one, other, words in (
            (fit[0](x), y, "rounded to float16"),
            (y, fit[0](x), "before rounding to float16"),
        ):
            if one.dtype.kind == "f" and np.array_equal(_to_float16(one), other):
                yield what, _text(x), f"A's, {words}"
                return
    if x.shape == y.shape:
        for axis in range(x.ndim):
            if x.shape[axis] == 3 and largest_error(np.flip(x, axis), y) <= _EQUAL * scale_of(x):
                yield what, _text(x), f"A's, reversed on axis {axis} (BGR, RGB)"
                return
    if x.size == y.size and largest_error(np.sort(x, axis=None), np.sort(y, axis=None)) <= _EQUAL * scale_of(x):
        yield what, _text(x), "A's values in another order"
        return
    how = difference_text(largest_error(y, x), scale_of(x)) if x.shape == y.shape else _text(y)
    yield what, _text(x), how


def _to_float16(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def _text(x: Array) -> str:
    return f"{x.ravel()[0]:g}" if x.size == 1 else str(TensorType(x.shape, x.dtype))
