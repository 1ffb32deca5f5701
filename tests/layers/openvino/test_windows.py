"""Tests of convolutions and transposed convolutions."""

from __future__ import annotations

from pathlib import Path

import pytest
from openvino import opset15 as o15

from anylayer.errors import LayerError
from anylayer.testing import assert_same
from tests.engine_names import ALL

from .harness import const, matches, noise, read_net, reference, save

X, W, T = noise(1, 3, 8, 9), noise(4, 3, 3, 3), noise(3, 4, 3, 3)
CASES = {
    f"convolution {word}": matches(
        lambda x, word=word: o15.convolution(x, const(W), [2, 3], [1, 0], [1, 2], [1, 1], auto_pad=word), X
    )
    for word in ("EXPLICIT", "SAME_UPPER", "SAME_LOWER", "VALID")
}
CASES["convolution 1-D"] = matches(
    lambda x: o15.convolution(x, const(noise(4, 3, 3)), [2], [1], [1], [2]), noise(1, 3, 20)
)
CASES["convolution 3-D"] = matches(
    lambda x: o15.convolution(x, const(noise(4, 2, 2, 3, 3)), [1, 2, 1], [1, 0, 0], [0, 1, 1], [1, 1, 1]),
    noise(1, 2, 4, 8, 7),
)
CASES["groups"] = matches(
    lambda x: o15.group_convolution(x, const(noise(3, 2, 1, 3, 3)), [1, 1], [1, 1], [1, 1], [1, 1]), X
)
CASES["transposed"] = matches(
    lambda x: o15.convolution_backprop_data(
        x, const(T), [2, 2], pads_begin=[1, 0], pads_end=[0, 1], dilations=[1, 1], output_padding=[1, 0]
    ),
    X,
)
CASES["transposed to a shape, explicit"] = matches(
    lambda x: o15.convolution_backprop_data(x, const(T), [2, 2], const([16, 18]), [1, 1], [1, 1]), X
)
CASES |= {
    f"transposed to {shape}, {word}": matches(
        lambda x, word=word, shape=shape: o15.convolution_backprop_data(
            x, const(T), [2, 2], const(shape), auto_pad=word
        ),
        X,
    )
    for word in ("explicit", "same_upper", "same_lower", "valid")
    for shape in ([16, 18], [17, 19])
}
CASES["transposed groups"] = matches(
    lambda x: o15.group_convolution_backprop_data(
        x, const(noise(3, 1, 2, 4, 4)), [2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    ),
    X,
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)


@pytest.mark.parametrize("kind", ["convolution", "group_convolution"])
def test_output_padding_of_zeros_is_ignored(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    weights = W if kind == "convolution" else noise(3, 2, 1, 3, 3)
    save(lambda x: getattr(o15, kind)(x, const(weights), [1, 1], [1, 1], [1, 1], [1, 1]), [X], path)
    want = reference(path, [X])[0]
    written = path.read_text()
    path.write_text(written.replace('auto_pad="explicit"', 'auto_pad="explicit" output_padding="0, 0"'))
    for engine in ALL:
        (got,) = read_net(path).compile(engine, threads=1)(X).values()
        assert_same(got, want, engine)
    path.write_text(written.replace('auto_pad="explicit"', 'auto_pad="explicit" output_padding="0, 1"'))
    with pytest.raises(LayerError, match=r"output_padding=\[0, 1\] needs a transposed convolution"):
        read_net(path).compile("numpy")(X)
