"""Plain numbers that Python makes of open sizes: recorded for every size, or fixed by a named condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer.errors import AnyLayerError

SIZES = (1, 2, 29, 31, 100)
TABLE = [*range(3, 130)]
NUMBERS = {
    "index of a list": lambda n: TABLE[n // 30],
    "index of a tuple": lambda n: (5, 6, 7, 8, 9)[n // 30],
    "index from the end": lambda n: TABLE[-1 - n // 30],
    "index that is a condition": lambda n: (7, 8)[n > 40],
    "index that is a remainder": lambda n: (7, 8)[n % 2],
    "index of bytes": lambda n: b"abcdefgh"[n // 30],
    "index of a range": lambda n: range(5, 99)[n // 30],
    "index of an array": lambda n: np.arange(9)[n // 30],
    "index of a string": lambda n: ord("abcdefgh"[n // 30]),
    "slice of a list": lambda n: sum(TABLE[: n // 30]),
    "slice from a number": lambda n: sum((1, 2, 3, 4, 5)[n // 30 :]),
    "slice with a step": lambda n: sum((1, 2, 3, 4, 5)[:: n // 30 + 1]),
    "slice of a string": lambda n: len("abc"[: n % 2]),
    "slice of a range": lambda n: len(range(9)[n // 30 :]),
    "indices of a slice": lambda n: slice(0, n // 30).indices(3)[1],
    "range": lambda n: sum(range(n // 30 + 2)),
    "list of a range": lambda n: len(list(range(n // 30))),
    "repeated list": lambda n: len([1] * (n // 30 + 1)),
    "repeated string": lambda n: len("ab" * (n // 30)),
    "repeated tuple": lambda n: len((n // 30) * (1, 2)),
    "key of a dict": lambda n: {0: 3, 1: 4}.get(n // 30, 9),
    "new key of a dict": lambda n: len({0: 1, n // 30: 2}),
    "element of a set": lambda n: len({0, 1} - {n // 30}),
    "in a set": lambda n: 2 if n in {1, 2, 3} else 3,
    "in a tuple": lambda n: 2 if n in (1, 2, 3) else 3,
    "in a range": lambda n: 2 if n in range(1, 30) else 3,
    "hash": lambda n: hash(n // 30),
    "hash of a tuple": lambda n: hash((n // 30, 1)) % 7,
    "condition": lambda n: 2 if n > 40 else 3,
    "condition as a number": lambda n: (n > 40) + 1,
    "truth": lambda n: 2 if n // 30 else 3,
    "bool": lambda n: bool(n // 30) + 1,
    "not": lambda n: (not n // 30) + 1,
    "or": lambda n: n // 30 or 5,
    "and": lambda n: n // 30 and 5,
    "any": lambda n: any([n // 30]) + 1,
    "bits": lambda n: n & 64,
    "one bit": lambda n: n & 1,
    "bits of a bitwise or": lambda n: n // 30 | 8,
    "number of bits": lambda n: (n // 30).bit_length(),
    "bytes of a number": lambda n: (n // 30).to_bytes(2, "big")[1],
    "ratio": lambda n: (n // 30).as_integer_ratio()[0],
    "shift by a size": lambda n: 1 << n // 30,
    "bytes": lambda n: len(bytes(n // 30)),
    "chr": lambda n: ord(chr(n // 30 + 65)),
    "hex": lambda n: len(hex(n)),
    "text": lambda n: len(str(n)),
    "formatted text": lambda n: len(f"{n:d}"),
    "text with a format": lambda n: len(format(n, "d")),
    "rounded to tens": lambda n: round(n, -1),
    "rounded real": lambda n: round(n / 3, 1),
    "remainder of a real": lambda n: (n / 2) % 1,
    "root": lambda n: np.sqrt(n),
    "greatest divisor": lambda n: __import__("math").gcd(n, 6),
    "integer root": lambda n: __import__("math").isqrt(n),
    "logarithm": lambda n: __import__("math").log2(n + 1),
    "logarithm of NumPy": lambda n: np.log(n + 1),
    "sign": lambda n: np.sign(n // 30),
    "minimum": lambda n: min(n, 3),
    "minimum as an index": lambda n: TABLE[min(n, 3)],
    "minimum of a list": lambda n: min([n // 30, 2]),
    "maximum with a key": lambda n: max(n // 30, 1, key=lambda v: -v),
    "sorted": lambda n: sorted([n // 30, 1])[0],
    "sum": lambda n: sum([n, 1, 2]),
    "remainder": lambda n: n % 7,
    "quotient and remainder": lambda n: divmod(n, 7)[1],
    "power": lambda n: n**2,
    "power modulo": lambda n: pow(n, 2, 5),
    "absolute value": lambda n: abs(n - 30),
    "triangle": lambda n: np.tri(9, 4, n // 30).sum(),
    "rolled array": lambda n: np.roll(np.arange(9), n // 30)[2],
    "constant array times a size": lambda n: (np.arange(3) * (n // 30))[2],
    "array of sizes": lambda n: np.array([n // 30, 2]).sum(),
    "seed": lambda n: np.random.RandomState(n // 30).rand(),
    "class of a number": lambda n: 3 if isinstance(n, int) else 4,
    "type of a number": lambda n: 3 if type(n) is int else 4,
}


def size_of_array(x: Any, number: Any) -> Any:
    return x * np.float32(number(len(x)))


def steps_of_array(x: Any, number: Any) -> Any:
    """Compute with each row of an array in a loop."""
    y = x.sum(0)
    for row in x[: len(x) // 30]:
        y = y + row
    return y


def axis_of_array(x: Any, number: Any) -> Any:
    return np.concatenate([x, x], axis=len(x) // 60).sum()


def number_of_decimals(x: Any, number: Any) -> Any:
    return np.round(x, len(x) // 30)


def element_at_a_quotient(x: Any, number: Any) -> Any:
    return x[:, len(x) // 30]


CASES = [
    *((size_of_array, name) for name in NUMBERS),
    *((f, "sum") for f in (steps_of_array, axis_of_array, number_of_decimals, element_at_a_quotient)),
]


@pytest.mark.parametrize(("function", "name"), CASES, ids=[f"{f.__name__}-{name}" for f, name in CASES])
def test_a_number_made_of_an_open_size_is_right_or_refused(function: Any, name: str, tmp_path: Path) -> None:
    number = NUMBERS[name]
    x = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    file = tmp_path / "f.onnx"
    try:
        anylayer.export(lambda x: function(x, number), x[:2], path=file, shapes={"x": ("N", 4)})
    except AnyLayerError as error:
        assert "test_open_sizes.py:" in str(error) and not file.exists()
        return
    session = onnxruntime.InferenceSession(str(file))
    net = anylayer.read(file)
    for n in SIZES:
        try:
            net.compile("onnxruntime", shapes={"x": (n, 4)})
        except AnyLayerError as error:
            assert "the file allows only sizes with" in str(error)
            continue
        got = session.run(None, {"x": x[:n]})[0]
        np.testing.assert_allclose(got, function(x[:n], number), rtol=1e-5, atol=1e-5)
