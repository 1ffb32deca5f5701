"""What two nodes have that differs: operators, attributes and weights, as both record them when they are traced.

The operators are ONNX's for every format, so a pad or an epsilon has one name, and weights have one order of axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anylayer.graph.ir import Op
from anylayer.graph.operators import ARITHMETIC, PRODUCTS, REARRANGES, UNARY
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


@dataclass(slots=True)
class _Affine:
    """A product, followed by factors and sums per channel that can be folded into it, and functions of elements.

    `rows` are the weights, one row per output channel. The result is `factor` * (rows @ x) + `shift` before
    `functions`. `product` is the first node, which has the product. `nodes` are the other nodes that change the
    factor, the shift or the functions, by index.
    """

    product: Op
    rows: Array
    factor: Array
    shift: Array
    functions: list[Op] = field(default_factory=list)
    norms: list[Op] = field(default_factory=list)
    nodes: dict[str, list[int]] = field(default_factory=dict)

    def node(self, what: str) -> int | None:
        """Return the node that is responsible for the factor, the shift or the functions; None for several."""
        of = list(dict.fromkeys(self.nodes.get(what, [0])))
        return of[0] if len(of) == 1 else None


def _affine(nodes: Sequence[TracedNode]) -> _Affine | None:
    """Return what nodes compute together, None where a part of it is not known."""
    total: _Affine | None = None
    for k, one in enumerate(nodes):
        for o in _ops([one]):
            if total is None:
                total = _product(o) if k == 0 else None
                is_folded = total is not None
            else:
                is_folded = _apply(total, o, k)
            if not is_folded:
                return None
    return total


def _product(o: Op) -> _Affine | None:
    weights, bias = o.constant(1), o.constant(2)
    if weights is None or o not in PRODUCTS or (o.input(2) is not None and bias is None):
        return None
    is_plain = o.op == "Conv" or weights.ndim == 2
    if not is_plain or (o.op == "Gemm" and (o["alpha"], o["beta"], o["transA"]) != (1, 1, 0)):
        return None
    is_turned = o.op == "MatMul" or (o.op == "Gemm" and not o["transB"])
    rows = (weights.T if is_turned else weights).astype(np.float64)
    if bias is not None and bias.size not in (1, len(rows)):
        return None
    shift = np.zeros(len(rows)) if bias is None else np.broadcast_to(bias.reshape(-1), len(rows))
    nodes = {} if bias is None or not bias.any() else {"shift": [0]}
    return _Affine(o, rows, np.ones(len(rows)), shift.astype(np.float64), nodes=nodes)


def _apply(total: _Affine, o: Op, node: int) -> bool:
    """Apply an operator after a product. Return whether it can be folded into it, or is a function of elements."""
    if o in UNARY:
        total.functions.append(o)
        total.nodes.setdefault("functions", []).append(node)
        return True
    changes = {} if total.functions else _changes(total, o)
    factor, shift = changes.get("factor", np.float64(1)), changes.get("shift", np.float64(0))
    total.factor, total.shift = total.factor * factor, total.shift * factor + shift
    for what in changes:
        total.nodes.setdefault(what, []).append(node)
    return bool(changes)


def _changes(total: _Affine, o: Op) -> dict[str, Array]:
    """Return the factor and the sum per channel that an operator with constants applies; {} for others."""
    constants = [o.constant(i) for i in range(len(o.inputs))]
    numbers = [x.astype(np.float64) for x in constants if x is not None]
    if o.op == "BatchNormalization" and len(numbers) == 4:
        scale, bias, mean, variance = numbers
        factor = scale / np.sqrt(variance + o["epsilon"])
        total.norms.append(o)
        return {"factor": factor, "shift": bias - mean * factor}
    if o not in ARITHMETIC or len(numbers) != 1:
        return {}
    x, shape = numbers[0], o.outputs[0].shape
    axes = [axis for axis, d in enumerate((*[1] * (len(shape) - x.ndim), *x.shape)) if d != 1]
    is_first, last = constants[0] is not None, len(shape) - 1
    if (is_first and o.op == "Div") or axes not in ([], [1], [last]) or x.size not in (1, len(total.rows)):
        return {}
    x = np.broadcast_to(x.reshape(-1), len(total.rows))
    if o.op == "Sub" and is_first:
        return {"factor": -np.ones(len(x)), "shift": x}
    return {"Add": {"shift": x}, "Sub": {"shift": -x}, "Mul": {"factor": x}, "Div": {"factor": 1 / x}}[o.op]


Fault = tuple[int | None, int | None, list[Detail]]
"""Which node of A and which of B differ, None where several may, and how."""


@np.errstate(all="ignore")
def folded_fault(a: Sequence[TracedNode], b: Sequence[TracedNode]) -> Fault | None:
    """Return what differs between two ways to fold factors and sums per channel into a product; no details if they
    are what `details` says.

    Return None where the nodes compute something else, or it is not clear.
    """
    x, y = _affine(a), _affine(b)
    if x is None or y is None or x.rows.shape != y.rows.shape:
        return None
    is_window = x.product.op == "Conv"
    if is_window and any(_attributes(x.product, y.product)):
        return 0, 0, []
    flat = [(s.rows.reshape(len(s.rows), -1).T * s.factor).T for s in (x, y)]
    live = flat[0].any(1) & flat[1].any(1)
    if live.any() and any(weight_details("", *(_without_factor(s.rows[live]) for s in (x, y)))):
        return (0, 0, []) if is_window else None
    largest = np.arange(len(x.rows)), np.abs(flat).sum(0).argmax(1)
    ratio = np.where(flat[0].any(1) | flat[1].any(1), flat[1][largest] / flat[0][largest], 1)
    if not _are_equal(ratio, 1):
        at_a, at_b = x.node("factor"), y.node("factor")
        if at_a and at_b:  # neither is folded: either the product differs, or what follows it
            of_products, of_others = _are_equal(x.rows, y.rows), _are_equal(x.factor, y.factor)
            at_a, at_b = (0, 0) if of_others else (at_a, at_b) if of_products else (None, None)
        return at_a, at_b, _factor_details(x, y, ratio)
    errors, scale = np.abs(x.shift - y.shift), max(scale_of(x.shift), scale_of(y.shift))
    if errors.max() > _EQUAL * scale:
        c = int(errors.argmax())
        return x.node("shift"), y.node("shift"), [(f"sum of channel {c}", f"{x.shift[c]:g}", f"{y.shift[c]:g}")]
    facts = _function_details(x.functions, y.functions)
    return (x.node("functions"), y.node("functions"), facts) if facts else None


def _are_equal(x: Array, y: Array | float) -> bool:
    return np.allclose(x, y, rtol=_EQUAL, atol=0)


def _factor_details(x: _Affine, y: _Affine, ratio: Array) -> list[Detail]:
    """Return how the factors of channels differ: by the epsilon of a BatchNormalization, or by numbers."""
    for side, other, by in ((x, y, ratio), (y, x, 1 / ratio)):
        if len(side.norms) == 1 and not other.norms:
            (norm,) = side.norms
            variance, epsilon = np.asarray(norm.constant(4), np.float64), norm["epsilon"]
            epsilons = (variance + epsilon) / by**2 - variance
            if np.ptp(epsilons) <= _EQUAL * max(variance):
                stated, other_epsilon = f"{epsilon:g}", f"about {np.median(epsilons):.1g}"
                pair = (stated, other_epsilon) if side is x else (other_epsilon, stated)
                return [("BatchNormalization epsilon", *pair)]
    c = int(np.argmax(np.abs(ratio - 1)))
    pair = ("0", "not 0") if np.isinf(ratio[c]) else (f"{x.factor[c]:g}", f"{ratio[c] * x.factor[c]:g}")
    return [(f"factor of channel {c}", *pair)]


def _function_details(left: Sequence[Op], right: Sequence[Op]) -> list[Detail]:
    """Return how the functions of elements after two products differ."""
    if [o.op for o in left] != [o.op for o in right]:
        shown = [", ".join(o.op for o in ops) or "none" for ops in (left, right)]
        return [("functions after it", shown[0], shown[1])]
    pairs = list(zip(left, right))
    return [d for o, p in pairs for d in (*_attributes(o, p), *_constants(o, p, False))]


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
