"""One thread at a time is in a user's class, across shapes and models, and no call waits forever."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from tests.engine_names import ALL, GENERAL
from tests.threads import together

pytestmark = pytest.mark.filterwarnings("ignore")  # of nodes that run in Python, and of measured engines

ENGINES = ALL
SECONDS = 60


def network(tmp_path: Path, *classes: type) -> anylayer.api.Net:
    """Read a chain of one layer per class, of types A, B, ..."""
    text = 'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }\n'
    below = "d"
    layers = []
    for type_, cls in zip("ABC", classes):
        top = type_.lower()
        text += f'layer {{ name: "{top}" type: "{type_}" bottom: "{below}" top: "{top}" }}\n'
        layers.append((type_, cls))
        below = top
    (tmp_path / "net.prototxt").write_text(text)
    return anylayer.read(tmp_path / "net.prototxt", layers=layers)


def compiled(net: Any, engine: str, **options: Any) -> anylayer.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return net.compile(engine, threads=1, **options)


class Watched:
    """A host call that counts how often a thread enters it while another is in it."""

    busy = 0
    overlaps = 0

    def __init__(self, params: Any, blobs: Any) -> None:
        self._use()

    def _use(self) -> None:
        cls = Watched
        cls.overlaps += cls.busy > 0
        cls.busy += 1
        time.sleep(0.001)
        cls.busy -= 1

    def forward(self, inputs: Any) -> Any:
        if float(str(inputs[0].max())) > 1e30:
            return inputs
        self._use()
        return [inputs[0] * np.float32(2)]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_thread_at_a_time_across_shapes_and_models(tmp_path: Path, engine: str) -> None:
    Watched.overlaps = 0
    net = network(tmp_path, Watched, Watched)
    models = [compiled(net, engine), compiled(net, "numpy")]

    def job(k: int) -> Callable[[], None]:
        def run() -> None:
            for i in range(6):
                x = np.full((1, 3, 4, 4 + (k + i) % 3), k, np.float32)
                assert np.array_equal(models[k % 2]({"d": x})["b"], x * 4)

        return run

    assert together(*(job(k) for k in range(4))) == []
    assert Watched.overlaps == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_forward_may_call_its_own_model(tmp_path: Path, engine: str) -> None:
    models: list[anylayer.Model] = []

    class Halves:
        """Halve the width by a call of the model, down to 4."""

        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def getMemoryShapes(self, inputs: Any) -> Any:
            return [[1, 3, 4, 4]]

        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            if float(str(x.max())) > 1e30 or x.shape[3] == 4:
                return [x + np.float32(1)]
            return [models[0]({"d": x[..., : x.shape[3] // 2]})["a"] + np.float32(1)]

    models.append(compiled(network(tmp_path, Halves), engine))

    def job() -> None:
        for width, calls in ((4, 1), (16, 3), (8, 2), (16, 3)):
            got = models[0]({"d": np.ones((1, 3, 4, width), np.float32)})["a"]
            assert np.array_equal(got, np.full((1, 3, 4, 4), 1 + calls, np.float32))

    assert together(job, job, job) == []


@pytest.mark.parametrize("engine", GENERAL)
def test_forward_that_needs_its_own_compilation_is_refused(tmp_path: Path, engine: str) -> None:
    models: list[anylayer.Model] = []

    class Calls:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            if models and x.shape[3] == 8:
                return [models[0]({"d": np.zeros((1, 3, 4, 8), np.float32)})["a"]]
            return [x + np.float32(float(str(x.max())))]

    models.append(compiled(network(tmp_path, Calls), engine))
    rule = r"layer 'a' \(A\): its forward calls the model that it is part of, which is being compiled"
    (error,) = together(lambda: models[0]({"d": np.ones((1, 3, 4, 8), np.float32)}))
    with pytest.raises(LayerError, match=rule):
        raise error
    got = models[0]({"d": np.ones((1, 3, 4, 4), np.float32)})["a"]
    assert np.array_equal(got, np.full((1, 3, 4, 4), 2, np.float32))


def test_compilation_and_forward_do_not_deadlock(tmp_path: Path) -> None:
    models: list[anylayer.Model] = []
    inside, compiling = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, params: Any, blobs: Any) -> None:
            if inside.is_set():
                compiling.set()

        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            if x.shape[3] == 4 and models and float(str(x.max())) == 7:
                inside.set()
                time.sleep(0.2)  # the other thread holds the model by now, and waits for this class
                return [models[0]({"d": np.ones((1, 3, 4, 6), np.float32)})["a"][..., :4]]
            return [x + np.float32(min(float(str(x.max())), 1))]

    models.append(compiled(network(tmp_path, Slow), "onnxruntime"))

    def other() -> None:
        inside.wait(SECONDS)
        models[0]({"d": np.ones((1, 3, 4, 5), np.float32)})

    assert together(lambda: models[0]({"d": np.full((1, 3, 4, 4), 7, np.float32)}), other) == []


def test_deadlock_of_two_classes_is_refused(tmp_path: Path) -> None:
    models: dict[str, anylayer.Model] = {}
    ready = threading.Barrier(2)

    def cls(name: str, other: str) -> type:
        class Crossing:
            def __init__(self, params: Any, blobs: Any) -> None:
                pass

            def forward(self, inputs: Any) -> Any:
                x = inputs[0]
                if float(str(x.max())) == 5:
                    ready.wait(SECONDS)
                    return [models[other]({"d": np.ones((1, 3, 4, 4), np.float32)})["a"]]
                return [x]

        return type(name, (Crossing,), {})

    for name, other in (("P", "Q"), ("Q", "P")):
        (tmp_path / name).mkdir()
        models[name] = compiled(network(tmp_path / name, cls(name, other)), "numpy")
    five = np.full((1, 3, 4, 4), 5, np.float32)
    raised = together(lambda: models["P"]({"d": five}), lambda: models["Q"]({"d": five}))
    assert len(raised) == 1
    with pytest.raises(LayerError, match=r"two threads wait for each other: this one needs class [PQ], and"):
        raise raised[0]


def test_numpy_engine_keeps_as_many_shapes_as_others(tmp_path: Path) -> None:
    made: list[Any] = []

    class Made:
        def __init__(self, params: Any, blobs: Any) -> None:
            made.append(self)

        def forward(self, inputs: Any) -> Any:
            return inputs

    model = compiled(network(tmp_path, Made), "numpy")
    for width in (*range(1, 13), 12, 5):
        assert model({"d": np.ones((1, 3, 4, width), np.float32)})["a"].shape[3] == width
    assert len(made) == 12  # 12 and 5 are kept
    model({"d": np.ones((1, 3, 4, 1), np.float32)})
    assert len(made) == 13
    assert [len(kept) for kept in model._numpy._bounds.values()] == [8]
