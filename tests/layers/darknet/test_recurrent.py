"""Tests of Darknet's recurrent sections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL

from .recorded import as_recorded, recorded, refuses

test_sections_match_the_recorded_results = as_recorded("rnn", "gru", "lstm", "crnn", "conv_lstm")

CONV = "[conv_lstm]\noutput=8\npad=1\n"
test_kernel_keeps_the_size = refuses(CONV.replace("pad=1", "pad=0"), "size=3 needs a padding of half the kernel")
test_stride_is_refused = refuses(CONV + "stride=2\n", "stride=2 is not supported, only stride=1")
test_binary_weights_are_refused = refuses(CONV + "xnor=1\n", "xnor=1 is not supported, only xnor=0")
test_groups_divide_channels = refuses(CONV + "groups=3\n", "groups=3 does not divide 8 channels")
test_function_of_the_state_is_tanh = refuses(CONV + "lstm_activation=leaky\n", "must be one of tanh")
test_bottleneck_keeps_the_channels = refuses(
    CONV.replace("output=8", "output=4") + "bottleneck=1\n",
    "bottleneck needs output=8, the number of input channels",
)
test_filters_of_crnn_are_named = refuses("[crnn]\nactivation=leaky\n", "'crnn' can mean 2 things, give dialect=")
test_crnn_mixes_no_programs = refuses("[crnn]\nhidden=4\noutput_filters=2\n", "'crnn' fits none of 2 things")
test_tanh_is_that_of_pjreddie = refuses("[gru]\noutput=2\nsize=1\n", "options has no field 'size'")


@pytest.mark.parametrize("name", ["crnn of the fork 0", "gru ['tanh=1'] by Darknet"])
def test_options_tell_the_program(name: str, tmp_path: Path) -> None:
    case = recorded()[name]
    net = anylayer.read(*case.save(tmp_path))
    assert len(net.network.nodes) == 1 and net.network.nodes[0].blobs and not net.unknown


def test_every_dialect_of_a_section_is_recorded() -> None:
    dialects = {(c.name.split()[0], c.dialect) for c in recorded().values() if c.dialect}
    assert dialects >= {(name, d) for name in ("rnn", "gru", "lstm", "crnn") for d in ("pjreddie", "alexeyab")}


@pytest.mark.parametrize("engine", ALL)
def test_first_state_meets_large_weights(engine: str, tmp_path: Path) -> None:
    (tmp_path / "net.cfg").write_text("[net]\ninputs=200\n[rnn]\noutput=200\nactivation=linear\n")
    net = anylayer.read(tmp_path / "net.cfg").fill(1)
    x = np.random.default_rng(2).random((2, 200), np.float32)
    b0, w0, b1, w1, b2, w2 = net.network.nodes[0].blobs
    first = x[:1] @ w0.T + b0 + b1
    second = x[1:] @ w0.T + b0 + first @ w1.T + b1
    expected = np.concatenate([first, second]) @ w2.T + b2
    got = net.compile(engine, threads=1, shapes={"data": x.shape})({"data": x})["rnn_0"]
    assert_same(got, expected, tolerance=1e-4)
