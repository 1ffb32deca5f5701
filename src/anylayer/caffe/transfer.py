"""Transfer the weights of a Keras network to a Caffe network: see anylayer.convert.transfer."""

from __future__ import annotations

from typing import Any

from anylayer.api import Net
from anylayer.caffe.net import Net as CaffeNet
from anylayer.convert.transfer import Transfer, shapes_in, transfer
from anylayer.errors import InputError
from anylayer.network import Network
from anylayer.readers.keras import is_model, network_of_model


def transfer_weights(source: Any, target: Any, *, blog_compat: bool = False) -> Transfer:
    """Copy the weights of a Keras network to a Caffe network, and report which layers got weights.

    source: a Keras network from anylayer.read, or a Keras model in memory. target: a Caffe network from
    anylayer.read, or an anylayer.caffe.Net; it is changed in place. Layers are matched by name. A bias that Keras
    lacks becomes zeros where the Caffe layer has one. The variance is stored so that with Caffe's epsilon the
    result is the same as with Keras' own. With `blog_compat` it is stored as variance + Keras' epsilon, to which
    Caffe adds its own.

    Raises InputError where no name matches, and LayerError where weights do not fit.
    """
    if is_model(source):
        source = Net(network_of_model(source), {})
    report = transfer(_network(source), _network(target), shapes_in(source), blog_compat)
    if isinstance(target, CaffeNet):
        target.refresh()
    return report


def _network(net: Any) -> Network:
    network = getattr(net, "network", net)
    if not isinstance(network, Network):
        raise InputError(f"expected a network from anylayer.read, got {type(net).__name__}")
    return network
