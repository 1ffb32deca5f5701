"""Give the outputs of a Caffe network their names.

Caffe's outputs are the blobs that no layer reads. So every output becomes a blob of its name without consumers,
and every other blob without consumers is read by a Silence layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from anylayer.errors import at
from anylayer.source import unused_name
from anylayer.writers.caffe.builder import CaffeBuilder
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.views import BlobView


def name_blobs(b: CaffeBuilder, views: Mapping[str, BlobView]) -> None:
    """Rename the blobs of the outputs. `views` maps the name of an output to its view, which has no steps.

    A Split copies a blob that has consumers, is an input, or is several outputs at once.
    """
    output_count = Counter(view.name for view in views.values())
    blobs = {}
    for name, view in views.items():
        with at(f"output '{name}'"), b.naming_scope(name):
            can_rename = b.use_count(view.name) == 0 and output_count[view.name] == 1 and view.name in b.layers
            blobs[name] = view.name if can_rename else b.add("Split", [view], view.base).name
    changed = {blob: name for name, blob in blobs.items() if blob != name}
    for holder in set(changed.values()).intersection(b.layers) - set(changed):
        changed[holder] = unused_name(f"{holder}/blob", b.blob_names)
    for layer in b.net.layers:
        layer.tops = [changed.get(t, t) for t in layer.tops]
        layer.bottoms = [changed.get(t, t) for t in layer.bottoms]


def finish_outputs(net: CaffeNet, outputs: Collection[str]) -> None:
    """Add a Silence for all blobs without consumers that are not outputs. `outputs` are names of blobs.

    For OpenCV, which calls an output after its layer, also name the layers; see name_outputs.
    """
    layer_names = {layer.name for layer in net.layers}
    read = {v for layer in net.layers for v in layer.bottoms}
    inputs = [*net.inputs, *(v for layer in net.layers if layer.type == "Input" for v in layer.tops)]
    tops = inputs if net.dialect.name == "opencv" else [*inputs, *(v for layer in net.layers for v in layer.tops)]
    unread = [v for v in dict.fromkeys(tops) if v not in read and v not in outputs]
    if net.dialect.name == "opencv":
        _separate_powers(net)
        name_outputs(net, outputs)
    if unread:
        silence = CaffeLayer(unused_name("silence", layer_names), "Silence", unread)
        first = sum(layer.type == "Input" for layer in net.layers)
        net.layers.insert(first if net.dialect.name == "opencv" else len(net.layers), silence)


# ---- OpenCV

_SCALING = ("Power", "Scale", "BatchNorm")


def _separate_powers(net: CaffeNet) -> None:
    """Put a Split between a Power whose exponent is not 1 and the only layer that scales or shifts its result.

    OpenCV would fuse the two as if the exponent were 1.
    """
    for producer in [layer for layer in net.layers if layer.type == "Power"]:
        values = producer.params.get("power_param") or {}
        if values.get("power", 1) == 1:
            continue
        consumers = list(_consumers_of(net, producer))
        if len(consumers) == 1 and consumers[0].type in _SCALING:
            top, used_names = producer.tops[0], _all_names(net)
            name = unused_name(f"{producer.name}/apart", used_names)
            net.layers.insert(
                _index(net, producer) + 1, CaffeLayer(name, "Split", [top], [name], place=producer.place)
            )
            consumers[0].bottoms = [name if v == top else v for v in consumers[0].bottoms]


def _index(net: CaffeNet, layer: CaffeLayer) -> int:
    return next(i for i, other in enumerate(net.layers) if other is layer)


def _consumers_of(net: CaffeNet, producer: CaffeLayer) -> Iterator[CaffeLayer]:
    """Yield the layers that read a layer's first top, up to a layer that rewrites it in place."""
    top = producer.tops[0]
    for layer in net.layers[_index(net, producer) + 1 :]:
        if top in layer.bottoms:
            yield layer
        if top in layer.tops:
            return


def name_outputs(net: CaffeNet, outputs: Iterable[str]) -> None:
    """Give each output a layer of the same name, and all layers different names.

    OpenCV has no names of blobs. An output is the first top of a layer, has no consumer, and is called like the
    layer (a Convolution is called like its top). `forward()` returns the result of the last layer in the file.
    """
    layers = [_output_layer(net, name) for name in outputs]
    _make_names_unique(net, {id(layer): name for layer, name in zip(layers, outputs)})
    if layers and not any(layer is net.layers[-1] for layer in layers):
        net.layers.remove(layers[-1])
        net.layers.append(layers[-1])


def _opencv_name(layer: CaffeLayer) -> str:
    """Return the name that OpenCV gives to a layer."""
    return layer.tops[0] if layer.type == "Convolution" and layer.tops else layer.name


def _all_names(net: CaffeNet) -> set[str]:
    return {name for layer in net.layers for name in (layer.name, *layer.tops)}


def _output_layer(net: CaffeNet, name: str) -> CaffeLayer:
    """Return a layer whose only top is this output; append a Split where there is none."""
    last = next(layer for layer in reversed(net.layers) if name in layer.tops)
    if len(last.tops) == 1 and last.type != "Input":
        return last
    blob = unused_name(f"{name}/blob", _all_names(net))
    _rename_version(net, name, last, blob)
    net.layers.append(CaffeLayer(name, "Split", [blob], [name], place=last.place))
    return net.layers[-1]


def _make_names_unique(net: CaffeNet, outputs: Mapping[int, str]) -> None:
    """Name the layers of outputs after them, and rename others so that names differ in the file and in OpenCV.

    `outputs` maps the id of a layer to the name of its output.
    """
    used_names = _all_names(net)
    names, called = set(outputs.values()), set(outputs.values())
    for layer in net.layers:
        if id(layer) in outputs:
            layer.name = outputs[id(layer)]
            continue
        if layer.name in names or (layer.name in called and layer.type not in ("Convolution", "Input")):
            layer.name = unused_name(f"{layer.name}/layer", used_names)
        names.add(layer.name)
        if layer.type == "Input":
            continue
        if _opencv_name(layer) in called:  # a Convolution whose top has the name of another layer
            _rename_version(net, layer.tops[0], layer, unused_name(f"{layer.tops[0]}/blob", used_names))
        called.add(_opencv_name(layer))


def _rename_version(net: CaffeNet, name: str, producer: CaffeLayer, other: str) -> None:
    """Rename a blob from the layer that produces it up to the next layer that rewrites it in place."""
    start = _index(net, producer)
    producer.tops = [other if t == name else t for t in producer.tops]
    for layer in net.layers[start + 1 :]:
        layer.bottoms = [other if v == name else v for v in layer.bottoms]
        if name in layer.tops:
            return
