"""The memory that generated C++ code keeps between calls: reuse, bounds, threads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from anylayer.kernels.compiler import compiler
from anylayer.loops import prelude
from tests.loops.harness import FLAGS, needs_compiler
from tests.sanitized import environment

pytestmark = needs_compiler

MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static void check(bool good, const char* what) {
    if (good) return;
    std::printf("%s\n", what);
    std::exit(1);
}

static float* used(int64_t count) {
    const Memory<float> memory(count);
    memory[0] = memory[count - 1] = 1;
    return &memory[0];
}

static std::size_t held() {  // bytes in the slots
    std::size_t sum = 0;
    for (Blocks::Slot& slot : kept_blocks.slots) sum += slot.bytes > 1 ? slot.bytes.load() : 0;
    return sum;
}

int main() {
    {
        const Keeper keeper, other(keeper);
        used(10);
        check(held() == 0, "a small block is kept");
        float* const first = used(1 << 20);
        check(held() == std::size_t(4) << 20 && used(1 << 20) == first, "a block is not used again");
        check(used((1 << 20) - 100) == first && held() == std::size_t(4) << 20, "a smaller array has a new block");
        used(1 << 18);
        check(held() == std::size_t(5) << 20, "an array of a quarter of the size uses the large block");
        check(kept_blocks.slots[1].claim(std::size_t(1) << 20), "the second block is in another slot");
        used(1 << 18);  // as in a process that was forked while another thread changed this slot
        check(held() == std::size_t(5) << 20, "a slot that is being changed is not passed over");
        kept_blocks.slots[1].leave(std::size_t(1) << 20);
        for (int i = 0; i < 300; ++i) used((1 << 14) + i * (1 << 14));
        check(held() <= MOST_KEPT && held() == kept_blocks.kept, "more than the limit is kept");
        used(int64_t(1) << 27);
        check(held() <= MOST_KEPT && held() == kept_blocks.kept, "a block above the limit is kept");
        bool thrown = false;
        try {
            used(int64_t(1) << 62);
        } catch (const std::bad_alloc&) {
            thrown = true;
        }
        check(thrown, "an array with more bytes than a number can hold is allocated");
        std::vector<std::thread> threads;
        std::atomic<int> shared(0);
        for (int at = 0; at < 4; ++at) {
            threads.emplace_back([at, &shared] {
                for (int i = 0; i < 2000; ++i) {
                    const Keeper own;
                    const int64_t count = (1 << 14) + (i * 7 + at) % 90 * 1000;
                    const Memory<int> a(count), b(count);
                    for (int64_t k = 0; k < count; k += 999) a[k] = b[k] = at;
                    for (int64_t k = 0; k < count; k += 999) shared += a[k] != at || b[k] != at;
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        check(shared == 0, "two threads share a block");
        check(held() <= MOST_KEPT && held() == kept_blocks.kept, "the threads keep more than the limit");
    }
    check(held() == 0 && kept_blocks.kept == 0, "blocks are kept without a keeper");
    return 0;
}
"""


def test_memory_is_reused_bounded_and_freed(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(prelude(MAIN) + MAIN)
    words = [*compiler(), "-std=c++11", *FLAGS, "-pthread", "main.cpp", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_prelude_has_only_the_functions_that_code_uses() -> None:
    every = {
        "maximum",
        "at_least",
        "combined",
        "sort_row",
        "suppress",
        "inside",
        "exponential",
        "logarithm",
        "Memory",
    }
    cases = {
        "output0[i] = at_least<float>(x, 0.0f);": {"at_least"},
        "y = combined<Largest>(y, 3, [&](int64_t i) -> float { return x[i]; });": {"combined", "maximum"},
        "y = hyperbolic_tangent(x);": {"exponential"},
        "suppress(a, b);": {"suppress", "maximum", "Memory"},
    }
    for text, wanted in cases.items():
        for pooled in (True, False):
            words = set(re.findall(r"(\w+)[({ ]", re.sub(r"//.*", "", prelude(text, pooled=pooled))))
            assert every & words == wanted, text


BEYOND = """
extern "C" float last(const float* x, long count) { return x[count]; }
"""
CALL = """
import ctypes, numpy
last = ctypes.CDLL("./last.so").last
last.argtypes, last.restype = [ctypes.c_void_p, ctypes.c_long], ctypes.c_float
x = numpy.zeros(300, numpy.float32)
print(last(x.ctypes.data, COUNT))
"""


@pytest.mark.parametrize("count, reported", [(299, False), (300, True)])
def test_sanitized_run_reports_a_read_beyond_an_array(count: int, reported: bool, tmp_path: Path) -> None:
    environ = environment()
    if environ is None:
        pytest.skip("apt-get install g++")
    (tmp_path / "last.cpp").write_text(BEYOND)
    words = [*environ["CXX"].split(), "-shared", "-fPIC", "last.cpp", "-o", "last.so"]
    subprocess.run(words, cwd=tmp_path, env=environ | {"LD_PRELOAD": ""}, check=True)
    words = [sys.executable, "-c", CALL.replace("COUNT", str(count))]
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ("heap-buffer-overflow" in done.stderr, done.stdout) == (reported, "" if reported else "0.0\n")
