// The maximum, as NumPy defines it: NaN if one of the numbers is NaN.
template <class T> inline T maximum(T a, T b) { return a > b || a != a ? a : b; }

// The minimum, as NumPy defines it.
template <class T> inline T minimum(T a, T b) { return a < b || a != a ? a : b; }

// The maximum with a bound that is not NaN: one comparison, of which compilers make vector instructions.
template <class T> inline T at_least(T x, T bound) { return x < bound ? bound : x; }

// The minimum with a bound that is not NaN.
template <class T> inline T at_most(T x, T bound) { return x > bound ? bound : x; }

// Combines the numbers of a loop. Each of 16 partial results takes every 16th number, so that compilers make
// vector instructions of the loop.
template <class Combine, class T, class Number> inline T combined(T result, int64_t count, const Number& number) {
    const Combine combine{};
    const int64_t parts = 16, whole = count - count % parts;
    if (whole > 0) {
        T part[parts];
        for (int64_t i = 0; i < parts; ++i) part[i] = number(i);
        for (int64_t at = parts; at < whole; at += parts) {
            for (int64_t i = 0; i < parts; ++i) part[i] = combine(part[i], number(at + i));
        }
        for (int64_t i = 0; i < parts; ++i) result = combine(result, part[i]);
    }
    for (int64_t at = whole; at < count; ++at) result = combine(result, number(at));
    return result;
}

struct Sum { template <class T> T operator()(T a, T b) const { return T(a + b); } };

struct Product { template <class T> T operator()(T a, T b) const { return T(a * b); } };

struct Largest { template <class T> T operator()(T a, T b) const { return maximum(a, b); } };

struct Smallest { template <class T> T operator()(T a, T b) const { return minimum(a, b); } };

template <class T> inline T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }

template <class T> inline T quotient(T a, T b) { return b == T(0) ? T(0) : T(a / b); }

inline int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

template <class T> inline T modulo(T a, T b, std::true_type) {
    return b == T(0) ? T(0) : T(a % b != T(0) && (a % b < T(0)) != (b < T(0)) ? a % b + b : a % b);
}
template <class T> inline T modulo(T a, T b, std::false_type) {
    const T r = std::fmod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T> inline T modulo(T a, T b) { return modulo(a, b, std::is_integral<T>()); }

// Stores the first `count` numbers of a row in sorted order, and their places in the row. Equal numbers keep their
// order; NaN is larger than any number. `step` is the distance between neighbours of the row, and of the results.
template <class T> struct Ranked {
    T value;
    int64_t place;
};
template <bool largest, class T> inline bool comes_before(T a, T b) {
    return largest ? a > b || (a != a && b == b) : a < b || (b != b && a == a);
}
template <bool largest, class T>
inline void sort_row(const T* row, T* values, int64_t* places, int64_t step, int64_t size, int64_t count) {
    if (count < 1) return;
    const Memory<Ranked<T>> memory(size);
    Ranked<T>* all = &memory[0];
    for (int64_t i = 0; i < size; ++i) all[i] = Ranked<T>{row[i * step], i};
    const auto order = [](const Ranked<T>& a, const Ranked<T>& b) {
        return comes_before<largest>(a.value, b.value) ||
               (a.place < b.place && !comes_before<largest>(b.value, a.value));
    };
    if (count < size) std::nth_element(all, all + count, all + size, order);
    std::sort(all, all + count, order);
    for (int64_t i = 0; i < count; ++i) {
        values[i * step] = all[i].value;
        places[i * step] = all[i].place;
    }
}

// NMS of boxes (images, size, 4) with scores (images, classes, size): stores a row (image, class, box) for each
// box that overlaps no better box of its class, the best first, then rows of -1. Returns the number of boxes.
// Scores must exceed `least` if they are `bounded`. Of equal scores the first is better; NaN is worst.
template <class T> inline bool overlaps(const T* a, const T* b, T limit) {
    T area[3];  // of a, of b, of their intersection
    for (int i = 0; i < 3; ++i) area[i] = T(1);
    for (int axis = 0; axis < 2; ++axis) {
        const T low_a = minimum(a[axis], a[axis + 2]), high_a = maximum(a[axis], a[axis + 2]);
        const T low_b = minimum(b[axis], b[axis + 2]), high_b = maximum(b[axis], b[axis + 2]);
        area[0] *= high_a - low_a;
        area[1] *= high_b - low_b;
        area[2] *= maximum(minimum(high_a, high_b) - maximum(low_a, low_b), T(0));
    }
    return area[2] > T(0) && area[2] / (area[0] + area[1] - area[2]) > limit;
}

template <class T> inline bool is_better(T a, T b) { return a > b || (a == a && b != b); }

template <class T>
inline int64_t suppress(const T* scores, const T* boxes, int64_t images, int64_t classes, int64_t size,
                        int64_t kept, T limit, bool bounded, T least, int64_t* rows) {
    int64_t total = 0;
    const Memory<int64_t> memory(size);
    int64_t* all = &memory[0];
    for (int64_t group = 0; group < images * classes; ++group) {
        const T* score = scores + group * size;
        const T* corners = boxes + group / classes * size * 4;
        int64_t count = 0;
        for (int64_t i = 0; i < size; ++i) {
            if (!bounded || score[i] > least) all[count++] = i;
        }
        std::sort(all, all + count, [score](int64_t a, int64_t b) {
            return is_better(score[a], score[b]) || (a < b && !is_better(score[b], score[a]));
        });
        int64_t* found = rows + total * 3;
        int64_t taken = 0;
        for (int64_t k = 0; k < count && taken < kept; ++k) {
            bool free = true;
            for (int64_t i = 0; i < taken && free && limit < T(1); ++i) {
                free = !overlaps(corners + found[i * 3 + 2] * 4, corners + all[k] * 4, limit);
            }
            if (!free) continue;
            found[taken * 3] = group / classes;
            found[taken * 3 + 1] = group % classes;
            found[taken * 3 + 2] = all[k];
            ++taken;
        }
        total += taken;
    }
    std::fill(rows + total * 3, rows + images * classes * std::min(kept, size) * 3, int64_t(-1));
    return total;
}

// An index inside an axis; a negative one counts from the end. It sets the highest bit of `outside` if there is no
// such element. Only loops without conditions become vector instructions.
inline int64_t inside(int64_t i, int64_t size, uint64_t& outside) {
    const int64_t at = i < 0 ? i + size : i;
    outside |= uint64_t(at) | (uint64_t(size) - 1 - uint64_t(at));
    return uint64_t(at) < uint64_t(size) ? at : 0;
}

inline float float_of_bits(int32_t i) { float x; std::memcpy(&x, &i, sizeof x); return x; }

inline int32_t bits_of_float(float x) { int32_t i; std::memcpy(&i, &x, sizeof i); return i; }

// a * b + c, in one instruction where the processor has it.
inline float fused(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// exp, log, tanh and erf of 32-bit floats, within 2e-7 of the result. Compilers make vector instructions of them, in
// contrast to the functions of <cmath>. The polynomials are those of the Cephes library (S. Moshier), and of N. Juffa's
// erff.
inline float exponential(float x) {
    const float at = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float n = (at * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounded to an integer
    const float r = (at - n * 0.693359375f) - n * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = fused(y, r, 1.3981999507e-3f);
    y = fused(y, r, 8.3334519073e-3f);
    y = fused(y, r, 4.1665795894e-2f);
    y = fused(y, r, 1.6666665459e-1f);
    y = fused(y, r, 5.0000001201e-1f);
    y = y * r * r + r + 1.0f;
    const int32_t whole = int32_t(n == n ? n : 0.0f), half = whole >> 1;
    return y * float_of_bits((half + 127) << 23) * float_of_bits((whole - half + 127) << 23);
}

inline float logarithm(float x) {
    const bool small = x < 1.17549435e-38f;
    const int32_t bits = bits_of_float(small ? x * 8388608.0f : x), exponent = (bits - 0x3f3504f3) >> 23;
    const float m = float_of_bits(bits - exponent * 8388608) - 1.0f, n = float(exponent - (small ? 23 : 0));
    float y = 7.0376836292e-2f;
    y = fused(y, m, -1.1514610310e-1f);
    y = fused(y, m, 1.1676998740e-1f);
    y = fused(y, m, -1.2420140846e-1f);
    y = fused(y, m, 1.4249322787e-1f);
    y = fused(y, m, -1.6668057665e-1f);
    y = fused(y, m, 2.0000714765e-1f);
    y = fused(y, m, -2.4999993993e-1f);
    y = fused(y, m, 3.3333331174e-1f);
    y = y * m * (m * m) + n * -2.12194440e-4f - 0.5f * (m * m);
    const float found = m + y + n * 0.693359375f, infinity = std::numeric_limits<float>::infinity();
    const float special = x == 0.0f ? -infinity : std::numeric_limits<float>::quiet_NaN();
    return x > 0.0f ? (x < infinity ? found : infinity) : special;
}

inline float hyperbolic_tangent(float x) {
    const float a = std::fabs(x), z = x * x;
    float y = -5.70498872745e-3f;
    y = fused(y, z, 2.06390887954e-2f);
    y = fused(y, z, -5.37397155531e-2f);
    y = fused(y, z, 1.33314422036e-1f);
    y = fused(y, z, -3.33332819422e-1f);
    const float far = 1.0f - 2.0f / (exponential(a + a) + 1.0f);
    return std::copysign(a < 0.625f ? y * z * a + a : far, x);
}

inline float error_function(float x) {
    const float a = std::fabs(x), z = x * x;
    float y = -5.96761703e-4f, q = fused(-1.72853470e-5f, a, 3.83197126e-4f);
    y = fused(y, z, 4.99119423e-3f);
    y = fused(y, z, -2.67681349e-2f);
    y = fused(y, z, 1.12819925e-1f);
    y = fused(y, z, -3.76125336e-1f);
    y = fused(y, z, 1.28379166e-1f);
    q = fused(q, z, fused(-3.88396438e-3f, a, 2.42546219e-2f));
    q = fused(q, a, -1.06777877e-1f);
    q = fused(q, a, -6.34846687e-1f);
    q = fused(q, a, -1.28717512e-1f);
    return a < 0.927734375f ? fused(y, x, x) : std::copysign(1.0f - exponential(fused(q, a, -a)), x);
}
