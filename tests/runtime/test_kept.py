"""The choices of engine auto that are kept: when they are used again, and when not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.compile.plan import Plan
from anylayer.compile.segments import with_parts
from anylayer.runtime import auto, kept

NET = """
input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 } }
"""
X = np.ones((1, 3, 8, 8), np.float32)
TIMES = {"onnxruntime": 2.0, "openvino": 1.0}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of choices of a user without one, on a machine where nothing else runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.ALWAYS_MEASURE)
    monkeypatch.setattr(auto, "others_busy", lambda: lambda: 0.0)
    monkeypatch.setattr(auto, "_measure", lambda runners, plan: {name: TIMES[name] for name in runners})
    (tmp_path / "net.prototxt").write_text(NET)
    return tmp_path / "cache" / "anylayer" / "choices"


def net(folder: Path, seed: int = 0) -> anylayer.Net:
    return anylayer.read(folder.parents[2] / "net.prototxt").fill(seed)


def refuse_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "_measured_fastest", lambda *_: pytest.fail("measured again"))


def test_second_process_measures_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = net(folder).compile()
    assert (first.engine, first.timings) == ("openvino", TIMES)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    refuse_measuring(monkeypatch)
    second = net(folder).compile()
    assert (second.engine, second.timings) == ("openvino", TIMES)
    assert np.array_equal(second(X)["conv"], first(X)["conv"])


def test_a_plan_on_two_engines_is_kept_with_its_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = 'layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 2 } }'
    (folder.parents[2] / "net.prototxt").write_text(NET + pool)
    parts = [auto.EnginePart("onnxruntime", (0,)), auto.EnginePart("openvino", (1,))]

    def in_two(finder: auto.PairFinder, plan: Plan, *_: object) -> tuple[auto.Split, Sequence[auto.EnginePart]]:
        return auto.Split(finder.make_runner(with_parts(plan, parts), "openvino"), parts, 0.5), parts

    monkeypatch.setattr(auto, "fastest_split", in_two)
    first = net(folder).compile()
    assert first.parts == [("onnxruntime", ["conv"]), ("openvino", ["pool"])]
    refuse_measuring(monkeypatch)
    second = net(folder).compile()
    assert second.parts == first.parts and second.timings == first.timings == {
        **TIMES,
        "onnxruntime+openvino": 0.5,
    }
    assert np.array_equal(second(X)["pool"], first(X)["pool"])


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: net(folder, seed=1).compile(),
        lambda folder: net(folder).compile(threads=1),
        lambda folder: net(folder).compile(exact=True),
        lambda folder: net(folder).compile(shapes={"data": (2, 3, 8, 8)}),
    ],
    ids=["weights", "threads", "exact", "shapes"],
)
def test_other_weights_or_options_are_measured(folder: Path, change: object) -> None:
    net(folder).compile()
    assert callable(change)
    change(folder)
    assert len(list(folder.iterdir())) == 2


def test_other_versions_of_an_engine_are_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net(folder).compile()
    monkeypatch.setattr(kept, "_packages", lambda: iter([("onnxruntime", "file", 1)]))
    net(folder).compile()
    assert len(list(folder.iterdir())) == 2


def test_what_other_programs_disturbed_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "others_busy", lambda: lambda: 1.0)
    assert net(folder).compile().timings == TIMES
    assert list(folder.iterdir()) == []


def test_nothing_is_kept_or_read_if_the_user_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.ALWAYS_MEASURE, "1")
    net(folder).compile()
    assert not folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"parts": 3}',
        "[" * 5000,
        '{"network":"","shapes":"","engine":"x","parts":[{}],"later":[]}',
    ],
    ids=["empty", "cut", "list", "nothing", "number", "deep", "part"],
)
def test_a_damaged_file_is_measured_again(folder: Path, text: str) -> None:
    net(folder).compile()
    (path,) = folder.iterdir()
    whole = path.read_text()
    path.write_text(text)
    assert kept.kept_choices() == []
    assert net(folder).compile().timings == TIMES and path.read_text() == whole


def test_an_engine_that_is_gone_is_not_used(folder: Path) -> None:
    net(folder).compile()
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace('"engine": "openvino"', '"engine": "gone"'))
    assert net(folder).compile().engine == "openvino"


def test_a_file_with_parts_that_the_plan_lacks_is_measured_again(folder: Path) -> None:
    net(folder).compile()
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace('"parts": []', '"parts": [{"engine": "openvino", "nodes": [0, 7]}]'))
    assert net(folder).compile()(X)["conv"].shape == (1, 4, 6, 6)
    assert '"parts": []' in path.read_text()
