"""Elements moved around convolutions and matrix products that can do without: pixels dealt out to batches, crops,
columns in another order."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.optimize.rewrites.matching import ints, last, plain, reshaped, step
from anylayer.optimize.simplify import Rewriter, rule
from anylayer.optimize.views import View, inverse, permuted, whole

_MOST_BYTES = 1 << 25  # of weights that are copied to spare their result a transposition
_KEEPS = frozenset(
    ("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "Tanh", "Clip", "Softplus", "Exp", "Neg", "Abs")
)


_FRONT, _LAST = (0, 1, 2, 3), (0, 3, 1, 2)  # where the samples, channels, rows and columns of a map are


def _view(new: Rewriter, value: Value) -> View | None:
    """What a value is a view of, through reshapes, at most one transposition, and the reshape before that."""
    steps: list[Op] = []
    turned = False
    while (maker := new.maker(value)) is not None and maker.op in ("Reshape", "Transpose"):
        before = steps[-1].op if steps else ""
        if maker.inputs[0] is None or (turned and (maker.op == "Transpose" or before == "Reshape")):
            break
        turned = turned or maker.op == "Transpose"
        steps.append(maker)
        value = maker.inputs[0]
    view: View | None = whole(value)
    for o in reversed(steps):
        if view is not None:
            turn = o.op == "Transpose"
            view = view.transposed(o.attrs["perm"]) if turn else view.reshaped(o.outputs[0].shape)
    return view


def _dealt(base: Value, places: tuple[int, ...], block: tuple[int, int]) -> View | None:
    """A map whose axes are at these places as batches of the pixels at equal places in their blocks."""
    n, c, h, w = (base.shape[p] for p in places)
    if h % block[0] or w % block[1]:
        return None
    first = whole(base).transposed(places)
    cut = first.reshaped((n, c, h // block[0], block[0], w // block[1], block[1]))
    return cut.transposed((3, 5, 0, 1, 2, 4)) if cut is not None else None


def _chain(new: Rewriter, value: Value | None) -> tuple[list[Op], Op | None]:
    """The operators element by element, last first, which nothing else reads, and what makes the first's input."""
    links: list[Op] = []
    maker = new.maker(value)
    while maker is not None and maker.op in _KEEPS and len(links) < 4:
        if not new.read_once(maker.outputs[0]):
            return links, None
        links.append(maker)
        value = maker.inputs[0]
        maker = new.maker(value)
    return links, maker if value is not None and new.read_once(value) else None


def _again(new: Rewriter, o: Op, links: list[Op], y: Value) -> Value:
    """The same operators on another value."""
    for link in reversed(links):
        y = step(new, o, link.op, [y, *link.inputs[1:]], y.shape, **link.attrs)
    return y


@rule("Transpose", figure="two passes over the array less")
def _dilated(new: Rewriter, o: Op) -> list[Value] | None:
    """A convolution of the pixels of equal places in their blocks, which are put back behind it, is dilated."""
    inner = _view(new, o.inputs[0]) if plain(o) and o.inputs[0] is not None else None
    links, conv = _chain(new, inner.base) if inner is not None else ([], None)
    if inner is None or conv is None or conv.op != "Conv" or conv.inputs[0] is None or len(inner.base.shape) != 4:
        return None
    attrs = conv.attrs
    if any(attrs.get("pads") or [0]) or set(attrs.get("strides") or [1]) != {1} or "auto_pad" in attrs:
        return None
    source = _view(new, conv.inputs[0])
    if source is None or len(source.base.shape) != 4 or source.base is conv.inputs[0]:
        return None
    for places in (_FRONT, _LAST):
        x = source.base
        block = tuple(x.shape[places[i]] // conv.inputs[0].shape[i] for i in (2, 3))
        dealt = _dealt(x, places, (block[0], block[1])) if min(block) >= 1 and max(block) > 1 else None
        if dealt is not None and dealt.coarse() == source.coarse() and dealt.size == source.size:
            return _spread(new, o, conv, links, permuted(x, places), (block[0], block[1]))
    return None


def _spread(
    new: Rewriter, o: Op, conv: Op, links: list[Op], source: View, block: tuple[int, int]
) -> list[Value] | None:
    """The dilated convolution, where `o` is all that puts the pixels back."""
    rows, columns = block
    count, m, h, w = conv.outputs[0].shape
    n = source.shape[0]
    x = source.base
    if count != n * rows * columns:
        return None
    got = whole(conv.outputs[0]).reshaped(o.inputs[0].shape if o.inputs[0] is not None else ())
    parts = whole(conv.outputs[0]).reshaped((rows, columns, n, m, h, w))
    if got is None or parts is None:
        return None
    there = got.transposed(o.attrs["perm"]).coarse()
    back = [
        places
        for places, perm in ((_FRONT, (2, 3, 4, 0, 5, 1)), (_LAST, (2, 4, 0, 5, 1, 3)))
        if parts.transposed(perm).coarse() == there
    ]
    if not back:
        return None
    own = conv.attrs.get("dilations") or [1, 1]
    if source.axes != _FRONT:
        x = step(new, o, "Transpose", [x], source.shape, perm=list(source.axes or ()))
    shape = (n, m, h * rows, w * columns)
    spread = {**conv.attrs, "dilations": [own[0] * rows, own[1] * columns]}
    y = _again(new, o, links, step(new, o, "Conv", [x, *conv.inputs[1:]], shape, **spread))
    if back[0] == _LAST:
        y = step(new, o, "Transpose", [y], [shape[i] for i in inverse(_LAST)], perm=list(inverse(_LAST)))
    return last(new, o, y)


@rule("Slice", figure="a pass over the array less")
def _cropped(new: Rewriter, o: Op) -> list[Value] | None:
    """What is cut off the map of a convolution was made of its padding."""
    conv = new.maker(o.inputs[0], "Conv")
    bounds = [ints(v) for v in o.inputs[1:]]
    if conv is None or o.inputs[0] is None or len(bounds) != 4 or not plain(o) or not new.read_once(o.inputs[0]):
        return None
    starts, ends, axes, steps = (b or [] for b in bounds)
    shape = o.inputs[0].shape
    spatial = len(shape) - 2
    pads = list(conv.attrs.get("pads") or [0] * 2 * spatial)
    if set(conv.attrs.get("strides") or [1]) != {1} or "auto_pad" in conv.attrs or len(axes) != len(starts):
        return None
    for start, end, axis, stride in zip(starts, ends, axes, steps):
        if axis < 2 or stride != 1 or not 0 <= start < min(end, shape[axis]):
            return None
        pads[axis - 2] -= start
        pads[axis - 2 + spatial] -= shape[axis] - min(end, shape[axis])
    if min(pads) < 0:
        return None
    return new.emit(o, "Conv", conv.inputs, **{**conv.attrs, "pads": pads})


@rule("Transpose", figure="a pass over the array less")
def _columns_in_order(new: Rewriter, o: Op) -> list[Value] | None:
    """Rows made by a matrix product, each then put into another order, are made in that order."""
    if o.inputs[0] is None or not plain(o):
        return None
    behind, split = _chain(new, o.inputs[0])
    if split is None or split.op != "Reshape":
        return None
    links, maker = _chain(new, split.inputs[0])
    if maker is None or not is_static(maker.outputs[0].shape):
        return None
    order = _order(maker.outputs[0].shape, o.inputs[0].shape, [int(p) for p in o.attrs["perm"]])
    y = _reordered(new, o, maker, order) if order is not None else None
    if y is None:
        return None
    return [reshaped(new, o, _again(new, o, [*behind, *links], y), o.outputs[0].shape)]


def _order(matrix: tuple[int, ...], split: tuple[int, ...], perm: list[int]) -> np.ndarray | None:
    """Which column each column is of a matrix whose rows are put into another order, all alike."""
    if len(matrix) != 2 or matrix[1] > 1 << 20 or matrix[0] * matrix[1] > 1 << 22:
        return None
    places = np.arange(matrix[0] * matrix[1]).reshape(split).transpose(perm).reshape(matrix)
    order = places[0]
    rows = np.arange(matrix[0])[:, None] * matrix[1]
    return order if order.max() < matrix[1] and (places == order + rows).all() else None


def _reordered(new: Rewriter, o: Op, product: Op, order: np.ndarray) -> Value | None:
    """A matrix product with constant weights, its columns in another order."""
    weights = product.inputs[1] if product.op in ("MatMul", "Gemm") else None
    bias = product.inputs[2] if product.op == "Gemm" and len(product.inputs) > 2 else None
    if weights is None or weights.const is None or weights.const.ndim != 2 or set(product.attrs) - {"transB"}:
        return None
    if weights.const.nbytes > _MOST_BYTES:
        return None
    inputs = [
        product.inputs[0],
        new.constant(np.take(weights.const, order, 0 if product.attrs.get("transB") else 1)),
    ]
    if bias is not None:
        if bias.const is None or bias.const.size not in (1, len(order)):
            return None
        inputs.append(bias if bias.const.size == 1 else new.constant(bias.const.reshape(-1)[order]))
    return step(new, o, product.op, inputs, product.outputs[0].shape, **product.attrs)
