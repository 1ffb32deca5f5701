"""anylayer report writes one page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from .conftest import Run


def test_report_writes_a_page(small: Path, anylayer_command: Run) -> None:
    words = "report net.prototxt -l host.py -i picture.png -e onnxruntime --seconds 0.05 -o page.html --json"
    done = anylayer_command(*words.split())
    data = json.loads(done.stdout)
    assert data["totals"]["host"] == 1 and data["measured"]["verified"]
    page = (small / "page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and "host.py:25" in page
    assert done.stderr.splitlines() == [
        "tracing the nodes",
        "measuring the nodes on onnxruntime",
        "comparing onnxruntime with NumPy, node by node",
        "drawing the pictures",
        "wrote page.html",
    ]


def test_quiet_report_prints_nothing(small: Path, anylayer_command: Run) -> None:
    words = "report net.prototxt -l layers.py -i x.npy -e onnxruntime --seconds 0.05 -o page.html --quiet"
    done = anylayer_command(*words.split())
    assert (done.stdout, done.stderr) == ("", "")


def test_report_shows_the_image_of_an_input(small: Path, anylayer_command: Run) -> None:
    words = "report net.prototxt -l layers.py -i picture.png -e onnxruntime --seconds 0.05 -o page.html --json"
    (shown,) = [
        p
        for p in json.loads(anylayer_command(*words.split()).stdout)["measured"]["pictures"]
        if p["role"] == "input"
    ]
    assert shown["what"] == "the image, 6x4" and (shown["width"], shown["height"]) == (6, 4)


def test_report_of_arrays_says_their_range(small: Path, anylayer_command: Run) -> None:
    words = (
        "report net.prototxt -l layers.py -i x.npy -e onnxruntime --seconds 0.05 --no-verify -o page.html --json"
    )
    measured = json.loads(anylayer_command(*words.split()).stdout)["measured"]
    x = np.load("x.npy")
    assert measured["pictures"][0]["values"] == f"{x.min():g}..{x.max():g}, mean {x.mean():g}"
    assert not measured["verified"]


def test_report_of_unknown_layers_says_what_is_missing(small: Path, anylayer_command: Run) -> None:
    done = anylayer_command("report", "net.prototxt", "-o", "page.html")
    assert "note: nothing was run: " in done.stderr and "Times" in done.stderr
    assert (small / "page.html").exists()


def test_report_shows_what_a_conversion_changed(small: Path, anylayer_command: Run) -> None:
    words = "report net.prototxt -l layers.py -e onnxruntime --seconds 0.05 --write net.onnx -o page.html --json"
    change = json.loads(anylayer_command(*words.split()).stdout)["measured"]["change"]
    assert change["format"] == "onnx" and change["before"]["Times"] == 1 and "Times" not in change["after"]
    assert (small / "net.onnx").exists()
