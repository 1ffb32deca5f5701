"""Registration of layer classes, and layers files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import anylayer
from anylayer.errors import FileError, InputError
from anylayer.folders import modules, source
from anylayer.layer import load_layers
from anylayer.layer.registry import Definition, Registry, registered

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


def test_layers_file_does_not_register_for_the_process(file: Path) -> None:
    found = load_layers([file])
    assert list(found) == ["Mine"]
    assert (found["Mine"].origin, found["Mine"].typed, found["Mine"].built_in) == (str(file), False, False)
    assert "Mine" not in registered()


def test_class_that_does_not_register_itself_can_be_named(file: Path) -> None:
    found = load_layers([f"Crop={file}:Bare"])
    assert found["Crop"].cls.__name__ == "Bare"
    with pytest.raises(InputError, match=r"mine.py has no class 'Missing'"):
        load_layers([f"Crop={file}:Missing"])


def test_layers_may_be_a_pair_of_type_and_class() -> None:
    class Given:
        pass

    assert load_layers([("Some", Given)])["Some"].cls is Given


def test_registration_in_a_program_is_valid_for_the_process() -> None:
    @anylayer.layer("FromAProgram")
    class First:
        pass

    @anylayer.layer("FromAProgram")
    class Second:
        pass

    assert registered()["FromAProgram"].cls is Second


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
def test_broken_layers_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises((FileError, InputError), match=message):
        load_layers([tmp_path / "bad.py"])


def test_error_in_a_file_with_a_relative_path_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("\n1/0\n")
    with pytest.raises(FileError, match=r"^bad.py:2: ZeroDivisionError"):
        load_layers(["bad.py"])


def test_layers_file_imports_modules_from_its_folder(tmp_path: Path) -> None:
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
        assert found["A"].cls.factor == factor
    assert sys.path == path
    assert not {"shared", "shared.deep", "more"} & set(sys.modules)


def test_missing_layers_file_is_refused() -> None:
    with pytest.raises(FileError, match=re.escape("nowhere.py: there is no such layers file")):
        load_layers(["nowhere.py"])


def test_built_in_type_cannot_be_defined_twice_for_a_dialect() -> None:
    registry = Registry("caffe")
    registry.add(Definition("X", object, "built-in", ("a",)))
    registry.add(Definition("X", object, "built-in", ("b",)))
    with pytest.raises(ValueError, match="X is defined twice"):
        registry.add(Definition("X", object, "built-in", ("b", "c")))


def test_summaries_of_built_in_layers_are_sentences() -> None:
    """DialectError shows the summaries of the candidates."""
    definitions = Registry.of("caffe").definitions()
    assert [d.cls.__name__ for d in definitions if not d.summary.endswith(".")] == []


def test_finding_a_type_imports_the_files_that_name_it() -> None:
    code = (
        "import sys; from anylayer.layer import Registry; Registry.of('caffe').find('ReLU')\n"
        "print([m for m in sys.modules if m.startswith('anylayer.layers.caffe.') and '._' not in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['anylayer.layers.caffe.elementwise']"


@pytest.mark.parametrize("fmt", ["caffe", "keras", "tensorflow", "openvino", "onnx"])
def test_files_that_define_a_type_name_it_all_or_none(fmt: str) -> None:
    """Otherwise, find would miss a class of a type that several files define."""
    homes: dict[str, set[str]] = {}
    for definition in Registry.of(fmt).definitions():
        homes.setdefault(definition.type, set()).add(definition.cls.__module__.rpartition(".")[2])
    texts = {name: source(f"layers/{fmt}", name) for name in modules(f"layers/{fmt}")}
    for type_, files in homes.items():
        naming = {name for name in files if f'"{type_}"' in texts.get(name, "")}
        assert naming in (files, set()), type_


def test_built_in_layers_are_found() -> None:
    registry = Registry.of("caffe")
    assert [d.cls.__name__ for d in registry.find("ShuffleChannel")] == ["ShuffleChannel"]
    assert registry.find("NoSuchLayer") == []
    assert "ShuffleChannel" in registry.types()
    assert "shuffle_channel_param" in registry.messages()
