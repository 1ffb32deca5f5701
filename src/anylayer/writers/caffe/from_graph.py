"""Turn a graph of ONNX operators into Caffe layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anylayer.errors import LayerError, at
from anylayer.graph import Graph, Op, Value
from anylayer.optimize.order import load_rules
from anylayer.optimize.simplify import simplify
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.data_movement import DATA_MOVEMENT
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.elementwise import ELEMENTWISE
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.normalization import NORMALIZATION
from anylayer.writers.caffe.outputs import finish_outputs, name_blobs
from anylayer.writers.caffe.products import PRODUCTS
from anylayer.writers.caffe.schema import own_message
from anylayer.writers.caffe.views import BlobView
from anylayer.writers.caffe.windows import WINDOWS

Permutations = dict[str, tuple[int, ...]]
"""Inputs and outputs whose axes Caffe has in another order: name -> for each axis in Caffe the source's axis."""

_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def _custom_layer(b: CaffeBuilder, op: Op) -> None:
    """Add a layer of the target's own: the operator is its type, the attributes its parameters."""
    weights = [v for v in op.inputs if v is not None and v.const is not None]
    inputs = [b.view(v) for v in op.inputs if v is not None and v.const is None]
    b.custom_types.add(op.op)
    message = own_message(op.op, b.net.classes)
    shapes = [tuple(v.shape) for v in op.outputs]
    blobs = [np.asarray(v.const) for v in weights]
    tops = b.add_many(op.op, inputs, shapes, {message: dict(op.attrs)}, blobs)
    b.net.layers[-1].given = {message: dict(op.attrs)} if op.attrs else {}
    for value, top in zip(op.outputs, tops):
        b.set_view(value, top)


LOWERINGS: dict[str, CaffeLowering] = {
    "": _custom_layer,
    **WINDOWS,
    **PRODUCTS,
    **ELEMENTWISE,
    **NORMALIZATION,
    **DATA_MOVEMENT,
}
"""ONNX operator -> the function that adds its layers; "" stands for operators of other domains."""


def net_from_graph(
    graph: Graph,
    net: CaffeNet,
    outputs: Sequence[str],
    places: Mapping[str, str],
    *,
    fold: bool = False,
    blog_compat: bool = False,
    channels_last: bool = False,
) -> tuple[Permutations, Permutations]:
    """Add the layers of a graph to `net`. Return the permutations of its inputs and of its outputs.

    With `channels_last`, inputs (N, H, W, C) become (N, C, H, W) in the file if the graph transposes maps to
    channels-first, and so does an output whose last operator transposes it to channels-last. `outputs` are the
    names of the graph's outputs, `places` maps the names of the network's nodes to places for error messages.

    Raises LayerError, which names the operators that the dialect cannot express.
    """
    graph = simplified(graph, net.dialect)
    b = CaffeBuilder(net, LOWERINGS, places, fold=fold, blog_compat=blog_compat)
    inputs = _inputs(b, graph, channels_last)
    b.lower_graph(graph)
    permuted: Permutations = {}
    blobs = {}
    for name, value in zip(outputs, graph.outputs):
        with at(f"output '{name}'"):
            view = b.view(value)
            if channels_last and view.perm == _TO_NHWC:
                permuted[name] = _TO_NCHW
                view = BlobView(view.name, view.base)
            blobs[name] = b.materialized(view)
    name_blobs(b, blobs)
    finish_outputs(net, outputs)
    return inputs, permuted


def simplified(graph: Graph, dialect: Dialect) -> Graph:
    """Return a graph simplified with the rules for Caffe, and for Ascend's Caffe where that is the dialect."""
    graph = simplify(graph, "caffe", exact=True)
    if dialect.name != "ascend":
        return graph
    load_rules("writers")
    return simplify(graph, "ascend", exact=True)


def _inputs(b: CaffeBuilder, graph: Graph, channels_last: bool) -> Permutations:
    """Add the graph's inputs. Return those that become channels-first in the file."""
    permuted: Permutations = {}
    transposes_maps = any(o.op == "Transpose" and tuple(o["perm"]) == _TO_NCHW for o in graph.ops)
    for value in graph.inputs:
        if value.dtype.kind != "f":
            raise LayerError(f"input '{value.name}' is {value.dtype}, but Caffe has float32 only")
        shape = tuple(int(d) for d in value.shape)
        permute = channels_last and len(shape) == 4 and transposes_maps
        if permute:
            shape = tuple(shape[p] for p in _TO_NCHW)
            permuted[value.name] = _TO_NCHW
        _input(b, value, shape)
        if permute:
            b.views[value] = BlobView(value.name, shape).transposed(_TO_NHWC)
    return permuted


def _input(b: CaffeBuilder, value: Value, shape: tuple[int, ...]) -> None:
    b.layer_names.add(value.name)
    b.blob_names.add(value.name)
    b.views[value] = BlobView(value.name, shape)
    b.shapes[value.name] = shape
    if b.dialect.legacy_inputs:
        b.net.inputs[value.name] = shape
        return
    params = {"input_param": {"shape": {"dim": list(shape)}}}
    b.net.layers.append(CaffeLayer(value.name, "Input", [], [value.name], params))
