"""Error messages: places, suggestions, and remedies for Python and the command line."""

from __future__ import annotations

import ast
import doctest
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import anylayer.errors
import anylayer.network
from anylayer.errors import (
    AnyLayerError,
    InputError,
    LayerError,
    at,
    command_line,
    given,
    nearest,
    need,
    need_one_of,
    need_shape,
    plural,
    some,
    wording,
)


def test_places_come_before_the_rule() -> None:
    with (
        pytest.raises(LayerError, match=r"^f.prototxt: layer 'a' [(]B[)]: 3 is odd$"),
        at("f.prototxt"),
        at("layer 'a' (B)"),
    ):
        need(False, "3 is odd")


def test_given_returns_all_values_but_none() -> None:
    assert given(0, "the size is missing") == 0
    with pytest.raises(InputError, match=r"^the size is missing$"):
        given(None, "the size is missing", InputError)


def test_need_shape_compares_sizes_and_accepts_names() -> None:
    x = np.zeros((2, 3, 4))
    for shape in ((2, 3, 4), (2, "C", 4), (2, "..."), (2, 3, 4, "...")):
        need_shape(x, shape, "x")
    rule = "x must be of shape (2, C, 5), as y, got (2, 3, 4)"
    with pytest.raises(LayerError, match=re.escape(rule)):
        need_shape(x, (2, "C", 5), "x", ", as y")
    for shape in ((2, 3), (2, 3, 4, 1), (2, 3, 4, "W", "..."), (3, "...")):
        with pytest.raises(LayerError, match="x must be of shape"):
            need_shape(x, shape, "x")
    with pytest.raises(LayerError, match=re.escape("must be of shape (N,), got")):
        need_shape(x, ("N",), "x")


def test_place_is_added_once() -> None:
    error = AnyLayerError("m", "f")
    with pytest.raises(AnyLayerError, match=r"^f: m$"), at("f"):
        raise error


def test_nearest_suggests_similar_names() -> None:
    assert nearest("poling", ["Pooling", "ReLU"]) == "; did you mean 'Pooling'?"
    assert nearest("xyz", ["Pooling"]) == ""
    assert nearest("onnx", ["numpy", "onnxruntime"]) == "; did you mean 'onnxruntime'?"
    assert nearest("MyResize", ["Size", "Slice"]) == ""
    assert nearest("Mine", ["Interp", "Input"]) == ""


def test_need_one_of_suggests_and_lists_known_names() -> None:
    need_one_of("bvlc", ["bvlc", "ssd"], "there is no dialect 'bvlc'")
    with pytest.raises(InputError) as caught:
        need_one_of("bvcl", ["bvlc", "ssd"], "there is no dialect 'bvcl'", "dialects")
    assert str(caught.value) == "there is no dialect 'bvcl'; did you mean 'bvlc'?; dialects: bvlc, ssd"
    with pytest.raises(InputError, match=r"^no 'x'$"):
        need_one_of("x", ["bvlc"], "no 'x'")
    with pytest.raises(InputError, match=r"^no 'x'; inputs: none$"):
        need_one_of("x", [], "no 'x'", "inputs")


def test_plural_counts_nouns() -> None:
    assert [plural(n, "layer") for n in (0, 1, 2)] == ["0 layers", "1 layer", "2 layers"]
    assert [plural(n, "axis") for n in (1, 2)] == ["1 axis", "2 axes"]


def test_some_names_the_first_of_a_list() -> None:
    assert [some(["a", "b", "c"][:n], 2) for n in range(4)] == ["", "a", "a, b", "a, b and 1 more"]


def test_remedies_fit_python_or_the_command_line() -> None:
    def found() -> str:
        return wording("keep=['A']", "--keep A")

    with command_line():
        assert found() == "--keep A"
    assert found() == "keep=['A']"


ROOT = Path(anylayer.errors.__file__).parent


@cache
def texts(file: Path) -> list[tuple[int, str]]:
    """Return the string literals of a source file with their lines, except docstrings, arguments of `wording`,
    texts of several lines, and options alone."""
    tree = ast.parse(file.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("wording", "offers")
        ):
            skipped.update(ast.walk(node))
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped
        # not the text of a generated file, nor an argument of another program
        if "\n" not in node.value and not node.value.startswith("--")
    ]


@pytest.mark.one_per()
@pytest.mark.parametrize(
    ("rooms", "stranger"),
    [
        (
            "not cli",
            r"(?<![\w-])(?<!anylayer )--[a-z]|(?<!\w) ?-[lio] [a-zA-Z]",
        ),  # a caller in Python has no options
        ("cli", r"\b(shapes|dialect|layers|proto|keep|verify)=[\[{('.]"),  # a command has no keyword arguments
        ("all", r"pip install [\"'\[(]*anylayer"),  # no index has the package
    ],
)
def test_messages_name_only_what_their_reader_has(rooms: str, stranger: str) -> None:
    files = [
        f
        for f in ROOT.rglob("*.py")
        if rooms == "all" or (f.parts[len(ROOT.parts)] == "cli" or f.name == "__main__.py") == (rooms == "cli")
    ]
    found = [
        f"{f.name}:{line}: {text}"
        for f in files
        for line, text in texts(f)
        if re.search(stranger, re.sub(r"anylayer [a-z]+ .*", "", text))  # whole commands are for everybody
    ]
    assert len(files) > 10
    assert found == []


@pytest.mark.parametrize("module", [anylayer.errors, anylayer.network])
def test_examples_in_docstrings_are_correct(module: object) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
