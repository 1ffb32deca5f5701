"""A few hundred random networks and mutated files, always the same ones.

Each is read, inspected, compiled and run, or refused by an error that names the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from tools.reference import REFERENCE, needs_data

from . import fuzz, mutations
from .corpus import Sample, kinds
from .networks import SMALL, input_, layer
from .strategies import Try, definitions, tries
from .trial import End, Trials

GOLDEN = REFERENCE / "golden"
FILES = ("deploy.prototxt", "net.caffemodel")


def runs_or_is_refused(found: End) -> bool:
    """Return whether a network runs, or is refused by an error of an engine or one that begins with the file's
    name.
    """
    return found.end in ("ok", "EngineError") or (found.fine and found.text.startswith(FILES))


@pytest.mark.breadth
@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
@given(network=tries(definitions()))
def test_random_layers_run_or_are_refused(trials: Trials, network: Try) -> None:
    found = trials.run(network.text, network.weights)
    assert runs_or_is_refused(found), f"{found.end}: {found.text}\n{found.trace}"


@needs_data("golden")
@pytest.mark.one_per()
@pytest.mark.parametrize("kind", ["text", "weights", "network"])
def test_changed_files_run_or_are_refused(kind: str, trials: Trials) -> None:
    random = Random(kind)
    cases = sorted(p.parent for p in GOLDEN.glob("*/*/weights.caffemodel"))
    for _ in range(150):
        case = random.choice(cases)
        model, weights = (case / "deploy.prototxt").read_bytes(), (case / "weights.caffemodel").read_bytes()
        if kind == "text":
            model = mutations.text(model.decode(), random).encode("utf-8", "surrogatepass")
        else:
            weights = mutations.data(weights, random)
        if kind == "network":
            found = trials.run(weights, name="net.caffemodel")
        else:
            found = trials.run(model, weights)
        assert runs_or_is_refused(found), (
            f"{case}: {found.end}: {found.text}\n{model!r}\n{weights!r}\n{found.trace}"
        )


@pytest.mark.breadth
def test_end_of_process_is_reported() -> None:
    with Trials(memory=8000, seconds=2, patience=2) as brief:
        assert brief.job({"sleep": 60}).text == "no answer in 4 s"
        assert brief.job({"exit": 3}) == End("died", "exit status 3")
        assert brief.run(SMALL + layer("ReLU"), engines=()).end == "ok"
    with Trials(memory=8000, seconds=2) as brief:
        assert brief.job({"spin": 60}).text == "took more than 2 s of the processor"


@pytest.mark.one_per()
@pytest.mark.parametrize("first", [0, 80, 160])
def test_mutated_files_of_every_format(first: int) -> None:
    """Try the first files of the command: python -m tests.hostile.fuzz."""
    report = fuzz.run(0, range(first, first + 80), [kind for kind in kinds() if kind != "onnx-node"])
    assert not report.faults, report.text()
    assert sum(counts["ok"] for counts in report.counts.values()) > 13
    assert sum(counts["refused"] for counts in report.counts.values()) > 33


@pytest.mark.one_per()
@pytest.mark.parametrize("first", [0, 20, 40])
def test_order_of_attributes_and_fields_does_not_change_numbers(first: int) -> None:
    """Try the first files of the command: python -m tests.hostile.fuzz --order."""
    among = ["onnx-node", "onnx", "ir", "keras-json", "prototxt"]
    wrong = [fuzz.other_form(0, i, among) for i in range(first, first + 20)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.one_per()
@pytest.mark.parametrize("first", [0, 20, 40])
def test_nested_networks_that_opencv_reads_compute_the_same(first: int) -> None:
    """Try the first files of the command: python -m tests.hostile.fuzz --nested."""
    wrong = [
        fuzz.other_form(0, i, ["onnx-node", "onnx", "tf-op"], is_nested=True) for i in range(first, first + 20)
    ]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_mutated_file_is_the_same_each_time() -> None:
    few = ["keras-json", "ir-legacy"]
    one, other = fuzz.made(3, 7, few), fuzz.made(3, 7, few)
    assert (one.files, one.action) == (other.files, other.action)
    assert one.files != one.sample.files


def test_report_counts_faults_and_keeps_the_smallest_file(tmp_path: Path) -> None:
    report = fuzz.Report()
    sample = Sample("onnx", {"m.onnx": b"12345"}, "m.onnx")
    small = Sample("onnx", {"m.onnx": b"123"}, "m.onnx")
    action = {"engines": [], "write": ["o.onnx"]}
    ends = [
        End("ok"), End("FileError", "m.onnx: it is cut off"), End("FileError", "it is cut off"),
        End("KeyError", "'x'"), End("KeyError", "'x'"), End("hung"), End("died"), End("ok", peak=5000.0),
    ]  # fmt: skip
    for i, end in enumerate(ends):
        report.add(
            fuzz.Try(i, small if i == 4 else sample, dict((small if i == 4 else sample).files), action), end
        )
    assert report.text().splitlines()[1].split() == ["onnx", "8", "1", "1", "2", "1", "1", "1", "1", "0.0"]
    report.save(tmp_path)
    kept = [p for p in tmp_path.rglob("m.onnx") if p.parent.name.startswith("foreign")]
    assert [p.read_bytes() for p in kept] == [b"123"]
    assert (tmp_path / "report.txt").read_text() == report.text()


@pytest.mark.parametrize(
    ("end", "column"),
    [
        (End("ok", peak=5000.0, values=100.0), "memory"),
        (End("ok", peak=5000.0, values=500.0), "ok"),
        (End("FileError", "m.onnx: too large", peak=5000.0, values=500.0), "memory"),
    ],
)
def test_large_values_excuse_the_memory_of_a_correct_network(end: End, column: str) -> None:
    one = fuzz.Try(0, Sample("onnx", {"m.onnx": b""}, "m.onnx"), {"m.onnx": b""}, {"write": []})
    assert fuzz.verdict(one, end) == column


def test_trial_reports_the_memory_of_the_values(trials: Trials) -> None:
    assert trials.run(input_(1024, 512) + layer("ReLU"), engines=[]).values == 4.0
    assert trials.run(input_(*[10**18] * 20) + layer("ReLU"), engines=[]).fine


def test_changes_of_json_do_not_depend_on_earlier_ones() -> None:
    source = json.dumps({"a": [1, {"b": 2}], "c": "d"}).encode()
    first = [mutations.json_text(source, Random(f"json {i}")) for i in range(300)]
    assert first == [mutations.json_text(source, Random(f"json {i}")) for i in range(300)]
