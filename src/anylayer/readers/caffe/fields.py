"""The fields of a layer: which are Caffe's own, which are the layer's parameters, which nobody knows."""

from __future__ import annotations

from typing import Any

from anylayer.errors import nearest
from anylayer.layer import Definition, Registry
from anylayer.readers.caffe.tree import Block

NET = ("name", "layers", "input", "input_dim", "force_backward", "state", "debug_info", "input_shape", "layer")
GENERIC = (
    "name",
    "type",
    "bottom",
    "top",
    "loss_weight",
    "param",
    "blobs",
    "include",
    "exclude",
    "phase",
    "propagate_down",
    "blobs_lr",
    "weight_decay",
    "blob_share_mode",
)
BVLC = tuple(
    f"{name}_param"
    for name in (
        "transform loss accuracy argmax concat contrastive_loss convolution data dropout dummy_data eltwise exp "
        "hdf5_data hdf5_output hinge_loss image_data infogain_loss inner_product lrn memory_data mvn pooling power "
        "relu sigmoid softmax slice tanh threshold window_data python prelu spp reshape log flatten reduction embed "
        "tile batch_norm elu bias scale input crop parameter recurrent swish clip"
    ).split()
)


def check_net(net: Block) -> None:
    """Refuse a top-level field that no network has."""
    for entry in net:
        if entry.name not in NET:
            raise net.fail(f"a network has no field '{entry.name}'{nearest(entry.name, NET)}", entry.line)


def params(layer: Block, type_: str, definitions: list[Definition]) -> dict[str, Any]:
    """A layer's parameters: all its fields but the generic ones.

    A layer that is known takes the messages it declares, those of other layers (which Caffe ignores there)
    and no others; one that is not (`definitions` empty) keeps everything.
    """
    own = layer.without(*GENERIC)
    if definitions:
        messages = {str(getattr(d.cls, "message", "")) for d in definitions}
        allowed = {*BVLC, *messages}
        for entry in own:
            if entry.name in allowed or entry.name in Registry.of("caffe").messages():
                continue
            hint = nearest(entry.name, messages - {""}) or nearest(entry.name, {*allowed, *GENERIC} - {""})
            raise layer.fail(
                f"layer '{layer.text('name')}' ({type_}) has no field '{entry.name}'{hint}", entry.line
            )
    return own.to_dict()
