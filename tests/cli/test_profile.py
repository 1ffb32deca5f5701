"""The command profile, and the option --assume-free."""

from __future__ import annotations

import json

import pytest

from anylayer.cli.commands import profile as profile_command

WITH = ("net.prototxt", "-l", "layers.py", "--seconds", 0.01)


def test_profile_as_json(anylayer_command, small):
    data = json.loads(anylayer_command("profile", *WITH, "-e", "onnxruntime", "--threads", 1, "--json").stdout)
    assert (data["engine"], data["threads"], data["counted"], data["valid"]) == ("onnxruntime", 1, True, True)
    named = {layer for node in data["nodes"] for layer in node["layers"]}
    assert named | set(data["unnamed"]) == {"half", "means", "flat"}  # shuffle is an identity
    assert sum(node["share"] for node in data["nodes"]) == pytest.approx(1)
    assert data["peaks"]["macs"] > 0 and data["peaks"]["bytes"] > 0


def test_profile_fits_the_terminal(anylayer_command, small, monkeypatch):
    monkeypatch.setattr(profile_command, "terminal_width", lambda: 80)
    shown = anylayer_command("profile", *WITH, "-e", "onnxruntime").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.splitlines()[0].split() == [
        "node",
        "type",
        "ms",
        "share",
        "MACs",
        "bytes",
        "arith",
        "band",
        "limit",
    ]
    assert "GMAC/s" in shown and "by type: " in shown


def test_profile_names_the_host_call(anylayer_command, small):
    shown = anylayer_command("profile", "net.prototxt", "-l", "host.py", "-e", "onnxruntime", "--seconds", 0.01)
    assert "around 'means' (Means, in Python)" in shown.stdout
    assert shown.stderr == ""


def test_profile_writes_a_trace(anylayer_command, small):
    shown = anylayer_command("profile", *WITH, "-e", "onnxruntime", "--trace", "trace.json")
    assert shown.stderr == "wrote trace.json\n"
    events = json.loads((small / "trace.json").read_text())["traceEvents"]
    timed = [e for e in events if e["ph"] == "X"]
    ends = [e["ts"] + e["dur"] for e in timed]
    assert [e["ts"] for e in timed[1:]] == pytest.approx(ends[:-1], abs=1e-6)


def test_profile_refuses_to_write_over_a_folder(anylayer_command, small):
    shown = anylayer_command("profile", *WITH, "-e", "onnxruntime", "--trace", ".", status=1)
    assert "is a folder; the output must be a file" in shown.stderr


@pytest.mark.parametrize("command", ["profile", "bench"])
def test_unknown_layers_are_assumed_free(anylayer_command, small, command):
    words = [word for type_ in ("Times=same", "Means=1,3", "Flat=1,1,4,6") for word in ("--assume-free", type_)]
    assert "unknown layer types" in anylayer_command(command, "net.prototxt", status=1).stderr
    shown = anylayer_command(command, "net.prototxt", *words, "-e", "onnxruntime", "--seconds", 0.01, "--json")
    assert "onnxruntime" in shown.stdout
    if command == "profile":
        data = json.loads(shown.stdout)
        assert data["free"] == ["Flat", "Means", "Times"]
        assert {n["layers"][0]: n["seconds"] for n in data["nodes"] if n["where"] == "free"} == {
            "half": 0.0,
            "means": 0.0,
            "flat": 0.0,
        }


@pytest.mark.parametrize("value", ["=1,2", "Means=", "Means=1,x", "Means=1,2;", "Means=-1"])
def test_assume_free_explains_its_form(anylayer_command, small, value):
    shown = anylayer_command("profile", *WITH, "--assume-free", value, status=2).stderr
    assert "one shape per output, separated by semicolons" in " ".join(shown.replace("│", " ").split())


def test_assume_free_without_shape_names_the_remedy(anylayer_command, small):
    shown = anylayer_command("profile", "net.prototxt", "--assume-free", "Times", status=1).stderr
    assert "layer 'half' (Times): is assumed free, but" in shown or "unknown layer types" in shown
    every = ("--assume-free", "Times", "--assume-free", "Means", "--assume-free", "Flat")
    shown = anylayer_command("profile", "net.prototxt", *every, status=1).stderr
    assert "Give them: --assume-free Times=1,64,28,28, or Times=same for the shape of the input" in shown


STEERED = """
input: "x" input_shape { dim: 1 dim: 6 }
layer { name: "new" type: "NotWritten" bottom: "x" top: "new" }
layer { name: "best" type: "ArgMax" bottom: "new" top: "best" argmax_param { top_k: 2 } }
"""


@pytest.mark.parametrize("command", ["profile", "bench"])
def test_impossible_estimate_is_reported(anylayer_command, small, command):
    (small / "steered.prototxt").write_text(STEERED)
    words = ("--assume-free", "NotWritten=same", "-e", "onnxruntime", "--seconds", 0.01)
    shown = anylayer_command(command, "steered.prototxt", *words)
    assert "void, because the values of a free layer decide about work: 'new' steers 'best'" in (
        shown.stdout + shown.stderr
    )
