"""Declared parameters: typed values, defaults, and what is refused."""

from __future__ import annotations

import re

import pytest

from anylayer.errors import LayerError
from anylayer.layer import Enum, Message, field
from anylayer.network import Flag, Word


class Inner(Message):
    size: int = field(1, "uint32", 3)


class Example(Message):
    count: int = field(1, "int32", 5)
    ratio: float = field(2, "float", 0.5, dialects={"other": 2.0})
    flag: bool = field(3, "bool", False)
    mode: str = field(4, Enum("MAX", "AVE"), "MAX")
    sizes: tuple[int, ...] = field(5, "uint32", repeated=True)
    inner: Inner = field(6, Inner)
    name: str = field(7, "string", "")
    needed: int = field(8, "int64")
    inert: int = field(9, "int32", 0, only=("fork",))
    hint: str = field(10, "string", "", only=("fork",), hint=True)


def read(**values: object) -> Example:
    example = Example.__new__(Example)
    example.assign({"needed": 1, **values}, message="example_param", lines={"example_param.cout": 12})
    return example


def test_absent_fields_have_defaults() -> None:
    e = read()
    assert (e.count, e.ratio, e.flag, e.mode, e.sizes, e.inner.size, e.name) == (5, 0.5, False, "MAX", (), 3, "")
    assert not e.has("count")


def test_values_are_typed_as_declared() -> None:
    e = read(count=-3, ratio=0.1, flag=Flag(True), mode=Word("AVE"), sizes=[1, 2], inner={"size": 9}, name="x")
    assert (e.count, e.flag, e.mode, e.sizes, e.inner.size, e.name) == (-3, True, "AVE", (1, 2), 9, "x")
    assert e.ratio == pytest.approx(0.1) and e.ratio != 0.1  # a float32's value, as protobuf gives it
    assert e.has("count")


def test_other_spellings_of_values_are_accepted() -> None:
    assert read(mode=1).mode == "AVE"
    assert read(flag=1).flag is True and read(flag=Word("f")).flag is False and read(flag=True).flag is True
    assert read(ratio=Word("-inf")).ratio == float("-inf")
    assert read(sizes=4).sizes == (4,)


def test_defaults_by_dialect_and_schema() -> None:
    e = Example.__new__(Example)
    e.assign({"needed": 1}, dialect="other", defaults={"count": 9})
    assert (e.ratio, e.count) == (2.0, 9) and not e.has("count")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"cout": 1}, "example_param has no field 'cout' (line 12); did you mean 'count'?"),
        ({"count": 1.5}, "parameter 'count': must be an integer, got 1.5"),
        ({"count": 2**31}, "parameter 'count': must lie in -2147483648..2147483647 (int32), got 2147483648"),
        ({"sizes": [-1]}, "parameter 'sizes': must lie in 0..4294967295 (uint32), got -1"),
        ({"ratio": "x"}, "parameter 'ratio': must be a number, got 'x'"),
        ({"flag": 2}, "parameter 'flag': must be true or false, got 2"),
        ({"mode": Word("AV")}, "parameter 'mode': must be one of MAX, AVE, got AV; did you mean 'AVE'?"),
        ({"inner": 3}, "parameter 'inner': must be a message { ... }, got 3"),
        ({"name": Word("x")}, "parameter 'name': must be a quoted string, got 'x'"),
        ({"count": [1, 2]}, "parameter 'count': is given 2 times, once is allowed"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, object], text: str) -> None:
    with pytest.raises(LayerError, match=re.escape(text)):
        read(**values)


def test_missing_required_field_is_refused() -> None:
    with pytest.raises(LayerError, match="parameter 'needed' is missing"):
        Example.__new__(Example).assign({})


def test_field_of_a_dialect_is_read_only_there() -> None:
    example = Example.__new__(Example)
    example.assign({"needed": 1, "inert": 2}, dialect="fork")
    assert example.inert == 2
    rule = r"^m has no field 'inert' \(line 4\){}; files of fork have it: dialect='fork'$"
    for dialect in (None, "other"):
        with pytest.raises(LayerError, match=rule.format(" in dialect 'other'" if dialect else "")):
            example.assign({"needed": 1, "inert": 2}, dialect=dialect, message="m", lines={"m.inert": 4})
        example.assign({"needed": 1, "hint": "x"}, dialect=dialect)
        assert example.hint == "x"
