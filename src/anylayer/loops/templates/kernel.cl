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

T maximum_T(T a, T b) { return a > b || a != a ? a : b; }

T minimum_T(T a, T b) { return a < b || a != a ? a : b; }

T larger_T(T a, T b) { return a > b ? a : b; }

T smaller_T(T a, T b) { return a < b ? a : b; }

T sign_T(T x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

T magnitude_T(T x) { return x < 0 ? -x : x; }

T quotient_T(T a, T b) { return b == 0 ? 0 : a / b; }

T floor_quotient_T(T a, T b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

T modulo_T(T a, T b) {
    return b == 0 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
}

T float_modulo_T(T a, T b) {
    const T r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// An index inside an axis; a negative one counts from the end. `valid` is false for one outside.
int inside_T(long i, int size, bool* valid) {
    if (i < 0) i += size;
    if (i >= 0 && i < size) return i;
    *valid = false;
    return 0;
}

// An index of at least 0 inside an axis. `valid` is false for one outside.
int below_T(int i, int size, bool* valid) {
    const bool found = i < size;
    *valid = *valid && found;
    return found ? i : 0;
}
