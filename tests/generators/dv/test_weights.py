"""The order of weights, and the 16-bit floats of the runtime for PCs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from anylayer.generators import dv
from anylayer.generators.dv.plan import Convolution, FullyConnected
from anylayer.generators.dv.weights import nearest, packed, table_of
from anylayer.network import Array

HOST = Path(dv.__file__).parent / "host"


def written_one_by_one(weight: Array, bias: Array, slopes: Array | None) -> list[float]:
    """Return the weights in the order in which the driver writes them: block by block."""
    outputs, channels, ky, kx = weight.shape
    size, found = max(ky, kx) | 1, []
    group = 64 if size == 1 else 8
    for first in range(0, outputs, 8):
        some = range(first, min(first + 8, outputs))
        for head in (bias, slopes):
            if head is not None:
                found += [*(head[m] for m in some), *[0.0] * (8 - len(some))]
        for start in range(0, channels, group):
            inputs = range(start, min(start + group, channels))
            for m in some:
                parts = [[c] for c in inputs] if size == 7 else [[*inputs]]
                if size == 5:
                    parts = [[*inputs[i : i + 2]] for i in range(0, len(inputs), 2)]
                for part in parts:
                    found += block(weight[m], part, size)
    return found


def block(weight: Array, channels: list[int], size: int) -> list[float]:
    """Return the 12 x 6 values of some channels of an output."""
    _, ky, kx = weight.shape
    grid = np.zeros((12, 6))
    for c in channels:
        for y in range(ky):
            for x in range(kx):
                value, row = weight[c, y, x], y + size - ky
                if size == 7 and x == 6:
                    places = [(2, 5), (0, 3), (1, 3), (2, 3), (0, 0), (1, 0), (2, 0)]
                    grid[places[row]] = value
                elif size == 7:
                    grid[5 + row, x] = value
                elif size == 5:
                    grid[7 - c % 2 * 6 + row, x] = value
                elif size == 3:
                    grid[9 - c % 8 // 2 * 3 + row, c % 2 * 3 + x] = value
                else:
                    grid[11 - c % 8 // 2 * 3 - c % 64 // 8 // 3, c % 2 * 3 + c % 64 // 8 % 3] = value
    return [float(v) for v in grid.reshape(-1)]


@pytest.mark.parametrize(
    "shape",
    [(9, 70, 1, 1), (17, 19, 3, 3), (8, 9, 5, 5), (5, 11, 7, 7), (3, 4, 2, 5), (10, 8, 6, 1), (1, 1, 3, 2)],
)
@pytest.mark.parametrize("with_slopes", [False, True])
def test_weights_are_in_the_order_of_the_driver(shape: tuple[int, ...], with_slopes: bool) -> None:
    random = np.random.default_rng(0)
    weight, bias = (
        random.standard_normal(shape).astype(np.float16),
        random.standard_normal(shape[0]).astype(np.float16),
    )
    slopes = random.standard_normal(shape[0]).astype(np.float16) if with_slopes else None
    data = packed(Convolution(weight.astype(np.float32), bias.astype(np.float32), slopes=slopes))
    want = np.array(written_one_by_one(weight, bias, slopes), np.float16)
    got = np.frombuffer(data, np.float16)
    assert len(data) % 16 == 0 and len(got) - len(want) < 8 and not got[len(want) :].any()
    np.testing.assert_array_equal(got[: len(want)], want)


def test_dilated_kernel_has_one_part_per_tap_and_the_bias_in_the_last() -> None:
    weight, bias = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 2, 2), np.array([50, 60], np.float32)
    got = np.frombuffer(packed(Convolution(weight, bias, dilation=(2, 2))), np.float16).reshape(4, -1)
    for tap in range(4):
        one = weight[:, :, tap // 2, tap % 2][:, :, None, None]
        want = np.frombuffer(packed(Convolution(one, bias if tap == 3 else 0 * bias)), np.float16)
        np.testing.assert_array_equal(got[tap], want)


def test_fully_connected_weights_and_bias_begin_at_16_bytes() -> None:
    weight, bias = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([7, 8, 9], np.float32)
    got = np.frombuffer(packed(FullyConnected(weight, bias)), np.float16)
    np.testing.assert_array_equal(got, [*range(15), 0, 7, 8, 9, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("shape", [(9, 70, 1, 1), (17, 19, 3, 3), (8, 9, 5, 5), (5, 11, 7, 7)])
def test_indices_are_in_the_order_of_16_bit_weights_after_a_table(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    table = np.sort(random.standard_normal(255)).astype(np.float16)
    weight = table[random.integers(0, 255, shape)].astype(np.float32)
    weight[0, 0] = 0
    bias = random.standard_normal(shape[0]).astype(np.float16).astype(np.float32)
    data = packed(Convolution(weight, bias, table=table))
    np.testing.assert_array_equal(np.frombuffer(data[:512], np.float16), [0, *table])
    want, at = written_one_by_one(weight, bias, None), 512
    per_eight = len(written_one_by_one(weight[:8], bias[:8], None))
    for first in range(0, shape[0], 8):  # eight biases of 16 bits, and blocks of 8-bit indices
        part = want[first // 8 * per_eight :][:per_eight]
        np.testing.assert_array_equal(np.frombuffer(data[at : at + 16], np.float16), np.float16(part[:8]))
        found = np.frombuffer(data[at + 16 : at + 8 + len(part)], np.uint8)
        np.testing.assert_array_equal(np.concatenate([[0], table])[found], np.float16(part[8:]))
        at += 8 + len(part)
    assert len(data) == -(-at // 16) * 16 and not any(data[at:])


def test_tables_minimize_the_error_of_the_weights() -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal(20_000).astype(np.float32)
    table = table_of(weight)
    error = nearest(table, weight) - weight
    assert len(table) <= 255 and np.sqrt((error**2).mean()) < 0.012  # 0.0107 is the best for a normal distribution
    few = np.array([0, 0.5, -1, 0.5, 0], np.float32)
    np.testing.assert_array_equal(table_of(few), np.array([-1, 0.5], np.float16))
    np.testing.assert_array_equal(nearest(table_of(few), few), few)
    assert len(table_of(np.zeros(3, np.float32))) == 0


@pytest.mark.skipif(not any(map(shutil.which, dv._COMPILERS)), reason="there is no C++ compiler")
def test_runtime_converts_16_bit_floats_like_numpy(tmp_path: Path) -> None:
    program = (
        '#include <cstdio>\n#include "dmp_network.h"\nint main() { float x; while (std::fread(&x, 4, 1, stdin)) {'
    )
    program += " uint16_t h = float_to_half(x); float y = half_to_float(h); std::fwrite(&h, 2, 1, stdout);"
    program += " std::fwrite(&y, 4, 1, stdout); } }\n"
    (tmp_path / "t.cpp").write_text(program)
    command = ["c++", "-std=c++11", f"-I{HOST}", "t.cpp", str(HOST / "dmp_network.cpp"), "-o", "t"]
    subprocess.run(command, cwd=tmp_path, check=True)
    random = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = np.concatenate(
        [random.standard_normal(5000) * 10 ** random.uniform(-9, 6, 5000), [0, -0.0, 65519.9, 65520]]
    )
    middles = (halves[:31743].astype(np.float64) + halves[1:31744]) / 2  # ties round to even
    x = np.concatenate([x, halves[np.isfinite(halves)], middles]).astype(np.float32)
    done = subprocess.run(["./t"], cwd=tmp_path, input=x.tobytes(), capture_output=True, check=True)
    got = np.frombuffer(done.stdout, [("half", np.uint16), ("back", np.float32)])
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    np.testing.assert_array_equal(got["half"], want.view(np.uint16))
    np.testing.assert_array_equal(got["back"], want.astype(np.float32))
