inline float float_of_bits(int32_t i) { float x; std::memcpy(&x, &i, sizeof x); return x; }

inline int32_t bits_of_float(float x) { int32_t i; std::memcpy(&i, &x, sizeof i); return i; }

inline double double_of_bits(uint64_t i) { double x; std::memcpy(&x, &i, sizeof x); return x; }

inline uint64_t bits_of_double(double x) { uint64_t i; std::memcpy(&i, &x, sizeof i); return i; }

// A float, or NaN where a condition holds. A choice would be a branch, of which compilers make no vector instructions.
inline float nan_where(bool condition, float x) { return float_of_bits(bits_of_float(x) | -int32_t(condition)); }
inline double nan_where(bool condition, double x) { return double_of_bits(bits_of_double(x) | -uint64_t(condition)); }

// The maximum, as NumPy defines it: NaN if one of the numbers is NaN.
template <class T> inline T maximum(T a, T b) { return a > b ? a : b; }
template <> inline float maximum(float a, float b) { return nan_where(a != a, a > b ? a : b); }
template <> inline double maximum(double a, double b) { return nan_where(a != a, a > b ? a : b); }

// The minimum, as NumPy defines it.
template <class T> inline T minimum(T a, T b) { return a < b ? a : b; }
template <> inline float minimum(float a, float b) { return nan_where(a != a, a < b ? a : b); }
template <> inline double minimum(double a, double b) { return nan_where(a != a, a < b ? a : b); }

// The maximum with a bound that is not NaN: one comparison, of which compilers make vector instructions.
template <class T> inline T at_least(T x, T bound) { return x < bound ? bound : x; }

// The minimum with a bound that is not NaN.
template <class T> inline T at_most(T x, T bound) { return x > bound ? bound : x; }

// Combines the numbers of a loop. Each of 16 or 32 partial results takes every 16th or 32nd number, so that compilers
// make vector instructions of the loop.
template <int parts, class Combine, class T, class Number>
inline T combined_in_parts(T result, int64_t count, const Number& number) {
    const Combine combine{};
    const int64_t whole = count - count % parts;
    if (whole > 0) {
        T part[parts];
        for (int i = 0; i < parts; ++i) part[i] = number(i);
        for (int64_t at = parts; at < whole; at += parts) {
            ROLLED
            for (int i = 0; i < parts; ++i) part[i] = combine(part[i], number(at + i));
        }
        for (int half = parts / 2; half > 0; half /= 2) {
            for (int i = 0; i < half; ++i) part[i] = combine(part[i], part[i + half]);
        }
        result = combine(result, part[0]);
    }
    for (int64_t at = whole; at < count; ++at) result = combine(result, number(at));
    return result;
}
template <class Combine, class T, class Number> inline T combined(T result, int64_t count, const Number& number) {
    return count < 64 ? combined_in_parts<16, Combine>(result, count, number)
                      : combined_in_parts<32, Combine>(result, count, number);
}

struct Sum { template <class T> T operator()(T a, T b) const { return T(a + b); } };

struct Product { template <class T> T operator()(T a, T b) const { return T(a * b); } };

struct Largest { template <class T> T operator()(T a, T b) const { return maximum(a, b); } };

struct Smallest { template <class T> T operator()(T a, T b) const { return minimum(a, b); } };

// The place of the first largest or smallest of `count` numbers, at least one; NaN comes before all others. Each of
// `parts` partial results takes every 16th or 32nd number, and the last ones are taken twice if there is a rest.
template <int parts, class Before, class Number> inline int64_t place_in_parts(int64_t count, const Number& number) {
    using T = typename std::decay<decltype(number(0))>::type;
    using Place = typename std::conditional<sizeof(T) == 8, int64_t, int32_t>::type;
    const Before before{};
    T part[parts];
    Place places[parts];
    for (int i = 0; i < parts; ++i) part[i] = number(i);
    for (int i = 0; i < parts; ++i) places[i] = i;
    for (int64_t at = parts; at < count; at += parts) {
        const int64_t start = at + parts > count ? count - parts : at;
        ROLLED
        for (int i = 0; i < parts; ++i) {
            const T x = number(start + i);
            const bool better = before(x, part[i]);
            part[i] = better ? x : part[i];
            places[i] = better ? Place(start + i) : places[i];
        }
    }
    for (int half = parts / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) {
            const T x = part[i + half];
            const bool equal = !before(x, part[i]) & !before(part[i], x);
            const bool better = before(x, part[i]) | (equal & (places[i + half] < places[i]));
            part[i] = better ? x : part[i];
            places[i] = better ? places[i + half] : places[i];
        }
    }
    return places[0];
}
template <class Before, class Number> inline int64_t place_of(int64_t count, const Number& number) {
    if (count >= 16 && count < 256) return place_in_parts<16, Before>(count, number);
    if (count >= 256 && count < int64_t(1) << 30) return place_in_parts<32, Before>(count, number);
    int64_t place = 0;
    auto best = number(0);
    for (int64_t i = 1; i < count; ++i) {
        const auto x = number(i);
        if (Before()(x, best)) { best = x; place = i; }
    }
    return place;
}

struct FirstLargest { template <class T> bool operator()(T a, T b) const { return !(a <= b) && b == b; } };

struct FirstSmallest { template <class T> bool operator()(T a, T b) const { return !(a >= b) && b == b; } };

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
    if (count <= 16) {  // inserts each number that comes before the last of those found so far
        int64_t found = 0;
        for (int64_t i = 0; i < size; ++i) {
            const T value = row[i * step];
            if (found == count && !comes_before<largest>(value, values[(count - 1) * step])) continue;
            int64_t at = found < count ? found++ : count - 1;
            for (; at > 0 && comes_before<largest>(value, values[(at - 1) * step]); --at) {
                values[at * step] = values[(at - 1) * step];
                places[at * step] = places[(at - 1) * step];
            }
            values[at * step] = value;
            places[at * step] = i;
        }
        return;
    }
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

// The minimum and the maximum of indices. Compilers do not always move std::min out of a loop, for it returns a reference.
inline int64_t smaller(int64_t a, int64_t b) { return b < a ? b : a; }
inline int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }

// An index inside an axis; a negative one counts from the end. It sets the highest bit of `outside` if there is no
// such element. Only loops without conditions become vector instructions.
inline int64_t inside(int64_t i, int64_t size, uint64_t& outside) {
    const int64_t at = i < 0 ? i + size : i;
    outside |= uint64_t(at) | (uint64_t(size) - 1 - uint64_t(at));
    return uint64_t(at) < uint64_t(size) ? at : 0;
}

// a * b + c, in one instruction where the processor has it.
template <class T> inline T fused(T a, T b, T c) {
#ifdef __FMA__
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

// x / c, where `high` + `low` is 1 / c. The result is the same: see loops/reciprocals.py.
#ifdef __FMA__
inline float divided(float x, float, float high, float low) { return std::fma(x, high, x * low); }
#else
inline float divided(float x, float c, float, float) { return x / c; }
#endif

// A polynomial of x with these coefficients, that of the highest power first.
template <class T> inline T polynomial(T, T sum) { return sum; }
template <class T, class... Rest> inline T polynomial(T x, T sum, T next, Rest... rest) {
    return polynomial(x, fused(sum, x, next), rest...);
}

// exp, log, tanh and erf of 32-bit floats, within 2e-7 (4 ulp) of the result. Compilers make vector instructions of them, in
// contrast to the functions of <cmath>. The polynomials are those of the Cephes library (S. Moshier), and of N. Juffa's
// erff.
inline float exponential(float x) {
    const float at = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float n = (at * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounded to an integer
    const float r = (at - n * 0.693359375f) - n * -2.12194440e-4f;
    float y = polynomial(
        r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
    y = y * r * r + r + 1.0f;
    const int32_t whole = int32_t(n == n ? n : 0.0f), half = whole >> 1;
    return y * float_of_bits((half + 127) << 23) * float_of_bits((whole - half + 127) << 23);
}

// Splits a number that is larger than 0 and finite into 2**n * (1 + m), and returns log(1 + m) - m.
inline float split_logarithm(float x, float& n, float& m) {
    const bool small = x < 1.17549435e-38f;
    const int32_t bits = bits_of_float(x * (small ? 8388608.0f : 1.0f)), exponent = (bits - 0x3f3504f3) >> 23;
    m = float_of_bits(bits - exponent * 8388608) - 1.0f;
    n = float(exponent - (small ? 23 : 0));
    const float y = polynomial(
        m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
        2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
    return y * m * (m * m) - 0.5f * (m * m);
}

inline float logarithm(float x) {
    float n, m;
    const float y = split_logarithm(x, n, m) + n * -2.12194440e-4f;
    const float found = m + y + n * 0.693359375f, infinity = std::numeric_limits<float>::infinity();
    const float special = x == 0.0f ? -infinity : std::numeric_limits<float>::quiet_NaN();
    return x > 0.0f ? (x < infinity ? found : infinity) : special;
}

inline float hyperbolic_tangent(float x) {
    const float a = std::fabs(x), z = x * x;
    const float y = polynomial(
        z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f);
    const float far = 1.0f - 2.0f / (exponential(a + a) + 1.0f);
    return std::copysign(a < 0.625f ? y * z * a + a : far, x);
}

inline float error_function(float x) {
    const float a = std::fabs(x), z = x * x;
    const float y = polynomial(
        z, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f);
    const float p = fused(-1.72853470e-5f, a, 3.83197126e-4f);
    const float q = polynomial(
        a, fused(p, z, fused(-3.88396438e-3f, a, 2.42546219e-2f)), -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f);
    return a < 0.927734375f ? fused(y, x, x) : std::copysign(1.0f - exponential(fused(q, a, -a)), x);
}

// An integer of at most 51 bits is the difference of this number and its sum with the integer; the sum's last bits
// are the integer.
inline double rounding() { return 6755399441055744.0; }

// sin, cos and pow of 32-bit floats, computed in doubles, within 1e-7 (1 ulp) of the result. Compilers make vector
// instructions of them.
//
// An angle is m * 2**e with an integer m of 24 bits. 2**e * 2 / pi, modulo 4, is high[e] + low[e]. high[e] has 29 bits,
// so that its product with m is exact.
inline double in_quarters(float x, uint64_t& quarter) {
    static const double high[105] = {
        0.6366197690367699, 1.2732395380735397, 2.54647908359766, 1.0929581746459007, 2.185916356742382,
        0.3718327134847641, 0.7436654269695282, 1.487330861389637, 2.974661722779274, 1.949323445558548,
        3.8986468985676765, 3.7972938045859337, 3.594587616622448, 3.189175233244896, 2.378350466489792,
        0.7567009404301643, 1.5134018808603287, 3.0268037617206573, 2.0536075234413147, 0.10721505433320999,
        0.21443010866641998, 0.42886021733283997, 0.8577204346656799, 1.7154408693313599, 3.4308817386627197,
        2.86176348477602, 1.72352696955204, 3.447053946554661, 2.8941078931093216, 1.7882157936692238,
        3.5764315873384476, 3.152863174676895, 2.305726356804371, 0.6114527136087418, 1.2229054346680641,
        2.4458108693361282, 0.8916217386722565, 1.7832434847950935, 3.5664869770407677, 3.132973961532116,
        2.2659479305148125, 0.5318958684802055, 1.0637917444109917, 2.127583496272564, 0.25516699254512787,
        0.5103339850902557, 1.0206679701805115, 2.041335940361023, 0.0826718881726265, 0.165343776345253,
        0.330687552690506, 0.6613751128315926, 1.3227502331137657, 2.645500473678112, 1.291000947356224,
        2.5820019021630287, 1.1640038043260574, 2.3280076161026955, 0.6560152322053909, 1.3120304718613625,
        2.6240609511733055, 1.2481219097971916, 2.496243827044964, 0.9924876615405083, 1.9849753230810165,
        3.9699506536126137, 3.9399013072252274, 3.8798026144504547, 3.7596052289009094, 3.5192104652523994,
        3.0384209379553795, 2.0768418833613396, 0.15368377417325974, 0.30736755579710007, 0.6147351115942001,
        1.2294702306389809, 2.4589404612779617, 0.9178809300065041, 1.8357618600130081, 3.6715237200260162,
        3.343047447502613, 2.6860949024558067, 1.3721898049116135, 2.7443796172738075, 1.488759234547615,
        2.97751846909523, 1.9550369456410408, 3.910073898732662, 3.8201477974653244, 3.6402956023812294,
        3.2805912122130394, 2.5611824318766594, 1.1223648637533188, 2.244729734957218, 0.48945947736501694,
        0.9789189621806145, 1.957837924361229, 3.915675848722458, 3.8313516974449158, 3.6627033948898315,
        3.325406789779663, 2.650813579559326, 1.301627166569233, 2.6032543405890465, 1.206508681178093,
    };
    static const double low[105] = {
        3.330811476132176e-09, 6.661622952264352e-09, 5.872665307604874e-09, 4.294750018285921e-09,
        1.138919439648014e-09, 2.277838879296028e-09, 4.555677758592056e-09, 1.6607749202602838e-09,
        3.3215498405205676e-09, 6.643099681041135e-09, 5.8356187651584414e-09, 4.2206569333930555e-09,
        9.907332698622821e-10, 1.9814665397245642e-09, 3.9629330794491285e-09, 4.752855619744297e-10,
        9.505711239488593e-10, 1.9011422478977186e-09, 3.802284495795437e-09, 1.5398839466704606e-10,
        3.0797678933409213e-10, 6.159535786681843e-10, 1.2319071573363685e-09, 2.463814314672737e-09,
        4.927628629345474e-09, 2.4046766617671204e-09, 4.809353323534241e-09, 2.1681260501446532e-09,
        4.3362521002893065e-09, 1.2219236036547852e-09, 2.4438472073095704e-09, 4.887694414619141e-09,
        2.3248082323144544e-09, 4.649616464628909e-09, 1.848652332333989e-09, 3.697304664667978e-09,
        7.394609329335956e-09, 7.338638061748084e-09, 7.226695526572339e-09, 7.0028104562208505e-09,
        6.555040315517873e-09, 5.659500034111918e-09, 3.868419471300007e-09, 2.8625834567618517e-10,
        5.725166913523703e-10, 1.1450333827047407e-09, 2.2900667654094814e-09, 4.580133530818963e-09,
        1.709686464714098e-09, 3.419372929428196e-09, 6.838745858856392e-09, 6.226911120788957e-09,
        5.003241644654086e-09, 2.555902692384343e-09, 5.111805384768686e-09, 2.773030172613544e-09,
        5.546060345227088e-09, 3.6415400935303494e-09, 7.283080187060699e-09, 7.1155797771975685e-09,
        6.780578957471309e-09, 6.11057731801879e-09, 4.770574039113752e-09, 2.090567481303676e-09,
        4.181134962607352e-09, 9.116893282908753e-10, 1.8233786565817506e-09, 3.646757313163501e-09,
        7.293514626327002e-09, 7.136448655730177e-09, 6.822316714536525e-09, 6.194052832149223e-09,
        4.937525067374619e-09, 2.4244695378254084e-09, 4.848939075650817e-09, 2.247297554377806e-09,
        4.494595108755612e-09, 1.538609620587396e-09, 3.077219241174792e-09, 6.154438482349584e-09,
        4.8582963677753385e-09, 2.2660121386268493e-09, 4.532024277253699e-09, 1.613467957583569e-09,
        3.226935915167138e-09, 6.453871830334276e-09, 5.457163063744724e-09, 3.4637455305656194e-09,
        6.927491061131239e-09, 6.40440152533865e-09, 5.3582224537534715e-09, 3.265864310583115e-09,
        6.53172862116623e-09, 5.612876645408631e-09, 3.7751726938934354e-09, 9.976479086304255e-11,
        1.995295817260851e-10, 3.990591634521702e-10, 7.981183269043404e-10, 1.5962366538086808e-09,
        3.1924733076173616e-09, 6.384946615234723e-09, 5.319312633545618e-09, 3.188044670167408e-09,
        6.376089340334816e-09,
    };
    const int32_t at = ((bits_of_float(x) >> 23) & 255) - 150, e = at < 0 ? 0 : at > 104 ? 104 : at;
    const double m = double(x) * double_of_bits(uint64_t(1023 - e) << 52), turns = m * high[e];
    const double sum = turns + rounding();
    quarter = bits_of_double(sum);
    return ((turns - (sum - rounding())) + m * low[e]) * 1.5707963267948966;
}

inline float sine_of_quarters(double x, uint64_t quarter) {
    const double z = x * x;
    const double sine = x * polynomial(z, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0);
    const double cosine = polynomial(z, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0);
    const double found = (quarter & 1) != 0 ? cosine : sine;
    return float(double_of_bits(bits_of_double(found) ^ (quarter & 2) << 62));
}

inline float sine(float x) {
    uint64_t quarter;
    const double angle = in_quarters(x, quarter);
    return sine_of_quarters(angle, quarter);
}

inline float cosine(float x) {
    uint64_t quarter;
    const double angle = in_quarters(x, quarter);
    return sine_of_quarters(angle, quarter + 1);
}

// The logarithm of a number that is larger than 0 and finite.
inline double precise_logarithm(double x) {
    const uint64_t bits = bits_of_double(x), k = (bits - 0x3fe6a09e667f3bcdu + (uint64_t(1024) << 52)) >> 52;
    const double m = double_of_bits(bits - ((k - 1024) << 52));
    const double n = double_of_bits(0x4338000000000000u + k - 1024) - rounding();
    const double s = (m - 1) / (m + 1), z = s * s;
    const double y = polynomial(z, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0);
    return fused(s, y, n * 0.6931471805599453);
}

inline double precise_exponential(double x) {
    const double at = x < -120 ? -120.0 : x > 120 ? 120.0 : x, sum = at * 1.4426950408889634 + rounding();
    const double r = fused(sum - rounding(), -0.6931471805599453, at);
    const double y = polynomial(r, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
    return double_of_bits(bits_of_double(y) + (bits_of_double(sum) << 52));
}

// The power of numbers, where `found` is right for those that are larger than 0 and finite.
inline float special_power(float x, float y, float found) {
    const float infinity = std::numeric_limits<float>::infinity(), a = std::fabs(x), b = std::fabs(y);
    const double sum = double(b) + rounding();
    const bool whole = b >= 16777216.0f || sum - rounding() == double(b);
    const bool odd = b < 16777216.0f && whole && (bits_of_double(sum) & 1) != 0;
    const float of_zero = y > 0 ? 0.0f : infinity, of_infinity = y > 0 ? infinity : 0.0f;
    const float known = a > 0 ? (a < infinity ? found : of_infinity) : of_zero;
    const float real = x < 0 && a < infinity && !whole ? std::numeric_limits<float>::quiet_NaN() : known;
    const float size = x == x && y == y ? real : x + y;
    const float result = odd ? std::copysign(size, x) : size;
    return y == 0 || (x == 1 && y != y) || (a == 1 && b == infinity) ? 1.0f : result;
}

inline float power(float x, float y) {
    const double a = double(std::fabs(x));
    return special_power(x, y, float(precise_exponential(double(y) * precise_logarithm(a))));
}

// A power whose exponent is at most 2.5, within 3e-7 (4 ulp) of the result: 2**(n * y) * (1 + m)**y.
inline float small_power(float x, float y) {
    float n, m;
    const float rest = split_logarithm(std::fabs(x), n, m), log = (m + rest) * (y * 1.44269504f);
    const float high = float_of_bits(bits_of_float(y) & -256), low = y - high;  // n * high is exact
    const float whole = (n * y + log + 12582912.0f) - 12582912.0f;  // rounded to an integer
    const float r = (n * high - whole) + fused(n, low, log);
    const float size = polynomial(
        r, 1.5353362e-4f, 1.3398874e-3f, 9.6184373e-3f, 5.5503322e-2f, 2.4022648e-1f, 6.9314720e-1f, 1.0f);
    const bool normal = std::fabs(y) <= 0.8f;  // all results are normal numbers
    const int32_t e = int32_t(normal ? whole : whole < -200.0f ? -200.0f : whole > 200.0f ? 200.0f : whole);
    const int32_t half = normal ? 0 : e >> 1;
    return special_power(x, y, size * float_of_bits((half + 127) << 23) * float_of_bits((e - half + 127) << 23));
}
