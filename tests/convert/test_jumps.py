"""The test of a generated project knows what float32 rounds, and which elements are near a threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anylayer.convert.generation import expected_outputs
from anylayer.convert.job import Job
from anylayer.numerics import largest_error
from tests.layers.darknet.recorded import recorded


def test_elements_near_a_threshold_are_marked(tmp_path: Path) -> None:
    case = recorded()["detection 0"]  # objectness times class, which is 0 up to a threshold of 0.2
    net = case.read(tmp_path)
    x = case.x.copy()
    values = x.reshape(-1)
    values[:36] = 0.7  # classes and objectness: each score is 0.49
    values[0], values[18] = np.float32(0.2) + np.float32(1e-7), 1.0
    job = Job(net.network, net.definitions, {"data": net.network.inputs["data"]})
    outputs = dict(net.network.outputs)
    expected, notes = expected_outputs(job, job.source(outputs), outputs, {"data": x})
    (sample,) = expected.samples
    (name,) = outputs
    assert not notes and np.argwhere(sample.near[name]).tolist() == [[0, 5]]


def test_floors_are_what_float32_rounds(tmp_path: Path) -> None:
    case = recorded()["yolo "]
    net = case.read(tmp_path)
    job = Job(net.network, net.definitions, {"data": net.network.inputs["data"]})
    outputs, inputs = dict(net.network.outputs), {"data": 3 * case.x}
    expected, _ = expected_outputs(job, job.source(outputs), outputs, inputs)
    (name,) = outputs
    exact, rounded = job.in_float64(inputs, outputs)[name], job.numpy(inputs, outputs)[name]
    assert exact.dtype == np.float64 and 0 < largest_error(rounded, exact) <= expected.floors[name] / 4
