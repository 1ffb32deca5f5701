"""Upgrade a network of any age to the current form: V0 and V1 layers, old input fields (Caffe's
upgrade_proto.cpp).

Text files and binary files are both upgraded as Blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from anylayer.errors import nearest, wording
from anylayer.network import Word
from anylayer.protobuf.proto_file import core
from anylayer.protobuf.tree import Block, Entry, shortened_text

_TYPES = core().enums["V1LayerParameter.LayerType"].numbers
_IRREGULAR = {
    "NONE": "",
    "BNLL": "BNLL",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "TANH": "TanH",
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
}
_V0_TYPES = {
    "conv": "CONVOLUTION",
    "innerproduct": "INNER_PRODUCT",
    "pool": "POOLING",
    "images": "IMAGE_DATA",
    **{name.lower(): name for name, number in _TYPES.items() if 0 < number < 25},
}
_TRANSFORM = {"scale": "scale", "meanfile": "mean_file", "cropsize": "crop_size", "mirror": "mirror"}
_DATA = {"DATA": "data_param", "IMAGE_DATA": "image_data_param", "WINDOW_DATA": "window_data_param"}
_V0_FIELDS = {
    "CONVOLUTION": (
        "convolution_param",
        "num_output biasterm weight_filler bias_filler pad kernelsize group stride",
    ),
    "INNER_PRODUCT": ("inner_product_param", "num_output biasterm weight_filler bias_filler"),
    "POOLING": ("pooling_param", "pad kernelsize stride pool"),
    "DROPOUT": ("dropout_param", "dropout_ratio"),
    "LRN": ("lrn_param", "local_size alpha beta k"),
    "HDF5_DATA": ("hdf5_data_param", "source batchsize"),
    "INFOGAIN_LOSS": ("infogain_loss_param", "source"),
    "DATA": ("data_param", "source batchsize rand_skip"),
    "IMAGE_DATA": ("image_data_param", "source batchsize rand_skip shuffle_images new_height new_width"),
    "WINDOW_DATA": (
        "window_data_param",
        "source batchsize det_fg_threshold det_bg_threshold det_fg_fraction det_context_pad det_crop_mode",
    ),
    "CONCAT": ("concat_param", "concat_dim"),
}
"""The parameter message of a V1 layer by its type, and the fields of a V0 layer that it gets."""
_RENAMED = {
    "biasterm": "bias_term",
    "kernelsize": "kernel_size",
    "batchsize": "batch_size",
    "shuffle_images": "shuffle",
}
"""Fields of V0 layers with another name in V1. The prefix "det_" is left out in V1."""
_COPIED = ("blobs", "blobs_lr", "weight_decay")


def upgrade(net: Block, types: Iterable[str] = ()) -> Block:
    """Return the network with all layers in the current form, and its inputs as an Input layer.

    `types` are layer types, besides Caffe's own, that the word of a V1 layer may mean ("RELU6" is "ReLU6"). Raise
    FileError for a file that mixes old and new layers, and for a V0 layer with a field that its type does not
    have.
    """
    if "layers" in net:
        if "layer" in net:
            raise net.fail(
                "a network must have only one of 'layer' (new style) and 'layers' (old style), got both",
                next(e.line for e in net if e.name == "layers"),
            )
        if any("layer" in old for old in net.blocks("layers")):
            net = _v0_net(net)
        spelled, old = {t.lower(): t for t in types}, net
        net = old.without()
        for i, entry in enumerate(old):
            if entry.name == "layers":
                net.entries[i] = Entry("layer", _v2_layer(_data_layer(old.as_block(entry)), spelled), entry.line)
    return _input_layer(net)


# ---- V0: layers { layer { ... } bottom top }


def _v0_net(net: Block) -> Block:
    out = Block(net.file, net.line, [e for e in net if e.name in ("name", "input", "input_dim", "force_backward")])
    for layer in _without_padding(net):
        out.entries.append(Entry("layers", _v1_layer(layer), layer.line))
    return out


def _without_padding(net: Block) -> list[Block]:
    """Move the pad of each `padding` layer into the convolution or pooling that reads it."""
    pads: dict[str, tuple[str, int]] = {}
    layers = []
    for connection in net.blocks("layers"):
        inner = connection.block("layer")
        if inner is None:
            raise connection.fail("every 'layers { }' of a V0 network must have a 'layer { }', this one has none")
        if inner.text("type") == "padding":
            bottoms, tops = connection.texts("bottom"), connection.texts("top")
            if len(bottoms) != 1 or len(tops) != 1:
                raise connection.fail("a padding layer must have one bottom and one top")
            pads[tops[0]] = (bottoms[0], inner.integer("pad"))
            continue
        out = connection.without()
        for i, entry in enumerate(out.entries):
            if entry.name != "bottom" or connection.string(entry) not in pads:
                continue
            if inner.text("type") not in ("conv", "pool"):
                raise connection.fail(
                    f"only a conv or a pool may read a padding layer, got {inner.text('type')}", entry.line
                )
            bottom, pad = pads[connection.string(entry)]
            out.entries[i] = Entry("bottom", bottom, entry.line)
            padded = inner.without("pad")
            padded.add("pad", pad)
            out.entries = [Entry(e.name, padded, e.line) if e.name == "layer" else e for e in out.entries]
        layers.append(out)
    return layers


def _v1_layer(connection: Block) -> Block:
    inner = connection.block("layer")
    out = Block(connection.file, connection.line, [e for e in connection if e.name in ("bottom", "top")])
    inner = inner if inner is not None else Block(connection.file)
    old = inner.text("type")
    if old not in _V0_TYPES:
        raise inner.fail(f"V0 has no layer type '{old}'{nearest(old, _V0_TYPES)}")
    type_ = _V0_TYPES[old]
    out.add("type", Word(type_))
    for entry in inner:
        if entry.name in ("name", *_COPIED):
            out.entries.append(entry)
        elif entry.name in _TRANSFORM:
            _inside(out, "transform_param").entries.append(Entry(_TRANSFORM[entry.name], entry.value, entry.line))
        elif entry.name == "hdf5_output_param" and type_ == "HDF5_OUTPUT":
            out.entries.append(entry)
        elif entry.name != "type":
            message, name = _v0_field(inner, entry, old, type_)
            _inside(out, message).entries.append(Entry(name, entry.value, entry.line))
    return out


def _v0_field(layer: Block, entry: Entry, old: str, type_: str) -> tuple[str, str]:
    """Return the parameter message that holds a field of a V0 layer of type `old`, and the field's name in it."""
    message, fields = _V0_FIELDS.get(type_, ("", ""))
    if entry.name not in fields.split():
        hint = nearest(entry.name, fields.split())
        raise layer.fail(f"a V0 layer of type '{old}' has no field '{entry.name}'{hint}", entry.line)
    return message, _RENAMED.get(entry.name, entry.name.removeprefix("det_"))


def _inside(layer: Block, message: str) -> Block:
    """Return the layer's message with this name. Add an empty one if there is none."""
    inner = layer.block(message)
    if inner is None:
        inner = Block(layer.file, layer.line)
        layer.add(message, inner)
    return inner


# ---- V1: layers { type: CONVOLUTION ... }


def _data_layer(layer: Block) -> Block:
    """Return a data layer whose scale, mean_file, crop_size and mirror are in transform_param."""
    entry = layer.entry("type")
    message = _DATA.get(str(entry.value)) if entry is not None else None
    settings = layer.block(message) if message is not None else None
    moved = (
        [e for e in settings if e.name in ("scale", "mean_file", "crop_size", "mirror")]
        if settings is not None
        else []
    )
    if settings is None or not moved:
        return layer
    out = layer.without()
    rest = settings.without(*(e.name for e in moved))
    out.entries = [Entry(e.name, rest, e.line) if e.name == message else e for e in out.entries]
    transform = out.block("transform_param")
    combined = Block(layer.file, layer.line, [*(transform or ()), *moved])
    out = out.without("transform_param")
    out.add("transform_param", combined)
    return out


def _v2_layer(layer: Block, spelled: dict[str, str]) -> Block:
    out = Block(layer.file, layer.line)
    for entry in layer:
        if entry.name == "type":
            out.entries.append(Entry("type", _v2_type(layer, entry, spelled), entry.line))
        elif entry.name not in ("param", "blob_share_mode", "blobs_lr", "weight_decay"):
            out.entries.append(entry)
    for spec in _param_specs(layer):
        out.entries.append(Entry("param", spec, spec.line))
    return out


def _v2_type(layer: Block, entry: Entry, spelled: dict[str, str]) -> str:
    value = entry.value
    if type(value) is int:
        words = {number: word for word, number in _TYPES.items()}
        if value not in words:
            raise layer.fail(
                f"layer type number {value} is not one of Caffe's, and differs between forks. Give the fork's "
                f"caffe.proto with {wording('proto=...', '--proto')}",
                entry.line,
            )
        return v2_type_name(words[value], spelled)
    if not isinstance(value, Word):
        raise layer.fail(
            f"the type of 'layers' (old style) must be a word such as CONVOLUTION, got {shortened_text(value)}. "
            "Write 'layer' for a layer with a quoted type",
            entry.line,
        )
    return v2_type_name(str(value), spelled)


def v2_type_name(word: str, spelled: dict[str, str]) -> str:
    """Return the current type name of a V1 enum word: Caffe's name, or else a known type, or else CamelCase.

    `spelled` maps known types in lower case to their spelling.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    camel = "".join(part.capitalize() for part in word.split("_"))
    if word in _TYPES:
        return camel
    return spelled.get(word.replace("_", "").lower(), camel)


def _param_specs(layer: Block) -> list[Block]:
    """Return the ParamSpecs for a V1 layer's `param` names, share modes, learning rates and weight decays."""
    columns = {
        "param": "name",
        "blob_share_mode": "share_mode",
        "blobs_lr": "lr_mult",
        "weight_decay": "decay_mult",
    }
    specs: list[Block] = []
    for old, new in columns.items():
        for i, entry in enumerate(e for e in layer if e.name == old):
            if i == len(specs):
                specs.append(Block(layer.file, entry.line))
            specs[i].entries.append(Entry(new, entry.value, entry.line))
    return specs


# ---- inputs: input, input_shape, input_dim


def _input_layer(net: Block) -> Block:
    """Return a network in which an Input layer at the beginning replaces the top-level inputs."""
    out = net.without("input", "input_shape", "input_dim")
    names = [e for e in net if e.name == "input"]
    shapes = _input_shapes(net, len(names))
    if not names:
        return out
    layer = Block(net.file, names[0].line)
    layer.add("name", "input")
    layer.add("type", "Input")
    for entry in names:
        layer.add("top", net.string(entry), entry.line)
    param = Block(net.file, layer.line)
    for shape in shapes:
        param.add("shape", shape, shape.line)
    layer.add("input_param", param)
    out.entries.insert(0, Entry("layer", layer, layer.line))
    return out


def _input_shapes(net: Block, inputs: int) -> list[Block]:
    shapes = net.blocks("input_shape")
    dims = [e for e in net if e.name == "input_dim"]
    if shapes and dims:
        raise net.fail("inputs must have only one of 'input_shape' and 'input_dim', got both", dims[0].line)
    if shapes and len(shapes) != inputs:
        raise net.fail(f"{inputs} 'input' need {inputs} 'input_shape', got {len(shapes)}", shapes[0].line)
    if not dims:
        return shapes
    if len(dims) != 4 * inputs:
        raise net.fail(f"{inputs} 'input' need {4 * inputs} 'input_dim', got {len(dims)}", dims[0].line)
    for i in range(inputs):
        shape = Block(net.file, dims[4 * i].line)
        shape.entries = [Entry("dim", e.value, e.line) for e in dims[4 * i : 4 * i + 4]]
        shapes.append(shape)
    return shapes


# ---- layers that Caffe adds when it saves a network


def remove_splits(net: Block) -> Block:
    """Return a network without the Split layers that Caffe inserts for blobs with several consumers.

    Source: insert_splits.cpp.
    """
    sources: dict[str, str] = {}
    out = net.without()
    out.entries = []
    for entry in net:
        if entry.name != "layer":
            out.entries.append(entry)
            continue
        layer = net.as_block(entry)
        name, bottoms, tops = layer.text("name"), layer.texts("bottom"), layer.texts("top")
        inserted = layer.text("type") == "Split" and name.endswith("_split") and len(bottoms) == 1
        if inserted and tops == [f"{name}_{i}" for i in range(len(tops))]:
            sources.update(dict.fromkeys(tops, sources.get(bottoms[0], bottoms[0])))
            continue
        for inner in layer:
            if inner.name == "bottom" and inner.value in sources:
                inner.value = sources[inner.value]
        out.entries.append(entry)
    return out
