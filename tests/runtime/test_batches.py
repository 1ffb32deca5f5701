"""Batches of requests: equal results, sizes by measurement, and networks whose samples depend on each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, InputError
from anylayer.network import TensorType
from anylayer.runtime.batches import Batches, _cuts

NET = """
input: "data" input_shape { dim: 1 dim: 3 }
layer { name: "last" type: "%s" bottom: "data" top: "last" inner_product_param { num_output: 4 }
        reshape_param { shape { dim: 1 dim: 3 } } }
"""


class Centered:
    """Subtract the mean over the batch."""

    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [inputs[0] - inputs[0].mean(axis=0, keepdims=True)]


def batches(folder: Path, type_: str, most: int = 4, monkeypatch: Any = None, times: Any = None) -> Batches:
    (folder / "net.prototxt").write_text(NET % type_)
    net = anylayer.read(folder / "net.prototxt", layers=[("Centered", Centered)]).fill()
    if times is not None:
        monkeypatch.setattr(Batches, "_time", lambda self, sample, size: times[size])
    return Batches(net.compile("onnxruntime", threads=1), {"data": TensorType((1, 3))}, most)


def requests(*counts: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    return [{"data": random.standard_normal((n, 3), np.float32)} for n in counts]


def test_requests_get_the_results_that_they_get_alone(tmp_path: Path) -> None:
    subject = batches(tmp_path, "InnerProduct")
    given = requests(1, 3, 2, 1)
    for arrays, found in zip(given, subject(given)):
        assert isinstance(found, dict)
        np.testing.assert_allclose(found["last"], subject.model(arrays)["last"], rtol=1e-5)


def test_size_is_the_largest_that_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {1: 1.0, 2: 0.7, 4: 0.5, 8: 0.49}
    subject = batches(tmp_path, "InnerProduct", 16, monkeypatch, times)
    assert (subject.size, subject.why) == (4, "batches of 8 are not faster per sample than 4")
    assert batches(tmp_path, "InnerProduct", 3, monkeypatch, times).size == 2
    assert batches(tmp_path, "InnerProduct", 1, monkeypatch, times).size == 1


def test_batches_are_cut_into_powers_of_two() -> None:
    assert [end - start for start, end in _cuts(23, 8)] == [8, 8, 4, 2, 1]
    assert [*_cuts(2, 8)] == [(0, 2)]


def test_samples_that_depend_on_each_other_are_not_joined(tmp_path: Path) -> None:
    subject = batches(tmp_path, "Centered")
    assert (subject.size, subject.why) == (0, "the samples of a batch depend on each other")
    given = requests(2, 2)
    want = [arrays["data"] - arrays["data"].mean(axis=0) for arrays in given]
    for found, array in zip(subject(given), want):
        assert isinstance(found, dict)
        np.testing.assert_allclose(found["last"], array, rtol=1e-5, atol=1e-6)


def test_network_of_one_sample_is_not_joined(tmp_path: Path) -> None:
    subject = batches(tmp_path, "Reshape")
    assert subject.size == 0
    assert subject.why.startswith("the network does not run with other batch sizes: ")


def test_bad_request_does_not_harm_the_others(tmp_path: Path) -> None:
    subject = batches(tmp_path, "InnerProduct")
    bad, empty = {"data": np.zeros((1, 5), np.float32)}, {"data": np.zeros((0, 3), np.float32)}
    found = subject([requests(1)[0], bad, empty])
    assert isinstance(found[0], dict) and found[0]["last"].shape == (1, 4)
    assert isinstance(found[1], AnyLayerError)
    assert isinstance(found[2], InputError)
