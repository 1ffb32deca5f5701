"""Layers of Caffe whose code depends on the sizes of their inputs, with open sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from anylayer.layer import Registry, bind
from anylayer.network import Node, TensorType
from tests.compile.open_sizes import check_sizes
from tests.layers.harness import cases

SIZES: list[dict[str, int]] = [{"H": 8, "W": 12}, {"H": 13, "W": 9}, {"H": 16, "W": 16}, {"H": 32, "W": 7}]
LAYERS: list[tuple[str, Mapping[str, Any], list[Sequence[int | str]]]] = [
    ("SPP", {"spp_param": {"pyramid_height": 2}}, [(2, 3, "H", "W")]),
    ("SPP", {"spp_param": {"pyramid_height": 3, "pool": "AVE"}}, [(2, 3, "H", "W")]),
    ("SPP", {"spp_param": {"pyramid_height": 1}}, [(2, 3, "H", "W")]),
    ("SpatialTransformer", {"st_param": {}}, [(2, 3, "H", "W"), (2, 6)]),
    ("SpatialTransformer", {"st_param": {"theta_1_1": 0.5, "output_H": 5}}, [(2, 3, "H", "W"), (2, 5)]),
    ("Pooling", {"pooling_param": {"pool": "AVE", "kernel_size": 1, "stride": 3}}, [(1, 2, "H", "W")]),
    ("Pooling", {"pooling_param": {"pool": "AVE", "kernel_size": 2, "stride": 5}}, [(1, 2, "H", "W")]),
    ("Pooling", {"pooling_param": {"pool": "AVE", "kernel_size": 2, "stride": 3, "pad": 1}}, [(1, 2, "H", "W")]),
]


def layer(type_: str, params: Mapping[str, Any], blobs: Sequence[Any] = ()) -> Any:
    """Return a layer as a function of arrays, which gives its first output."""

    def function(*arrays: Any) -> Any:
        types = [TensorType.of(x.shape, np.float32) for x in arrays]
        inputs = [f"in{i}" for i in range(len(arrays))]
        node = Node(type_, type_, inputs, ["out"], dict(params), list(blobs), place=type_)
        return bind(node, Registry.of("caffe").find(type_), types)(list(arrays))[0]

    return function


@pytest.mark.one_per()
@pytest.mark.parametrize(("type_", "params", "shapes"), LAYERS)
def test_layer_is_right_at_sizes_that_were_not_traced(
    type_: str, params: Mapping[str, Any], shapes: list[Sequence[int | str]]
) -> None:
    check_sizes(layer(type_, params), *shapes, first=SIZES[0], second=SIZES[1], others=SIZES)


def test_number_of_regions_and_size_of_the_map_are_open() -> None:
    params = {"psroi_pooling_param": {"spatial_scale": 0.5, "output_dim": 2, "group_size": 2}}
    sizes = [{"H": 8, "W": 12, "R": 3}, {"H": 13, "W": 9, "R": 5}, {"H": 16, "W": 6, "R": 2}]
    function = layer("PSROIPooling", params)
    check_sizes(function, (2, 8, "H", "W"), ("R", 5), first=sizes[0], second=sizes[1], others=sizes)


@pytest.mark.parametrize("type_", ["LSTM", "RNN"])
def test_batch_of_recurrent_layers_is_open(type_: str) -> None:
    case = next(c for _, c in cases() if c.type == type_ and len(c.inputs) == 2)
    length, _, width = case.inputs[0].shape
    function = layer(type_, case.node().params, case.blobs)
    sizes = [{"N": n} for n in (2, 3, 1, 7)]
    shapes: list[Sequence[int | str]] = [(length, "N", width), (length, "N")]
    check_sizes(function, *shapes, first=sizes[0], second=sizes[1], others=sizes)
