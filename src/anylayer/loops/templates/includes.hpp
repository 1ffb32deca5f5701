#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

// Before a loop: no iteration depends on what another one stores, so that vector instructions may compute several.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wunused-function"  // a file uses some of the functions below
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

// Before a short loop that becomes vector instructions: it is not unrolled before.
#if defined(__GNUC__) && !defined(__clang__)
#define ROLLED _Pragma("GCC unroll 1")
#else
#define ROLLED
#endif

namespace {
