"""Convolution and pooling are written exactly although Caffe pads and rounds differently."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError
from anylayer.network import Array
from tests.layers.harness import noise, ramp
from tests.writers.caffe.harness import check, layers_of, traced


def same_pads(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Return TensorFlow's SAME padding of an axis as (before, after); the odd cell comes after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


Function = Callable[[Any], Any]


def conv(w: Array, **options: Any) -> Function:
    """Convolve with `w`."""
    return lambda x: ops.conv(x, w, **options)


def deconv(w: Array, b: Array, **options: Any) -> Function:
    """Apply a transposed convolution with `w`."""
    return lambda x: ops.conv_transpose(x, w, b, **options)


def pool(operator: Any, kernel: Any, **options: Any) -> Function:
    """Pool a map."""
    return lambda x: operator(x, kernel, **options)


@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
def test_convolution_with_same_padding(tmp_path: Path, dialect: str) -> None:
    for size, kernel, stride, dilation in product((5, 6, 8), (1, 2, 3, 5), (1, 2, 3), (1, 2)):
        before, after = same_pads(size, kernel, stride, dilation)
        pads = [before, before, after, after]
        function = conv(noise(2, 3, kernel, kernel), strides=stride, dilations=dilation, pads=pads)
        types = check(tmp_path, function, noise(1, 3, size, size), dialect=dialect)
        if before == after:
            assert types == ["Convolution"], "symmetric padding needs no more than the convolution"


def test_same_padding_of_even_map_is_padded_and_cropped(tmp_path: Path) -> None:
    """A pad of 1 would give the right shape but other samples."""
    w = noise(2, 3, 3, 3)
    graph = traced(lambda x: ops.conv(x, w, strides=2, pads=[0, 0, 1, 1]), [noise(1, 3, 8, 8)])
    net = layers_of(graph)
    conv = next(x for x in net.layers if x.name == "op")
    crop = next(x for x in net.layers if x.type == "Crop")
    assert conv.params["convolution_param"]["pad"] == 2
    assert crop.params["crop_param"] == {"axis": 2, "offset": 1}


@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
def test_max_pooling_with_same_padding(tmp_path: Path, dialect: str) -> None:
    for size, kernel, stride in product((4, 5, 6, 7), (2, 3), (1, 2, 3)):
        before, after = same_pads(size, kernel, stride)
        function = pool(ops.max_pool, kernel, strides=stride, pads=[before, before, after, after])
        check(tmp_path, function, noise(1, 2, size, size), dialect=dialect)


@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
@pytest.mark.parametrize("counted", [False, True])
def test_average_pooling_with_same_padding(tmp_path: Path, dialect: str, counted: bool) -> None:
    """Caffe divides by other numbers of cells; a Scale over the map corrects this."""
    for size, kernel, stride in product((5, 6), (2, 3), (1, 2)):
        before, after = same_pads(size, kernel, stride)
        pads = [before, before, after, after]
        function = pool(ops.average_pool, kernel, strides=stride, pads=pads, count_include_pad=counted)
        check(tmp_path, function, noise(1, 2, size, size), dialect=dialect)


def test_floor_pooling_uses_field_of_dialect(tmp_path: Path) -> None:
    function, found = pool(ops.max_pool, 2, strides=2), {}
    for dialect in ("bvlc", "opencv", "ssd"):
        check(tmp_path, function, ramp(1, 1, 5, 5), dialect=dialect)
        net = layers_of(traced(function, [ramp(1, 1, 5, 5)]), dialect)
        param = next(x for x in net.layers if x.type == "Pooling").params["pooling_param"]
        found[dialect] = {k: v for k, v in param.items() if k.endswith("mode")}
    assert found == {"bvlc": {"round_mode": "FLOOR"}, "opencv": {"ceil_mode": False}, "ssd": {}}


@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
def test_pad_of_one_axis_drops_last_windows_of_both(tmp_path: Path, dialect: str) -> None:
    """Rounded up, there are 3 windows in 4 rows. Caffe drops the last one, since the width is padded."""
    function = pool(ops.max_pool, [1, 3], strides=2, pads=[0, 1, 0, 2])
    types = check(tmp_path, function, noise(1, 2, 4, 4), dialect=dialect)
    assert types == (["Pooling", "Slice", "Split"] if dialect == "opencv" else ["Pooling"])


def test_reductions_of_maps_become_global_pooling(tmp_path: Path) -> None:
    def whole(x: Any) -> Any:
        return x.mean(axis=(2, 3)), x.max(axis=(2, 3), keepdims=True), x.sum(axis=(2, 3))

    types = check(tmp_path, whole, noise(2, 3, 4, 5))
    assert types.count("Pooling") == 3


def test_transposed_convolutions_become_deconvolution(tmp_path: Path) -> None:
    for kernel, stride, pads, more in [
        (3, 2, 1, 0), (4, 2, 1, 0), (2, 2, 0, 0), (3, 2, [0, 0, 1, 1], 0), (3, 2, 1, 1), (2, 3, 0, 1),
    ]:  # fmt: skip
        w, b = noise(4, 2, kernel, kernel), noise(4)
        function = deconv(w, b, strides=stride, pads=pads, group=2, output_padding=more)
        check(tmp_path, function, noise(1, 4, 5, 4))


def test_padding_is_folded_into_convolution(tmp_path: Path) -> None:
    w = noise(2, 3, 3, 3)
    types = check(tmp_path, lambda x: ops.conv(np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2))), w), noise(1, 3, 6, 5))
    assert types == ["Convolution"]


def test_padding_before_max_pooling(tmp_path: Path) -> None:
    """After a ReLU zeros are never the maximum of negative values; without it they may be."""

    def padded(x: Any) -> Any:
        return ops.max_pool(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), 3, strides=2)

    assert check(tmp_path, lambda x: padded(ops.relu(x)), noise(1, 2, 8, 8)).count("Pooling") == 1
    assert "Convolution" in check(tmp_path, padded, noise(1, 2, 8, 8) - 5)


@pytest.mark.parametrize("dialect", ["bvlc", "opencv"])
def test_padding_without_consumer(tmp_path: Path, dialect: str) -> None:
    pads = ((0, 0), (1, 0), (0, 2), (1, 1))
    check(tmp_path, lambda x: np.pad(x, pads) * np.float32(2), noise(1, 2, 4, 5), dialect=dialect)


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (
            lambda x, b: np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=3),
            "padding with 3, only with zeros",
        ),
        (lambda x, b: ops.max_pool(x, 2, dilations=2), "pooling with dilations"),
        (lambda x, b: ops.conv(x, noise(2, 2, 1, 1), b), "convolution with a computed bias"),
        (lambda x, b: ops.conv_transpose(x, noise(2, 2, 1, 1), b), "deconvolution with a computed bias"),
        (
            lambda x, b: ops.lstm(x[0], noise(1, 4, 6), noise(1, 4, 1), x.reshape(1, 72)[:, :8], hidden_size=1)[0],
            "LSTM with a computed bias",
        ),
    ],
)
def test_what_caffe_lacks_is_refused(function: Callable[[Any, Any], Any], rule: str) -> None:
    graph = traced(function, [noise(1, 2, 6, 6), noise(2)])
    with pytest.raises(LayerError, match=re.escape(f": Caffe (dialect 'bvlc') has no {rule}")):
        layers_of(graph)
