"""The ends of a network: every output is a blob of its name that nothing reads, and no other blob is left
unread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from anylayer.errors import at
from anylayer.writers.caffe.builder import Builder
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet, free
from anylayer.writers.caffe.views import View


def name_blobs(b: Builder, views: Mapping[str, View]) -> None:
    """Give blobs without steps the names of the outputs that they are. One that is read, or is an input, or
    several outputs, is copied by a layer."""
    shared = Counter(view.name for view in views.values())
    blobs = {}
    for name, view in views.items():
        with at(f"output '{name}'"), b.within(name):
            ends = b.reads(view.name) == 0 and shared[view.name] == 1 and view.name in b.layers
            blobs[name] = view.name if ends else b.add("Split", [view], view.base).name
    changed = {blob: name for name, blob in blobs.items() if blob != name}
    for holder in set(changed.values()).intersection(b.layers) - set(changed):
        changed[holder] = free(f"{holder}/blob", b.blobs)
    for layer in b.net.layers:
        layer.tops = [changed.get(t, t) for t in layer.tops]
        layer.bottoms = [changed.get(t, t) for t in layer.bottoms]


def finish(net: CaffeNet, outputs: Collection[str]) -> None:
    """Leave no ends but the outputs: other blobs that nothing reads are silenced. OpenCV, which knows ends by
    their layers, gets a layer of the name for each output."""
    taken = {layer.name for layer in net.layers}
    read = {v for layer in net.layers for v in layer.bottoms}
    given = [*net.inputs, *(v for layer in net.layers if layer.type == "Input" for v in layer.tops)]
    tops = given if net.dialect.name == "opencv" else [*given, *(v for layer in net.layers for v in layer.tops)]
    unread = [v for v in dict.fromkeys(tops) if v not in read and v not in outputs]
    if net.dialect.name == "opencv":
        _keep_apart(net)
        name_outputs(net, outputs)
    if unread:
        silence = CaffeLayer(free("silence", taken), "Silence", unread)
        first = sum(layer.type == "Input" for layer in net.layers)
        net.layers.insert(first if net.dialect.name == "opencv" else len(net.layers), silence)


# ---- OpenCV

_SCALING = ("Power", "Scale", "BatchNorm")


def _keep_apart(net: CaffeNet) -> None:
    """Put a Split between a power and the one layer that scales or shifts it."""
    for maker in [layer for layer in net.layers if layer.type == "Power"]:
        values = maker.params.get("power_param") or {}
        if values.get("power", 1) == 1:
            continue
        readers = list(_readers(net, maker))
        if len(readers) == 1 and readers[0].type in _SCALING:
            top, taken = maker.tops[0], _taken(net)
            name = free(f"{maker.name}/apart", taken)
            net.layers.insert(_index(net, maker) + 1, CaffeLayer(name, "Split", [top], [name], place=maker.place))
            readers[0].bottoms = [name if v == top else v for v in readers[0].bottoms]


def _index(net: CaffeNet, layer: CaffeLayer) -> int:
    return next(i for i, other in enumerate(net.layers) if other is layer)


def _readers(net: CaffeNet, maker: CaffeLayer) -> Iterator[CaffeLayer]:
    """The layers that read what a layer gives, up to the one that rewrites it in place."""
    top = maker.tops[0]
    for layer in net.layers[_index(net, maker) + 1 :]:
        if top in layer.bottoms:
            yield layer
        if top in layer.tops:
            return


def name_outputs(net: CaffeNet, outputs: Iterable[str]) -> None:
    """Give each output a layer of its name, and every layer a name of its own.

    OpenCV has no names of blobs: an output is the first top of a layer that nothing reads, called as the layer is
    (a Convolution as its top is), and `forward()` returns what the last layer of the file gives.
    """
    ends = [_end(net, name) for name in outputs]
    _separate(net, {id(layer): name for layer, name in zip(ends, outputs)})
    if ends and not any(layer is net.layers[-1] for layer in ends):
        net.layers.remove(ends[-1])
        net.layers.append(ends[-1])


def _called(layer: CaffeLayer) -> str:
    """The name that OpenCV gives to a layer."""
    return layer.tops[0] if layer.type == "Convolution" and layer.tops else layer.name


def _taken(net: CaffeNet) -> set[str]:
    return {name for layer in net.layers for name in (layer.name, *layer.tops)}


def _end(net: CaffeNet, name: str) -> CaffeLayer:
    """Return a layer whose only top is an output."""
    last = next(layer for layer in reversed(net.layers) if name in layer.tops)
    if len(last.tops) == 1 and last.type != "Input":
        return last
    blob = free(f"{name}/blob", _taken(net))
    _rename_version(net, name, last, blob)
    net.layers.append(CaffeLayer(name, "Split", [blob], [name], place=last.place))
    return net.layers[-1]


def _separate(net: CaffeNet, ends: Mapping[int, str]) -> None:
    """Name the layers of outputs (by id) after them, and other layers so that no two have one name, in the file or
    in OpenCV."""
    taken = _taken(net)
    names, called = set(ends.values()), set(ends.values())
    for layer in net.layers:
        if id(layer) in ends:
            layer.name = ends[id(layer)]
            continue
        if layer.name in names or (layer.name in called and layer.type not in ("Convolution", "Input")):
            layer.name = free(f"{layer.name}/layer", taken)
        names.add(layer.name)
        if layer.type == "Input":
            continue
        if _called(layer) in called:  # of a Convolution, whose top is another layer's
            _rename_version(net, layer.tops[0], layer, free(f"{layer.tops[0]}/blob", taken))
        called.add(_called(layer))


def _rename_version(net: CaffeNet, name: str, maker: CaffeLayer, other: str) -> None:
    """Give a blob another name from the layer that gives it up to the next one that rewrites it in place."""
    start = _index(net, maker)
    maker.tops = [other if t == name else t for t in maker.tops]
    for layer in net.layers[start + 1 :]:
        layer.bottoms = [other if v == name else v for v in layer.bottoms]
        if name in layer.tops:
            return
