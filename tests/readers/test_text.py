"""Protobuf's text format: all spellings, malformed texts, and limits on time and memory."""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anylayer.errors import AnyLayerError, FileError
from anylayer.network import Flag, Word
from anylayer.protobuf import text as text_format
from anylayer.protobuf.text import parse, read_text
from anylayer.protobuf.tree import Block


def read(text: str | bytes) -> Block:
    return parse(text.encode() if isinstance(text, str) else text, "net.prototxt")


def values(text: str) -> dict:
    return read(text).to_dict()


@pytest.mark.parametrize(
    "text",
    [
        "a { b: 1 }",
        "a: { b: 1 }",
        "a < b: 1 >",
        "a: < b: 1 >",
        "a{b:1}",
        "a { b: 1, }",
        "a { b: 1; };",
        "a {\n  b # why\n  : # why not\n  1 }",
        "a { b: 0x1 }",
        "a { b: 01 }",
        "a [{ b: 1 }]",
        "a: [{ b: 1 }]",
        "\ufeffa { b: 1 }",
        "# only\r\na { b: 1 }\r\n",
    ],
)
def test_spellings_of_one_message(text: str) -> None:
    assert values(text) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("- 7", -7),
        ("-# minus\n7", -7),
        ("0", 0),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x10", -16),
        ("017", 15),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("1.5", 1.5),
        ("1.5f", 1.5),
        ("1.5F", 1.5),
        ("2f", 2.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1e+3f", 1000.0),
        ("-1.25", -1.25),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("- Infinity", -math.inf),
        ('"x"', "x"),
        ("'x'", "x"),
        ("'a' \"b\"\n  'c'", "abc"),
        (r'"\a\b\f\n\r\t\v\?\\\'\""', "\a\b\f\n\r\t\v?\\'\""),
        (r'"\101\x42\X43"', "ABC"),
        (r'"\303\251 \u00e9 \U0001F600"', "é é \U0001f600"),
        ('"#no comment"', "#no comment"),
        ("'say \"hi\"'", 'say "hi"'),
    ],
)
def test_spellings_of_values(spelled: str, value: object) -> None:
    found = values(f"a: {spelled}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_read_with_and_without_a_sign() -> None:
    assert math.isnan(values("a: nan")["a"])
    assert math.isnan(values("a: -nan")["a"])


def test_words_differ_from_strings() -> None:
    found = values("pool: MAX name: 'MAX' flag: true other: False")
    assert type(found["pool"]) is Word
    assert found["pool"] == "MAX"
    assert type(found["name"]) is str
    assert type(found["flag"]) is Flag
    assert found["flag"] == 1
    assert type(found["other"]) is Flag
    assert found["other"] == 0


def test_field_that_occurs_twice_is_a_list() -> None:
    assert values("a: 1 b: 5 a: 2") == {"a": [1, 2], "b": 5}
    assert values("a { x: 1 } a { x: 2 }") == {"a": [{"x": 1}, {"x": 2}]}


def test_lists_of_values_strings_and_messages_are_read() -> None:
    assert values("a: [1, -2, 0x3]") == {"a": [1, -2, 3]}
    assert values("a: ['x' 'y', \"z\"]") == {"a": ["xy", "z"]}
    assert values("a: [{ b: 1 }, < b: 2 >]") == {"a": [{"b": 1}, {"b": 2}]}
    assert values("a: [MAX, AVE]") == {"a": ["MAX", "AVE"]}
    assert values("a: [1]") == {"a": 1}
    assert values("a: []") == {}
    assert values("a: [1, 2] a: 3") == {"a": [1, 2, 3]}


def test_extension_and_any_names() -> None:
    assert values("[my.ext]: 1") == {"[my.ext]": 1}
    assert values("[ my.ext ] { b: 2 }") == {"[my.ext]": {"b": 2}}
    assert values("a { [type.googleapis.com/my.Type] { b: 2 } }") == {
        "a": {"[type.googleapis.com/my.Type]": {"b": 2}}
    }


def test_commas_and_semicolons_separate_fields() -> None:
    assert values("a: 1, b: 2; c { d: 3 }, e: 4") == {"a": 1, "b": 2, "c": {"d": 3}, "e": 4}


def test_each_field_has_its_line() -> None:
    block = read("a: 1\n\nb {\n  c: 2\n  c: 3\n  d {\n e: 1 } }\nf: [1,\n2]\n")
    assert block.lines() == {"a": 1, "b": 3, "b.c": 4, "b.d": 6, "b.d.e": 7, "f": 8}
    assert [e.line for e in block] == [1, 3, 8, 9]


def test_comments_may_contain_any_bytes() -> None:
    assert read(b"# \xb2\xe2\xca\xd4 (GBK)\na: 1").to_dict() == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb", "net.prototxt:2: expected ':' or '{' after 'b', got the end of the file"),
        ('name "x"', "net.prototxt:1: expected ':' or '{' after 'name', got '\"'"),
        ("a:", "net.prototxt:1: expected a value after 'a:', got the end of the file"),
        ("a: }", "net.prototxt:1: expected a value after 'a:', got '}'"),
        ("a: - b", "net.prototxt:1: expected a number after '-', got 'b'"),
        ("a: -'x'", "net.prototxt:1: expected a number after '-', got '''"),
        ("a {\n b: 1\n", "net.prototxt:3: the message opened in line 1 is not closed: '}' is missing"),
        ("a < b: 1 }", "net.prototxt:1: expected the name of a field, got '}'"),
        ("a: 1 }", "net.prototxt:1: expected the name of a field, got '}'"),
        ("// a", "net.prototxt:1: expected the name of a field, got '/'. A comment starts with '#'"),
        ("5: 1", "net.prototxt:1: expected the name of a field, got '5'"),
        ("a: [1 2]", "net.prototxt:1: expected ',' or ']' in the list of 'a', got '2'"),
        ("a [1]", "net.prototxt:1: expected ':' or '{' after 'a', got '1'"),
        ("a: [1,]", "net.prototxt:1: expected a value after 'a:', got ']'"),
        ("[]: 1", "net.prototxt:1: expected an extension's name between '[' and ']'"),
        ("[a: 1", "net.prototxt:1: expected ']' after the extension's name, got ':'"),
        ("a: 1x", "net.prototxt:1: '1x' is not a number"),
        ("a: 1.2.3", "net.prototxt:1: '1.2.3' is not a number"),
        ("a: 0x", "net.prototxt:1: '0x' is not a number"),
        ("a: 09", "net.prototxt:1: '09' is not a number"),
        ("a: 1e", "net.prototxt:1: '1e' is not a number"),
        ("a: " + "9" * 500, "net.prototxt:1: a number has more than 400 characters"),
        ("\na: 'x\n'", "net.prototxt:2: a string is not closed on its line"),
        ("a: 'x", "net.prototxt:1: a string is not closed on its line"),
        (r"a: '\q'", r"net.prototxt:1: '\q' is not an escape of a string"),
        (r"a: '\ud800'", r"net.prototxt:1: '\ud800' is not a character"),
        (r"a: '\U00110000'", r"net.prototxt:1: '\U00110000' is not a character"),
        (r"a: '\xff'", "net.prototxt:1: a string has byte 0xff, which is not UTF-8"),
        ("a: 1\nb: @", "net.prototxt:2: unexpected character '@'"),
        ("a:\u00a01", "net.prototxt:1: unexpected character U+00A0"),
        (b"a: 1\n\xe9: 2", "net.prototxt:2: byte 0xe9 is not UTF-8. Save the file as UTF-8"),
        (b"a: '\xe9'", "net.prototxt:1: a string has byte 0xe9, which is not UTF-8"),
        ("a {" * 70, "net.prototxt:1: messages are nested deeper than 64"),
        ("a: [[1]]", "net.prototxt:1: expected a value after 'a:', got '['"),
    ],
)
def test_malformed_texts_are_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(FileError) as caught:
        read(text)
    assert str(caught.value) == message


def test_typed_access_refuses_values_of_other_types() -> None:
    block = read("a: 1\nb: 'x'\nb: 'y'\nc { }\nd: 1.5")
    with pytest.raises(FileError, match=r"^net\.prototxt:3: 'b' is given 2 times, once is allowed$"):
        block.text("b")
    with pytest.raises(FileError, match=r"^net\.prototxt:1: 'a' must be a quoted string, got 1$"):
        block.text("a")
    with pytest.raises(FileError, match=r"^net\.prototxt:5: 'd' must be an integer, got 1\.5$"):
        block.integer("d")
    with pytest.raises(FileError, match=r"^net\.prototxt:1: 'a' must be a message \{ \.\.\. \}, got 1$"):
        block.block("a")
    with pytest.raises(FileError, match=r"^net\.prototxt:4: 'c' must be a number, got a message \{ \.\.\. \}$"):
        block.numbers("c")


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "-" * 200_000,
        "a {" * 200_000,
        "a: [" * 200_000,
        "#" * 400_000,
        "a: '" + "\\\\" * 200_000,
        "a: '" + "x" * 400_000,
        "a: " + "1" * 400_000,
        "[a" * 200_000,
        "[" + "a." * 200_000,
        ("a: " + "'x' " * 100_000),
        "a: 1 " * 80_000,
        "a:1e" * 100_000,
    ],
)
def test_time_is_linear(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(AnyLayerError):
        read(text)
    assert time.process_time() - start < 5


def test_huge_text_is_not_read() -> None:
    with Path("net.prototxt").open("wb") as file:
        file.write(b"# \n" * 30_000)
        file.truncate(3 << 30)
    with pytest.raises(FileError, match=r"^net\.prototxt: the file has 3072 MiB; the limit is 64 MiB$"):
        read_text(Path("net.prototxt"))


PIECES = st.sampled_from([*"{}<>[]:,;-/.'\"\\ \n#aé\xb2", "layer", "1", "0x", "1e5", "'x'", "true", "inf"])


@given(st.lists(PIECES, max_size=60).map("".join))
@example("a:-")
@settings(max_examples=400, deadline=None)
def test_random_input_never_crashes(text: str) -> None:
    try:
        read(text).to_dict()
    except AnyLayerError as error:
        assert str(error).startswith("net.prototxt:")


@given(st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_random_bytes_never_crash(data: bytes) -> None:
    try:
        read(data).to_dict()
    except AnyLayerError as error:
        assert str(error).startswith("net.prototxt:")


NAMES = st.from_regex(r"[a-z_]{1,6}", fullmatch=True).filter(lambda n: n not in ("inf", "nan", "true", "false"))
SCALARS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, width=32),
    st.text(max_size=10).filter(lambda t: t.encode("utf-8", "replace").decode() == t),
)


def spelled(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + " ".join(f"{k}: {spelled(v)}" for k, v in value.items()) + " }"
    if isinstance(value, str):
        return "'" + "".join(f"\\{b:03o}" for b in value.encode()) + "'"
    return repr(value)


@given(st.recursive(SCALARS, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12))
@settings(max_examples=200, deadline=None)
def test_values_survive_a_round_trip(value: object) -> None:
    assert values(f"a: {spelled(value)}") == {"a": value}


@given(st.text("\\abfnrtv'?xuU0123456789AFz é", max_size=12))
@settings(max_examples=500)
def test_both_escape_decoders_agree(text: str) -> None:
    def outcome() -> object:
        try:
            return values(f'a: "{text}"')
        except FileError as error:
            return str(error)

    together = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "_RARE", re.compile(""))
        assert outcome() == together


def limited(code: str) -> None:
    """Run Python code with 600 MB of address space and 20 s of processor time. Fail if it fails."""
    limits = "import resource; resource.setrlimit(resource.RLIMIT_AS, (600 << 20,) * 2)\n"
    limits += "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", limits + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_many_escapes_use_little_memory() -> None:
    limited(
        "from anylayer.protobuf.text import parse\n"
        "data = b'a: \"' + b'\\\\n' * (8 << 20) + b'\"'\n"
        "assert len(parse(data, 'x').text('a')) == 8 << 20\n"
    )


def test_long_number_uses_little_memory() -> None:
    limited(
        "from anylayer.errors import FileError\nfrom anylayer.protobuf.text import parse\n"
        "try: parse(b'a: ' + b'1' * (10 << 20), 'x')\n"
        "except FileError as error: assert str(error) == 'x:1: a number has more than 400 characters', error\n"
        "else: raise AssertionError\n"
    )
