"""The text before an OpenCL kernel, and the functions that a kernel may call."""

TOP = """\
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double wide;
#else
typedef float wide;
#endif
// NumPy rounds after each operation, so a product and a sum must not become one instruction.
#pragma OPENCL FP_CONTRACT OFF
"""

HELPERS = {
    "maximum": "{T} maximum_{T}({T} a, {T} b) {{ return a > b || a != a ? a : b; }}",
    "minimum": "{T} minimum_{T}({T} a, {T} b) {{ return a < b || a != a ? a : b; }}",
    "larger": "{T} larger_{T}({T} a, {T} b) {{ return a > b ? a : b; }}",
    "smaller": "{T} smaller_{T}({T} a, {T} b) {{ return a < b ? a : b; }}",
    "sign": "{T} sign_{T}({T} x) {{ return x > 0 ? 1 : x < 0 ? -1 : x; }}",
    "magnitude": "{T} magnitude_{T}({T} x) {{ return x < 0 ? -x : x; }}",
    "quotient": "{T} quotient_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a / b; }}",
    "floor_quotient": "{T} floor_quotient_{T}({T} a, {T} b) {{\n"
    "    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));\n}}",
    "modulo": "{T} modulo_{T}({T} a, {T} b) {{\n"
    "    return b == 0 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;\n}}",
    "float_modulo": "{T} float_modulo_{T}({T} a, {T} b) {{\n"
    "    const {T} r = fmod(a, b);\n"
    "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}}",
    "inside": "// An index inside an axis; a negative one counts from the end. `valid` is false for one outside.\n"
    "int inside_int(long i, int size, bool* valid) {{\n"
    "    if (i < 0) i += size;\n"
    "    if (i >= 0 && i < size) return i;\n"
    "    *valid = false;\n"
    "    return 0;\n}}",
    "below": "// An index of at least 0 inside an axis. `valid` is false for one outside.\n"
    "int below_int(int i, int size, bool* valid) {{\n"
    "    const bool found = i < size;\n"
    "    *valid = *valid && found;\n"
    "    return found ? i : 0;\n}}",
}
"""Functions that a kernel may call, for a type {T}."""
