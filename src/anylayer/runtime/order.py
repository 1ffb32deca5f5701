"""Warnings for inputs that seem to be channels-last in a network that is channels-first, or vice versa."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anylayer.network import Network


def transposed_inputs(network: Network, shapes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield a warning for each input of rank 4 whose channels seem to be on another axis than in the file.

    `shapes` are the shapes of the arrays that the caller gives, by the input's name. An array with fewer rows than
    channels is no image, and gets no warning: (1, 1, 20, 3) is one channel of 20 x 3 elements.
    """
    for name, shape in shapes.items():
        kind = network.inputs.get(name)
        if kind is None or len(kind.shape) != 4 or len(shape) != 4:
            continue
        last = network.layouts.get(name) == "NHWC"
        here, there = (3, 1) if last else (1, 3)
        channels = kind.shape[here]
        if shape[here] <= channels or shape[there] != channels:
            continue
        order = "(N, H, W, C)" if last else "(N, C, H, W)"
        axes = "0, 2, 3, 1" if last else "0, 3, 1, 2"
        yield (
            f"input '{name}' is {order} = {list(kind.shape)} in the file, the array {list(shape)} seems to have "
            f"its channels {'first' if last else 'last'}: transpose it, x.transpose({axes})"
        )
