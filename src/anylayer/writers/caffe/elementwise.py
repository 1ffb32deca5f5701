"""Operators that treat each element by itself, or elements of two values that stand at one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.tracing import Op, Value
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.views import Reshape, View


def on_blob(b: Builder, view: View, make: Callable[[View], View]) -> View:
    """What `make` gives for the view's blob, moved as the view moves it."""
    if not view.moves_only:
        return make(b.settled(view))
    made = make(View(view.name, view.base))
    return View(made.name, made.base, view.steps)


def unary(type_: str, params: Callable[[Op], Mapping[str, Any]] | None = None) -> Form:
    """The form of an operator that one layer of the same shape is."""

    def form(b: Builder, op: Op) -> None:
        given = params(op) if params is not None else {}
        b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: b.add(type_, [x], x.base, given)))

    return form


def _attr(op: Op, name: str, default: float) -> float:
    value = op.attrs.get(name)
    return default if value is None else float(value)


def power(
    b: Builder, x: View, *, scale: float = 1.0, shift: float = 0.0, exponent: float = 1.0, suffix: str = ""
) -> View:
    """(shift + scale * x) ** exponent."""
    fields = {"power": (exponent, 1.0), "scale": (scale, 1.0), "shift": (shift, 0.0)}
    given = {name: value for name, (value, default) in fields.items() if value != default}
    return b.add("Power", [x], x.base, {"power_param": given}, suffix=suffix)


def _lrn(op: Op) -> dict[str, Any]:
    fields = {"local_size": (int(op.attrs["size"]), 5), "alpha": (_attr(op, "alpha", 1e-4), 1.0)}
    fields |= {"beta": (_attr(op, "beta", 0.75), 0.75), "k": (_attr(op, "bias", 1.0), 1.0)}
    return {"lrn_param": {name: value for name, (value, default) in fields.items() if value != default}}


def _powers(scale: float = 1.0, exponent: float = 1.0) -> Form:
    def form(b: Builder, op: Op) -> None:
        view = b.view(op.inputs[0])
        b.give(op.outputs[0], on_blob(b, view, lambda x: power(b, x, scale=scale, exponent=exponent)))

    return form


def relu(b: Builder, x: View, slope: float = 0.0, suffix: str = "") -> View:
    """max(x, 0) + slope * min(x, 0)."""
    return b.add("ReLU", [x], x.base, {"relu_param": {"negative_slope": slope} if slope else {}}, suffix=suffix)


def clip(b: Builder, x: View, low: float, high: float) -> View:
    """Limit to low..high: Clip, ReLU6, or steps of ReLU and Power that are the same."""
    if not math.isfinite(high) or high >= 3e38:
        if low == 0:
            return relu(b, x)
        if not math.isfinite(low) or low <= -3e38:
            return x
        return power(b, relu(b, power(b, x, shift=-low, suffix="shifted"), suffix="relu"), shift=low)
    if b.dialect.has("Clip"):
        low = max(low, float(np.finfo(np.float32).min))
        return b.add("Clip", [x], x.base, {"clip_param": {"min": low, "max": high}})
    if low == 0 and high == 6 and b.dialect.has("ReLU6"):
        return b.add("ReLU6", [x], x.base)
    if math.isfinite(low) and low > -3e38:
        x = relu(b, x if low == 0 else power(b, x, shift=-low, suffix="shifted"), suffix="relu")
        x = power(b, x, scale=-1, shift=high - low, suffix="flipped")
    else:
        x = power(b, x, scale=-1, shift=high, suffix="flipped")
        low = 0
    return power(b, relu(b, x, suffix="limited"), scale=-1, shift=high)


def _clip(b: Builder, op: Op) -> None:
    bounds = [-math.inf, math.inf]
    for i, value in enumerate(op.inputs[1:3]):
        if value is not None:
            bound = b.const(value)
            b.need(bound is not None, "no limits that are computed")
            bounds[i] = float(np.asarray(bound).reshape(-1)[0])
    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: clip(b, x, *bounds)))


def _hard_sigmoid(b: Builder, op: Op) -> None:
    scale, shift = _attr(op, "alpha", 0.2), _attr(op, "beta", 0.5)

    def make(x: View) -> View:
        return clip(b, power(b, x, scale=scale, shift=shift, suffix="line"), 0.0, 1.0)

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _hard_swish(b: Builder, op: Op) -> None:
    def make(x: View) -> View:
        gate = clip(b, power(b, x, scale=1 / 6, shift=0.5, suffix="line"), 0.0, 1.0)
        return eltwise(b, [x, gate], "PROD")

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _selu(b: Builder, op: Op) -> None:
    alpha, gamma = _attr(op, "alpha", 1.6732632), _attr(op, "gamma", 1.0507010)

    def make(x: View) -> View:
        return power(b, b.add("ELU", [x], x.base, {"elu_param": {"alpha": alpha}}, suffix="elu"), scale=gamma)

    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), make))


def _prelu(b: Builder, op: Op) -> None:
    slope = b.const(op.inputs[1])
    b.need(slope is not None, "no PReLU whose slope is computed")
    view = b.view(op.inputs[0])
    lies = None if slope is None else b.spread(view, slope)
    if lies is None:
        view = b.settled(view)
        lies = b.spread(view, np.asarray(slope))
    if lies is None:
        return
    varies = [i for i, n in enumerate(lies.shape) if n > 1]
    rest = lies

    def make(x: View) -> View:
        if not varies:
            return relu(b, x, float(rest.reshape(-1)[0]))
        if varies == [1]:
            return b.add("PReLU", [x], x.base, {}, [rest.reshape(-1)])
        below = relu(b, power(b, x, scale=-1, suffix="flipped"), suffix="below")
        scaled = channel_wise(b, below, rest, None, suffix="slope")
        return eltwise(b, [relu(b, x, suffix="above"), scaled], "SUM", [1.0, -1.0])

    b.give(op.outputs[0], on_blob(b, view, make))


def _pow(b: Builder, op: Op) -> None:
    exponent = b.const(op.inputs[1])
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(-1)[0])
        b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, exponent=number)))
        return
    base = b.const(op.inputs[0])
    b.need(base is not None and base.size == 1 and base.min() > 0, "no power of two computed values")
    number = float(np.asarray(base).reshape(-1)[0])
    b.give(
        op.outputs[0],
        on_blob(b, b.view(op.inputs[1]), lambda x: b.add("Exp", [x], x.base, {"exp_param": {"base": number}})),
    )


# ---- two values


def eltwise(b: Builder, xs: Sequence[View], operation: str, coeff: Sequence[float] = (), suffix: str = "") -> View:
    """PROD, SUM or MAX of blobs of one shape."""
    params: dict[str, Any] = {} if operation == "SUM" else {"operation": operation}
    if any(c != 1 for c in coeff):
        params["coeff"] = [float(c) for c in coeff]
    return b.add("Eltwise", xs, xs[0].shape, {"eltwise_param": params}, suffix=suffix)


def channel_wise(b: Builder, x: View, scale: Array | None, shift: Array | None, *, suffix: str = "") -> View:
    """x * scale + shift, both of x's rank with 1 along the axes they do not vary on."""
    parts = [p for p in (scale, shift) if p is not None]
    varies = sorted({i for p in parts for i, n in enumerate(p.shape) if n > 1})
    if not varies:
        numbers = [None if p is None else float(p.reshape(-1)[0]) for p in (scale, shift)]
        merged = _into_power(b, x, *numbers)
        return merged or power(
            b, x, scale=1.0 if numbers[0] is None else numbers[0], shift=numbers[1] or 0.0, suffix=suffix
        )
    first, last = varies[0], varies[-1]
    shape = x.base[first : last + 1]
    full = [
        None if p is None else np.broadcast_to(p, (*p.shape[:first], *shape, *p.shape[last + 1 :]))
        for p in (scale, shift)
    ]
    flat = [None if p is None else np.ascontiguousarray(p).reshape(shape) for p in full]
    merged = _into_layer(b, x, first, *flat) if len(shape) == 1 else None
    if merged is not None:
        return merged
    return _affine(b, x, first, shape, flat, suffix)


def _affine(b: Builder, x: View, axis: int, shape: Sequence[int], parts: list[Array | None], suffix: str) -> View:
    scale, shift = parts
    where: dict[str, Any] = {"axis": axis} if axis != 1 else {}
    where |= {"num_axes": len(shape)} if len(shape) != 1 else {}
    if scale is None and shift is not None and b.dialect.has("Bias"):
        return b.add("Bias", [x], x.base, {"bias_param": where}, [shift], suffix=suffix)
    if b.dialect.has("Scale"):
        blobs = [np.ones(shape, np.float32) if scale is None else scale]
        if shift is not None:
            where["bias_term"] = True
            blobs.append(shift)
        return b.add("Scale", [x], x.base, {"scale_param": where}, blobs, suffix=suffix)
    b.need(axis == 1 and len(shape) == 1 and len(x.base) == 4, "no Scale, and no other factor than one a channel")
    channels = x.base[1]
    ones = np.ones(channels, np.float32) if scale is None else scale
    params: dict[str, Any] = {"num_output": channels, "kernel_size": 1}
    params |= {"group": channels} if channels > 1 else {}
    params |= {"bias_term": False} if shift is None else {}
    blobs = [ones.reshape(-1, 1, 1, 1), *([] if shift is None else [shift])]
    return b.add("Convolution", [x], x.base, {"convolution_param": params}, blobs, suffix=suffix)


def _alone(b: Builder, x: View, *types: str) -> Any:
    """The layer that gives a blob nothing else reads, so that more can be put into it."""
    layer = b.producer(x, *types)
    return layer if layer is not None and x.name in b.mergeable else None


def _into_power(b: Builder, x: View, scale: float | None, shift: float | None) -> View | None:
    """A sum put into the Power before it, which only multiplies."""
    layer = _alone(b, x, "Power")
    if layer is None or scale is not None or shift is None:
        return None
    values = layer.params.setdefault("power_param", {})
    if "power" in values:
        return None
    values["shift"] = values.get("shift", 0.0) + shift
    return x


def _into_layer(b: Builder, x: View, axis: int, scale: Array | None, shift: Array | None) -> View | None:
    """A sum put as the bias into the layer before it, which has none."""
    layer = _alone(b, x, "Scale", "InnerProduct", "Convolution", "Deconvolution")
    if layer is None or scale is not None or shift is None:
        return None
    message = {"Scale": "scale_param", "InnerProduct": "inner_product_param"}.get(layer.type, "convolution_param")
    values = layer.params.get(message, {})
    own = layer.blobs[0].shape == shift.shape if layer.type == "Scale" else values.get("bias_term") is False
    if len(layer.blobs) != 1 or values.get("axis", 1) != axis or not own or len(layer.bottoms) != 1:
        return None
    if layer.type == "InnerProduct" and axis != len(x.base) - 1:
        return None
    if layer.type == "Scale":
        values = {**values, "bias_term": True}
    else:
        values = {k: v for k, v in values.items() if k != "bias_term"}
    layer.params[message] = values
    layer.blobs.append(shift)
    return x


def _add(b: Builder, op: Op) -> None:
    _joined(b, op, 1.0)


def _sub(b: Builder, op: Op) -> None:
    _joined(b, op, -1.0)


def _joined(b: Builder, op: Op, sign: float) -> None:
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const(right)
    if constant is not None:
        _with_constant(b, op, left, None, np.asarray(constant, np.float32) * np.float32(sign))
        return
    constant = b.const(left)
    if constant is not None:
        minus = None if sign > 0 else np.asarray(-1, np.float32)
        _with_constant(b, op, right, minus, np.asarray(constant, np.float32))
        return
    _two(b, op, "SUM", [1.0, sign])


def _with_constant(b: Builder, op: Op, value: Value | None, scale: Array | None, shift: Array | None) -> None:
    view = b.view(value)
    shape = tuple(op.outputs[0].shape)
    if view.shape != shape:
        view = tiled(b, b.settled(view), shape)
    parts = [None if p is None else b.spread(view, p) for p in (scale, shift)]
    if any(p is not None and q is None for p, q in zip((scale, shift), parts)):
        view = b.settled(view)
        parts = [None if p is None else b.spread(view, p) for p in (scale, shift)]
    b.mergeable = {view.name} if b.only_use(value) and b.reads(view.name) == 0 else set()
    b.give(op.outputs[0], on_blob(b, view, lambda x: channel_wise(b, x, parts[0], parts[1])))
    b.mergeable = set()


def _mul(b: Builder, op: Op) -> None:
    left, right = op.inputs[0], op.inputs[1]
    for value, other in ((left, right), (right, left)):
        constant = b.const(other)
        if constant is not None:
            _with_constant(b, op, value, np.asarray(constant, np.float32), None)
            return
    if left is right:
        b.give(op.outputs[0], on_blob(b, b.view(left), lambda x: power(b, x, exponent=2.0)))
        return
    _two(b, op, "PROD")


def _div(b: Builder, op: Op) -> None:
    left, right = op.inputs[0], op.inputs[1]
    constant = b.const(right)
    if constant is not None:
        with np.errstate(divide="ignore"):
            _with_constant(b, op, left, np.float32(1) / np.asarray(constant, np.float32), None)
        return
    inverse = on_blob(b, b.view(right), lambda x: power(b, x, exponent=-1.0, suffix="inverse"))
    constant = b.const(left)
    if constant is not None and right is not None:
        b.views[id(op.outputs[0])] = inverse
        _with_constant(b, op, op.outputs[0], np.asarray(constant, np.float32), None)
        return
    _views(b, op, [b.view(left), inverse], "PROD", ())


def _two(b: Builder, op: Op, operation: str, coeff: Sequence[float] = ()) -> None:
    _views(b, op, [b.view(v) for v in op.inputs], operation, coeff)


def _views(b: Builder, op: Op, views: list[View], operation: str, coeff: Sequence[float]) -> None:
    shape = tuple(int(n) for n in op.outputs[0].shape)
    same = all(v.shape == shape for v in views)
    first = views[0]
    if same and all(v.steps == first.steps and v.base == first.base and v.moves_only for v in views):
        made = eltwise(b, [View(v.name, v.base) for v in views], operation, coeff)
        b.give(op.outputs[0], View(made.name, made.base, first.steps))
        return
    if not same and len(views) == 2:
        made_view = _broadcast(b, views, shape, operation, coeff)
        if made_view is not None:
            b.give(op.outputs[0], made_view)
            return
    full = [tiled(b, b.settled(v), shape) for v in views]
    b.give(op.outputs[0], eltwise(b, full, operation, coeff))


def _broadcast(
    b: Builder, views: list[View], shape: Sequence[int], operation: str, coeff: Sequence[float]
) -> View | None:
    """A map times (or plus) a value that lies on some of its axes: Scale (or Bias) with two bottoms."""
    type_ = {"PROD": "Scale", "SUM": "Bias"}.get(operation, "")
    if not type_ or not b.dialect.has(type_) or any(c != 1 for c in coeff):
        return None
    for full, small in (views, views[::-1]):
        dims = (1,) * (len(shape) - len(small.shape)) + small.shape
        wide = [i for i, n in enumerate(dims) if n != 1]
        if full.shape != tuple(shape) or not wide:
            continue
        first, end = wide[0], wide[-1] + 1
        if dims[1] == shape[1] and shape[0] == 1 and first == 1:
            first = 0  # one number a sample and channel: what squeeze and excitation makes
        if dims[first:end] != tuple(shape[first:end]):
            continue
        message = "scale_param" if type_ == "Scale" else "bias_param"
        lies = b.settled(small.then(Reshape(tuple(dims[first:end]))))
        x = b.settled(full)
        return b.add(type_, [x, lies], x.base, {message: {"axis": first} if first != 1 else {}})
    return None


def tiled(b: Builder, x: View, shape: Sequence[int]) -> View:
    """Repeated along the axes of 1 to a larger shape."""
    x = b.settled(x)
    if x.base == tuple(shape):
        return x
    lead = (1,) * (len(shape) - len(x.base))
    x = b.settled(x.then(Reshape((*lead, *x.base))))
    for axis, n in enumerate(shape):
        if x.base[axis] != n:
            wide = (*x.base[:axis], n, *x.base[axis + 1 :])
            params: dict[str, Any] = {"axis": axis} if axis != 1 else {}
            x = b.add("Tile", [x], wide, {"tile_param": {**params, "tiles": int(n)}}, suffix="tile")
    return x


def _max(b: Builder, op: Op) -> None:
    _extreme(b, op, 1.0)


def _min(b: Builder, op: Op) -> None:
    _extreme(b, op, -1.0)


def _extreme(b: Builder, op: Op, sign: float) -> None:
    """The larger of values, or the smaller of them: that is the larger of their negatives."""
    numbers = [c for v in op.inputs if (c := b.const(v)) is not None and c.size == 1]
    values = [v for v in op.inputs if b.const(v) is None or np.asarray(b.const(v)).size != 1]
    bound = None
    if numbers:
        bound = float(max(float(c.reshape(-1)[0]) * sign for c in numbers)) * sign
    if len(values) == 1 and bound is not None:
        low, high = (bound, math.inf) if sign > 0 else (-math.inf, bound)
        b.give(op.outputs[0], on_blob(b, b.view(values[0]), lambda x: clip(b, x, low, high)))
        return
    b.need(not numbers, "no maximum of several values and a number")
    if sign > 0:
        _two(b, op, "MAX")
        return
    flipped = [on_blob(b, b.view(v), lambda x: power(b, x, scale=-1, suffix="flipped")) for v in values]
    _views(b, op, flipped, "MAX", ())
    largest = b.view(op.outputs[0])
    b.give(op.outputs[0], on_blob(b, largest, lambda x: power(b, x, scale=-1)))


def _sum(b: Builder, op: Op) -> None:
    if len(op.inputs) == 1:
        b.give(op.outputs[0], b.view(op.inputs[0]))
    elif len(op.inputs) == 2:
        _add(b, op)
    else:
        _two(b, op, "SUM")


# ---- truth, as 0 and 1


def _compared(flipped: bool) -> Form:
    """x > number (or x < number): Threshold."""

    def form(b: Builder, op: Op) -> None:
        for value, other, turned in (
            (op.inputs[0], op.inputs[1], flipped),
            (op.inputs[1], op.inputs[0], not flipped),
        ):
            bound = b.const(other)
            if bound is not None and bound.size == 1:
                number = float(bound.reshape(-1)[0])
                view = b.view(value)
                b.give(op.outputs[0], on_blob(b, view, _threshold(b, number, turned)))
                return
        b.need(False, "no comparison but with a number")

    return form


def _threshold(b: Builder, number: float, below: bool) -> Callable[[View], View]:
    def make(x: View) -> View:
        if below:
            x = power(b, x, scale=-1, suffix="flipped")
        at = -number if below else number
        return b.add("Threshold", [x], x.base, {"threshold_param": {"threshold": at} if at else {}})

    return make


def _not(b: Builder, op: Op) -> None:
    b.give(op.outputs[0], on_blob(b, b.view(op.inputs[0]), lambda x: power(b, x, scale=-1, shift=1)))


# ---- batch normalisation


def _batch_norm(b: Builder, op: Op) -> None:
    scale, shift, mean, var = (b.const(v) for v in op.inputs[1:5])
    b.need(all(p is not None for p in (scale, shift, mean, var)), "no batch normalisation by computed statistics")
    if scale is None or shift is None or mean is None or var is None:
        return
    epsilon = _attr(op, "epsilon", 1e-5)
    x = b.settled(op.inputs[0])
    shape = (1, -1, *(1,) * (len(x.base) - 2))
    factor = (scale / np.sqrt(var + np.float32(epsilon))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    if b.fold and b.only_use(op.inputs[0]) and _folded(b, x, factor, offset):
        b.give(op.outputs[0], x)
        return
    if b.fold or not b.dialect.has("BatchNorm"):
        b.give(op.outputs[0], channel_wise(b, x, factor.reshape(shape), offset.reshape(shape)))
        return
    params: dict[str, Any] = {"use_global_stats": True}
    stored = var
    if b.blog_compat:
        stored = (var + np.float32(epsilon)).astype(np.float32)
    elif epsilon != 1e-5:
        params["eps"] = epsilon
    blobs = [mean, stored, np.ones(1, np.float32)]
    y = b.add("BatchNorm", [x], x.base, {"batch_norm_param": params}, blobs)
    y = b.add("Scale", [y], y.base, {"scale_param": {"bias_term": True}}, [scale, shift], suffix="_sc")
    b.give(op.outputs[0], y)


def _folded(b: Builder, x: View, factor: Array, offset: Array) -> bool:
    """Put the normalisation into the weights of the layer that gives x."""
    layer = b.producer(x, "Convolution", "InnerProduct", "Deconvolution")
    if layer is None or b.reads(x.name):
        return False
    message = "inner_product_param" if layer.type == "InnerProduct" else "convolution_param"
    values = layer.params[message]
    if values.get("axis", 1) != 1:
        return False
    weights = layer.blobs[0]
    if layer.type == "Deconvolution":
        group = values.get("group", 1)
        per = factor.reshape(group, 1, -1, *(1,) * (weights.ndim - 2))
        split = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
        layer.blobs[0] = (split * per).reshape(weights.shape)
    else:
        layer.blobs[0] = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
    bias = layer.blobs[1] if len(layer.blobs) > 1 else np.zeros_like(offset)
    layer.blobs[1:] = [bias * factor + offset]
    layer.params[message] = {k: v for k, v in values.items() if k != "bias_term"}
    return True


ELEMENTWISE: dict[str, Form] = {
    "Relu": unary("ReLU"),
    "LeakyRelu": unary("ReLU", lambda op: {"relu_param": {"negative_slope": _attr(op, "alpha", 0.01)}}),
    "Elu": unary("ELU", lambda op: {"elu_param": {"alpha": a} if (a := _attr(op, "alpha", 1.0)) != 1 else {}}),
    "Sigmoid": unary("Sigmoid"),
    "Tanh": unary("TanH"),
    "Softplus": unary("BNLL"),
    "Abs": unary("AbsVal"),
    "Exp": unary("Exp"),
    "Log": unary("Log"),
    "LRN": unary("LRN", _lrn),
    "Sqrt": _powers(exponent=0.5),
    "Reciprocal": _powers(exponent=-1.0),
    "Neg": _powers(scale=-1.0),
    "Clip": _clip,
    "PRelu": _prelu,
    "Selu": _selu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Pow": _pow,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Sum": _sum,
    "BatchNormalization": _batch_norm,
    "Greater": _compared(False),
    "Less": _compared(True),
    "Not": _not,
}
