"""What a terminal would interpret in the names of a file does not reach it: escape sequences and reversed text."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, clean_lines, warn

NAME = r"\033]52;c;UFdORUQ=\007\033[2J\302\233\342\200\256\b\r\177"
"""A name, as a file spells it, that writes the clipboard, clears the screen and reverses the text that follows."""
INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }\n'
NETS = {
    "relu": f'layer {{ name: "{NAME}" type: "ReLU" bottom: "data" top: "{NAME}" }}\n',
    "unknown": f'layer {{ name: "{NAME}" type: "{NAME}" bottom: "data" top: "{NAME}" p {{ s: "{NAME}" }} }}\n',
    "wrong": f'layer {{ name: "{NAME}" type: "ReLU" bottom: "{NAME}" top: "b" }}\n',
}
CLI = Path(anylayer.__file__).parent / "cli"


@pytest.mark.parametrize(
    ("net", "words", "status"),
    [
        ("relu", ["inspect", "NET"], 0),
        ("relu", ["inspect", "NET", "--json"], 0),
        ("relu", ["run", "NET", "-i", "x.npy", "-e", "numpy"], 0),
        ("relu", ["run", "NET", "-i", "x.npy", "-e", "numpy", "--json"], 0),
        ("relu", ["verify", "NET", "-e", "onnxruntime"], 0),
        ("relu", ["convert", "NET", "-o", "y.onnx"], 0),
        ("relu", ["inspect", "NET", "--shape", "dat=1,2"], 1),
        ("unknown", ["inspect", "NET"], 0),
        ("unknown", ["stub", "NET"], 0),
        ("unknown", ["stub", "NET", "-o", "s.py"], 0),
        ("unknown", ["run", "NET", "-i", "x.npy"], 1),
        ("wrong", ["inspect", "NET"], 1),
    ],
)
def test_names_are_cleaned(anylayer_command, tmp_path, monkeypatch, net, words, status):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{net}.prototxt").write_text(INPUT + NETS[net])
    np.save("x.npy", np.ones((1, 3, 4, 5), np.float32))
    shown = anylayer_command(*[f"{net}.prototxt" if word == "NET" else word for word in words], status=status)
    for text in (shown.stdout, shown.stderr):
        assert not [c for c in text if not c.isprintable() and c != "\n"]
    if "--json" in words:
        assert "\\u202e" in shown.stdout and "\u202e" in json.dumps(json.loads(shown.stdout), ensure_ascii=False)
    assert shown.stdout + shown.stderr


def test_texts_of_errors_and_warnings_are_cleaned():
    assert clean_lines("a\x1b[2J\u202eb\nc\td\ud800\N{NO-BREAK SPACE}é") == "a?[2J?b\nc?d?\N{NO-BREAK SPACE}é"
    assert str(AnyLayerError("\x07", "net.prototxt: layer '\x1b'")) == "net.prototxt: layer '?': ?"
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn("layer '\x1b]0;x\x07'", stacklevel=1)
    assert [(str(w.message), w.filename) for w in found] == [("layer '?]0;x?'", __file__)]


def test_one_function_prints():
    """Only `echo` in command.py prints, and __init__.py what needs no cleaning."""
    found = []
    for file in sorted(CLI.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print"):
                found.append(file.relative_to(CLI).as_posix())
    assert found == ["__init__.py", "__init__.py", "command.py"]
