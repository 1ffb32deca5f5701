"""Functions of cv2 that are recorded, compared with cv2, and refusals of the others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anylayer.caffe as caffe
from anylayer.caffe.python_layer import definition_of
from anylayer.compile.selections import trace_with_selections
from anylayer.errors import AnyLayerError
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import call_user, trace_checked
from tests.engine_names import GENERAL, program_of

from .test_selections import several, traced

cv2 = pytest.importorskip("cv2")
RANDOM = np.random.default_rng(0)
COLORS = RANDOM.integers(0, 256, (17, 11, 3)).astype(np.uint8)
ALPHA = RANDOM.integers(0, 256, (9, 8, 4)).astype(np.uint8)
GRAY = COLORS[:, :, 0].copy()
NUMBERS = RANDOM.random((17, 11, 2)).astype(np.float32)
ONE = NUMBERS[:, :, 1].copy()
MATRIX = np.array([[0.9, 0.2, 3], [-0.1, 1.1, 2]])
Images = Callable[[Array], Any]

CASES: list[tuple[Images, Array, float]] = [
    (lambda x: cv2.resize(x, (13, 9)), COLORS, 0),
    (lambda x: cv2.resize(x, None, fx=1.5, fy=1.5), GRAY, 0),
    (lambda x: cv2.resize(x, (5, 8)), NUMBERS, 2e-5),
    (lambda x: cv2.resize(x[:16, :10], (5, 8)), NUMBERS, 1e-6),
    (lambda x: cv2.resize(x, (7, 30), interpolation=cv2.INTER_NEAREST), COLORS, 0),
    (lambda x: cv2.resize(x, (20, 9), interpolation=cv2.INTER_CUBIC), NUMBERS, 2e-6),
    (lambda x: cv2.resize(x[:, :, :1], (6, 5)), COLORS, 0),
    (lambda x: np.hstack(cv2.split(x)), COLORS, 0),
    (lambda x: cv2.split(x)[0], GRAY, 0),
    (lambda x: cv2.merge(cv2.split(x)[::-1]), ALPHA, 0),
    (lambda x: cv2.merge([x[:, :, 1], x[:, :, 0] * 2]), NUMBERS, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2RGB), COLORS, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2GRAY), COLORS, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2GRAY), COLORS, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_GRAY2BGR), GRAY, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_GRAY2BGRA), GRAY, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2RGBA), COLORS, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGRA2BGR), ALPHA, 0),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGRA2GRAY), ALPHA, 0),
    (lambda x: cv2.cvtColor(x / np.float32(255), cv2.COLOR_RGB2GRAY), COLORS, 1e-6),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_CONSTANT, value=(114, 9, 300)), COLORS, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_CONSTANT, value=7), COLORS, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_CONSTANT), GRAY, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_REPLICATE), NUMBERS, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_REFLECT), COLORS, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_REFLECT_101), COLORS, 0),
    (lambda x: cv2.copyMakeBorder(x, 1, 2, 3, 4, cv2.BORDER_WRAP), COLORS, 0),
    (lambda x: cv2.normalize(x, None, 0, 255, cv2.NORM_MINMAX, cv2.CV_8U), ONE, 0),
    (lambda x: cv2.normalize(x * 0 + 3, None, 2, 255, cv2.NORM_MINMAX, cv2.CV_8U), ONE, 0),
    (lambda x: cv2.normalize(x, None, 3, -1.5, cv2.NORM_MINMAX), ONE, 1e-6),
    *(
        (lambda x, kind=kind, y=y: cv2.threshold(x, 0.3 * y, 0.9 * y, kind)[1], image, 0)
        for kind in range(5)
        for image, y in ((ONE, 1.0), (GRAY, 255.0))
    ),
]
WARPED: list[tuple[Images, Array, float]] = [
    (lambda x: cv2.warpAffine(x, MATRIX, (25, 20)), COLORS, 0),
    (lambda x: cv2.warpAffine(x, MATRIX, (25, 20), borderValue=(9, 8, 7)), COLORS, 0),
    (
        lambda x: cv2.warpAffine(x, MATRIX, (9, 9), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP),
        NUMBERS[:, :, 0].copy(),
        1e-5,
    ),
    (lambda x: cv2.warpAffine(x, MATRIX, (9, 30), borderMode=cv2.BORDER_REPLICATE), ONE, 1e-5),
    (lambda x: cv2.warpAffine(x, cv2.getRotationMatrix2D((5, 8), 30, 1), (11, 17)), GRAY, 0),
]
if cv2.__version__ >= "5":
    CASES += WARPED


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("index", range(len(CASES)))
def test_recorded_function_equals_opencv(index: int, engine: str) -> None:
    function, x, tolerance = CASES[index]
    run = program_of(traced(function, [TensorType.of(x.shape, x.dtype)]), engine)
    for image in (x, np.ascontiguousarray(x[::-1]), np.zeros_like(x)):
        want, (got,) = function(image), run([image])
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


def boxes_and_scores(seed: int, share: float) -> list[Array]:
    """Return boxes (x, y, width, height), some of them without an area or equal, and scores with ties."""
    random = np.random.default_rng(seed)
    boxes = np.concatenate([random.random((40, 2)) * 70, random.random((40, 2)) * 30], axis=1)
    boxes[5] = boxes[6]
    boxes[7:10, 2] = 0
    boxes[11:13, 2:] *= -1
    scores = np.round(random.random(40) * 20) / 20 * share
    return [boxes.astype(np.float32), scores.astype(np.float32)]


NMS: list[Callable[[Array, Array], Any]] = [
    lambda b, s: b[cv2.dnn.NMSBoxes(b, s, 0.5, 0.4)] if len(cv2.dnn.NMSBoxes(b, s, 0.5, 0.4)) > 0 else b[:0],
    lambda b, s: np.array(cv2.dnn.NMSBoxes(b, s, 0.3, 0.3, top_k=7), np.int32),
    lambda b, s: np.array(cv2.dnn.NMSBoxes(b.tolist(), s.tolist(), 0.5, 0.4), np.int32),
    lambda b, s: np.array(b.tolist())[:, 0] + len(s.tolist()) + np.array(b.tolist()[3] + b[4].tolist()).sum(),
    lambda b, s: np.array(cv2.dnn.NMSBoxes(bboxes=b, scores=s, score_threshold=0.0, nms_threshold=0.6), np.int32),
    lambda b, s: np.array(cv2.dnn.NMSBoxesBatched(b, s, np.arange(40) % 3, 0.3, 0.3), np.int32),
    lambda b, s: np.array(cv2.dnn.NMSBoxesBatched(b - 60, s, (b[:, 0] > 30).astype(int), 0.3, 0.1), np.int32),
    lambda b, s: np.array(
        cv2.dnn.NMSBoxesBatched(b.tolist(), s.tolist(), np.argmax(b, axis=1).tolist(), 0.2, 0.4, top_k=20),
        np.int32,
    ),
]


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("index", range(len(NMS)))
def test_nms_boxes_equals_opencv(index: int, engine: str) -> None:
    types = [TensorType.of(x.shape, x.dtype) for x in boxes_and_scores(0, 1)]
    run = program_of(traced(NMS[index], types), engine)
    for seed, share in ((0, 1.0), (1, 0.0), (2, 0.7), (3, 1.0), (4, 0.55)):
        arrays = boxes_and_scores(seed, share)
        (got,) = run(arrays)
        want = NMS[index](*arrays)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("index", (0, 4, 5, 6))
def test_nms_of_boxes_with_negative_areas_equals_opencv(index: int, engine: str) -> None:
    boxes, scores = boxes_and_scores(0, 1)
    run = program_of(traced(NMS[index], [TensorType.of(x.shape, x.dtype) for x in (boxes, scores)]), engine)
    boxes[3:12:2, 2] *= -1
    boxes[20:23, 3] *= -0.1
    scores[3] = 0.9
    (got,) = run([boxes, scores])
    np.testing.assert_array_equal(got, NMS[index](boxes, scores))


REFUSED: list[tuple[Images, Array, str]] = [
    (lambda x: cv2.Canny(x, 10, 20), GRAY, r"cv2\.Canny cannot be recorded; cv2\.resize"),
    (lambda x: cv2.resize(x, (5, 5), interpolation=cv2.INTER_AREA), COLORS, "interpolation 3 cannot be recorded"),
    (lambda x: cv2.resize(x, None, fx=1.5, fy=0.5), COLORS, "fx other than fy"),
    (lambda x: cv2.resize(x, (5, 5), dst=np.zeros((5, 5), np.uint8)), GRAY, "dst= cannot be recorded"),
    (lambda x: cv2.resize(x.astype(np.float64), (5, 5)), GRAY, "float64 cannot be recorded"),
    (lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2HSV), COLORS, "code 40 of 3 channels"),
    (lambda x: cv2.warpAffine(x, MATRIX, (5, 5), flags=cv2.INTER_CUBIC), COLORS, "warpAffine"),
    (lambda x: cv2.warpAffine(x, MATRIX, (5, 5)), NUMBERS, "warpAffine"),
    (lambda x: cv2.dnn.NMSBoxes(x[:, :4, 0], x[:, 5, 0], 0.1, 0.2, 0.9), NUMBERS, "eta other than 1"),
    (
        lambda x: cv2.dnn.NMSBoxesBatched(x[:, :4, 0], x[:, 5, 0], x[:, 6, 0].astype(int), 0.1, 0.2),
        NUMBERS,
        r"at most 1000 classes.*np\.clip\(class_ids, 0, 79\)",
    ),
]


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_other_function_is_refused_by_name(index: int) -> None:
    function, x, message = REFUSED[index]
    with pytest.raises(AnyLayerError, match=message):
        traced(function, [TensorType.of(x.shape, x.dtype)])


def test_drawing_into_a_constant_is_kept() -> None:
    def inside(x: Array) -> Array:
        mask = np.zeros((17, 11), np.uint8)
        cv2.rectangle(mask, (2, 3), (7, 9), 1, -1)
        return x * mask

    graph = traced(inside, [TensorType.of(GRAY.shape, GRAY.dtype)])
    np.testing.assert_array_equal(run_graph(graph, [GRAY], "onnxruntime")[0], inside(GRAY))


class Config(SimpleNamespace):
    """Settings, which `Scaled` reads."""


class Scaled(caffe.Layer):
    """A layer with an array in an object of its own, which also writes a gradient."""

    def setup(self, bottom: Any, top: Any) -> None:
        self.config = Config(weights=np.random.RandomState(0).rand(5).astype(np.float32), least=0.5)
        top[0].reshape(1, 1)

    def reshape(self, bottom: Any, top: Any) -> None:
        pass

    def forward(self, bottom: Any, top: Any) -> None:
        x = bottom[0].data
        kept = x[x > self.config.least] * self.config.weights[np.argmax(x)]
        rows = np.zeros((len(kept), 2), np.float32)
        rows[:, 1] = kept
        top[0].reshape(*rows.shape)
        top[0].data[...] = rows
        bottom[0].diff[...] = x - 1


@pytest.mark.parametrize("engine", GENERAL)
def test_layer_with_objects_gradients_and_selections_is_traced(engine: str) -> None:
    made: list[Any] = []

    def fresh() -> Any:
        made.append(definition_of(Scaled, 1).cls({}, []))
        return made[-1].forward

    graph = trace_with_selections(
        lambda types: trace_checked(fresh(), types, rebuild=fresh, subject=lambda: made[-1].layer),
        [TensorType.of((5,), np.float32)],
    )
    run = program_of(graph, engine)
    for seed in range(4):
        x = np.random.default_rng(seed).random(5).astype(np.float32) * seed
        (got,), want = run([x]), several(call_user(fresh(), [x]))[0][0]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6)
