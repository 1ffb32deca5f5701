"""Tests of attributes and shapes that MXNet's operators refuse: recorded cases with one attribute changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anylayer

from .recorded import recorded

REFUSED = {
    "LRN": ("nsize", "4", "nsize must be odd, got 4"),
    "Deconvolution stride": (
        "target_shape",
        "(99, 99)",
        "target_shape [99, 99] is larger than the output without",
    ),
    "Convolution plain": ("num_group", "0", "group"),
    "Convolution 1d": ("stride", "(1, 1)", "stride must be 1 numbers for a shape (2, 4, 9), got [1, 1]"),
    "Convolution no bias": ("no_bias", "False", "no_bias is False, but there is no bias"),
    "Pooling lp 2": ("p_value", "4", "p_value must be 1, 2 or 3, got 4"),
    "Pooling max valid": ("kernel", "()", "parameter 'kernel' is missing"),
    "SoftmaxActivation channel": ("mode", "instance", "with mode instance, the input must have 2 axes"),
    "Dropout": ("mode", "always", "mode=always is not supported, only mode=training"),
    "softmax": ("use_length", "True", "use_length=true is not supported, only use_length=False"),
    "BatchNorm defaults": ("output_mean_var", "True", "output_mean_var=true is not supported"),
    "LayerNorm": ("output_mean_var", "True", "output_mean_var=true is not supported"),
    "LeakyReLU leaky": ("act_type", "prelu", "act_type prelu has a second input, and no other has one"),
    "Activation relu": ("act_type", "mish", "must be one of relu, sigmoid, tanh, softsign, softrelu, got mish"),
    "GroupNorm": ("num_groups", "3", "num_groups=3 does not divide 4 channels"),
    "FullyConnected": ("num_hidden", "6", "the weights must be of shape (6, 12), got (5, 12)"),
    "RNN lstm one": ("projection_size", "2", "projection_size=2 is not supported, only projection_size=None"),
    "RNN gru one": ("state_size", "5", "parameters must be of shape (150,), got (108,)"),
    "Reshape 0": ("shape", "(-5, 4)", "shape has the unknown code -5"),
    "Reshape 1": ("shape", "(-4, 3, 2, -2)", "shape [-4, 3, 2, -2] splits 2 into [3, 2]"),
    "Reshape 2": ("shape", "(5, 5)", "shape [5, 5] does not fit an array of shape (2, 3, 4)"),
    "slice plain": ("step", "(0, 1, 1)", "do not fit a shape (2, 3, 4)"),
    "SliceChannel": ("num_outputs", "4", "num_outputs=4 does not divide axis 1 of size 6"),
    "broadcast_to": ("shape", "(2, 3)", "does not take inputs of shape (1, 3, 1)"),
    "broadcast_axis": ("size", "(2,)", "does not take inputs of shape (1, 3, 1)"),
    "tile": ("reps", "(1000000, 1000, 1000)", "the output would be of shape (2000000, 3000, 4000); the limit"),
    "topk mask": ("axis", "None", "ret_typ mask with axis=None is not supported"),
    "norm 1": ("ord", "3", "ord must be 1 or 2, got 3"),
    "take": ("mode", "raise", "must be one of clip, wrap, got raise"),
    "Crop size": ("h_w", "(9, 9)", "crops 9 cells at 1 of 4"),
    "_foreach cell": ("in_data_locs", "[7]", "its subgraph reads the inputs [7, 2, 1]"),
    "_while_loop first": ("func_var_locs", "[9]", "func_var_locs (9,) of 3 inputs"),
    "_cond then": ("then_input_locs", "[9, 0]", "its subgraph reads the inputs [9, 0] of 3"),
    "SequenceMask": ("axis", "2", "axis must be 0 or 1, got 2"),
    "SequenceLast": ("use_sequence_length", "False", "use_sequence_length=False with lengths"),
    "Pooling_v1 max padded": ("global_pool", "True", "global_pool with pad=[1, 1] is not supported"),
    "_image_crop": ("width", "9", "crops 2 x 9 pixels at 2, 1 of 5 x 6"),
    "_image_normalize": ("std", "(1, 2)", "mean and std must be 1 or 3 numbers each"),
    "_contrib_interleaved_matmul_encdec_qk": ("heads", "5", "heads=5 with 1 part each do not divide 12 values"),
    "Pad edge": ("pad_width", "(1, 1)", "pad_width must be 8 numbers of 0 or more"),
    "_plus_scalar int32": ("scalar", "0.5", "scalar=0.5 with an array of int32 is not supported"),
    "_contrib_AdaptiveAvgPooling2D one": (
        "output_size",
        "(0,)",
        "the output's shape must be positive, got [0, 0]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_refuse_what_they_do_not_support(name: str, tmp_path: Path) -> None:
    attribute, value, text = REFUSED[name]
    case = recorded()[name]
    files = case.save(tmp_path)
    symbol = json.loads(files[0].read_text())
    *_, node = (node for node in symbol["nodes"] if node["op"] != "null")
    node.setdefault("attrs", {})[attribute] = value
    files[0].write_text(json.dumps(symbol))
    with pytest.raises(anylayer.AnyLayerError) as error:
        anylayer.read(*files).compile("numpy", shapes=case.shapes)(case.inputs)
    assert text in str(error.value), str(error.value)


def test_operators_of_one_shape_refuse_others(tmp_path: Path) -> None:
    net = recorded()["elemwise_add"].read(tmp_path)
    inputs = {"in0": np.ones((2, 3, 4), np.float32), "in1": np.ones((3, 4), np.float32)}
    with pytest.raises(anylayer.AnyLayerError, match="all inputs must have one shape, got"):
        net.compile("numpy", shapes={name: x.shape for name, x in inputs.items()})(inputs)
