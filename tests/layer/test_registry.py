"""Registering and finding layer classes; a user's layers file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import anylayer
from anylayer.errors import FileError, InputError
from anylayer.layer import load_layers
from anylayer.layer.registry import Definition, Registry, _users, registered

FILE = """
import anylayer

@anylayer.layer("Mine")
class Mine:
    def __init__(self, params, blobs): pass
    def forward(self, inputs): return inputs

class Bare:
    def __init__(self, params, blobs): pass
    def forward(self, inputs): return inputs
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_layers_file_registers_for_the_reader_that_names_it(file: Path) -> None:
    found = load_layers([file])
    assert list(found) == ["Mine"]
    assert (found["Mine"].origin, found["Mine"].typed, found["Mine"].built_in) == (str(file), False, False)
    assert "Mine" not in registered()


def test_a_class_that_does_not_register_itself_is_named(file: Path) -> None:
    found = load_layers([f"Crop={file}:Bare"])
    assert found["Crop"].cls.__name__ == "Bare"
    with pytest.raises(InputError, match=r"mine.py has no class 'Missing'"):
        load_layers([f"Crop={file}:Missing"])


def test_a_class_may_be_given_itself() -> None:
    class Given:
        pass

    assert load_layers([("Some", Given)])["Some"].cls is Given


def test_registering_in_a_program_counts_for_the_process() -> None:
    try:

        @anylayer.layer("FromAProgram")
        class First:
            pass

        @anylayer.layer("FromAProgram")
        class Second:
            pass

        assert registered()["FromAProgram"].cls is Second
    finally:
        _users.pop("FromAProgram", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"bad.py registers no layer. Put @anylayer.layer\(\"Type\"\) on a class"),
        ("x = \n", r"bad.py:1: SyntaxError"),
        ("\n1/0\n", r"bad.py:2: ZeroDivisionError: division by zero"),
        (
            "import sys\nsys.exit(2)\n",
            r"bad.py:2: ends the program when it is executed. Put the classes into a file",
        ),
        (
            "import anylayer\n@anylayer.layer('A')\nclass A: pass\n@anylayer.layer('A')\nclass B: pass\n",
            "layer type 'A' is registered twice",
        ),
    ],
)
def test_bad_layers_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises((FileError, InputError), match=message):
        load_layers([tmp_path / "bad.py"])


def test_the_line_of_a_mistake_in_a_file_given_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("\n1/0\n")
    with pytest.raises(FileError, match=r"^bad.py:2: ZeroDivisionError"):
        load_layers(["bad.py"])


def test_a_layers_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    for folder, factor in (("one", 2), ("two", 3)):
        (tmp_path / folder / "shared").mkdir(parents=True)
        (tmp_path / folder / "shared" / "__init__.py").write_text("from shared.deep import FACTOR")
        (tmp_path / folder / "shared" / "deep.py").write_text(f"FACTOR = {factor}")
        (tmp_path / folder / "more.py").write_text("import anylayer\n@anylayer.layer('B')\nclass B: pass\n")
        (tmp_path / folder / "numpy.py").write_text("raise RuntimeError('not that numpy')")
        (tmp_path / folder / "mine.py").write_text(
            "import anylayer, more, numpy, shared\n@anylayer.layer('A')\nclass A:\n    factor = shared.FACTOR\n"
        )
    path = list(sys.path)
    for folder, factor in (("one", 2), ("two", 3), ("one", 2)):
        found = load_layers([tmp_path / folder / "mine.py"])
        assert sorted(found) == ["A", "B"]
        assert found["A"].cls.factor == factor  # type: ignore[attr-defined]
    assert sys.path == path
    assert not {"shared", "shared.deep", "more"} & set(sys.modules)


def test_a_missing_layers_file() -> None:
    with pytest.raises(FileError, match=re.escape("nowhere.py: there is no such layers file")):
        load_layers(["nowhere.py"])


def test_the_same_built_in_twice_is_a_mistake() -> None:
    registry = Registry("caffe")
    registry.add(Definition("X", object, "built-in", ("a",)))
    registry.add(Definition("X", object, "built-in", ("b",)))
    with pytest.raises(ValueError, match="X is defined twice"):
        registry.add(Definition("X", object, "built-in", ("b", "c")))


def test_a_candidates_meaning_is_a_whole_sentence() -> None:
    """A refusal shows it where a type has several meanings."""
    definitions = Registry.of("caffe").definitions()
    assert [d.cls.__name__ for d in definitions if not d.summary.endswith(".")] == []


def test_built_in_layers_are_found_by_their_files_name() -> None:
    registry = Registry.of("caffe")
    assert [d.cls.__name__ for d in registry.find("ShuffleChannel")] == ["ShuffleChannel"]
    assert registry.find("NoSuchLayer") == []
    assert "ShuffleChannel" in registry.types()
    assert "shuffle_channel_param" in registry.messages()
