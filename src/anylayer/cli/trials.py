"""Options and inputs of the commands that run a network for a test: bench, profile and verify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anylayer.cli.command import (
    F,
    apply,
    input_option,
    json_option,
    random_weights_option,
    read_net,
    seed_option,
    shape_option,
    shapes_of,
)
from anylayer.cli.inputs import feed

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.network import Array


def trial_options(function: F) -> F:
    """Add the options for inputs and weights, and --json; see `trial`."""
    noise = input_option("an image, .npy or .npz; other inputs are seeded noise")
    return apply(function, [noise, seed_option, random_weights_option, shape_option, json_option])


def trial(options: Mapping[str, Any]) -> tuple[Net, dict[str, Array]]:
    """Read the network that a command's options describe. Return it with one array per input."""
    net = read_net(options)
    if options.get("assume_free"):
        net = net.assume_free(options["assume_free"])
    arrays = feed(net, options["inputs"], shapes_of(net, options["shapes"]), options["seed"])
    if options["random_weights"]:
        net.fill(options["seed"], {name: array.shape for name, array in arrays.items()})
    return net, arrays
