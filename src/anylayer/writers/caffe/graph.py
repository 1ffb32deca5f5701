"""A graph of ONNX operators as Caffe's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anylayer.errors import LayerError, at
from anylayer.graph import Graph, Value
from anylayer.optimize.simplify import simplify
from anylayer.writers.caffe.arranging import ARRANGING
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.combining import COMBINING
from anylayer.writers.caffe.elementwise import ELEMENTWISE
from anylayer.writers.caffe.ends import finish, name_blobs
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.patterns import recognised
from anylayer.writers.caffe.products import PRODUCTS
from anylayer.writers.caffe.views import Transpose, View
from anylayer.writers.caffe.windows import WINDOWS

FORMS: dict[str, Form] = {**WINDOWS, **PRODUCTS, **ELEMENTWISE, **COMBINING, **ARRANGING}
"""ONNX operator -> the layers it is."""

_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


class Layouts(dict[str, tuple[int, ...]]):
    """Of inputs and outputs that lie otherwise in Caffe: name -> the source's axes in Caffe's order."""


def graph_net(
    graph: Graph,
    net: CaffeNet,
    outputs: Sequence[str],
    places: Mapping[str, str],
    *,
    fold: bool = False,
    blog_compat: bool = False,
    channels_last: bool = False,
) -> tuple[Layouts, Layouts]:
    """Add the layers of a graph to `net`; return how its inputs and outputs lie.

    With `channels_last` inputs (N, H, W, C) of a network that transposes maps so lie (N, C, H, W) in Caffe, and so
    does an output that is transposed last. `outputs` are the names of the graph's outputs.

    Raises LayerError that names all operators that the dialect cannot express.
    """
    graph = recognised(simplify(graph, exact=True))
    b = Builder(net, FORMS, places, fold=fold, blog_compat=blog_compat)
    inputs = _inputs(b, graph, channels_last)
    b.run(graph)
    ends = Layouts()
    blobs = {}
    for name, value in zip(outputs, graph.outputs):
        with at(f"output '{name}'"):
            view = b.view(value)
            if channels_last and view.perm == _TO_NHWC:
                ends[name] = _TO_NCHW
                view = View(view.name, view.base)
            blobs[name] = b.settled(view)
    name_blobs(b, blobs)
    finish(net, outputs)
    return inputs, ends


def _inputs(b: Builder, graph: Graph, channels_last: bool) -> Layouts:
    found = Layouts()
    moved = any(o.op == "Transpose" and tuple(o.attrs["perm"]) == _TO_NCHW for o in graph.ops)
    for value in graph.inputs:
        if value.dtype.kind != "f":
            raise LayerError(f"input '{value.name}' is {value.dtype}, Caffe has float32 only")
        shape = tuple(int(d) for d in value.shape)
        turned = channels_last and len(shape) == 4 and moved
        if turned:
            shape = tuple(shape[p] for p in _TO_NCHW)
            found[value.name] = _TO_NCHW
        _input(b, value, shape)
        if turned:
            b.views[value] = View(value.name, shape, (Transpose(_TO_NHWC),))
    return found


def _input(b: Builder, value: Value, shape: tuple[int, ...]) -> None:
    b.taken.add(value.name)
    b.blobs.add(value.name)
    b.inputs.add(value.name)
    b.views[value] = View(value.name, shape)
    b.shapes[value.name] = shape
    if b.dialect.legacy_inputs:
        b.net.inputs[value.name] = shape
        return
    params = {"input_param": {"shape": {"dim": list(shape)}}}
    b.net.layers.append(CaffeLayer(value.name, "Input", [], [value.name], params))
