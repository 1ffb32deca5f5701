// Layers written by hand as plain C++ loops, for benchmarks/loops.py. Each function gets the pointers of the inputs and
// the output, and the sizes of all of them in this order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

const float* input(void* const* p, int i) { return static_cast<const float*>(p[i]); }
float* output(void* const* p, int i) { return static_cast<float*>(p[i]); }

// The lower cell and the weight of the upper one for each position of an axis; the corners stay.
void positions(int64_t from, int64_t to, std::vector<int64_t>& cells, std::vector<float>& parts) {
    const float step = float(from - 1) / float(to - 1);
    for (int64_t i = 0; i < to; ++i) {
        const float at = float(i) * step;
        cells[i] = int64_t(at);
        parts[i] = at - float(cells[i]);
    }
}

}  // namespace

extern "C" {

void hand_chain(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) y[i] = std::max(x[i] * 2.0f + 1.0f, 0.0f) * x[i] - 3.0f;
}

void hand_sigmoid(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) y[i] = 1.0f / (1.0f + std::exp(-x[i]));
}

void hand_Interp(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t h = n[2], w = n[3], height = n[6], width = n[7];
    std::vector<int64_t> rows(height), columns(width);
    std::vector<float> below(height), right(width), wide(h * width);
    positions(h, height, rows, below);
    positions(w, width, columns, right);
    for (int64_t c = 0; c < n[0] * n[1]; ++c, x += h * w, y += height * width) {
        for (int64_t i = 0; i < h; ++i) {
            for (int64_t j = 0; j < width; ++j) {
                const int64_t k = columns[j], next = std::min(k + 1, w - 1);
                wide[i * width + j] = (1.0f - right[j]) * x[i * w + k] + right[j] * x[i * w + next];
            }
        }
        for (int64_t i = 0; i < height; ++i) {
            const float* upper = &wide[rows[i] * width];
            const float* lower = &wide[std::min(rows[i] + 1, h - 1) * width];
            for (int64_t j = 0; j < width; ++j) {
                y[i * width + j] = (1.0f - below[i]) * upper[j] + below[i] * lower[j];
            }
        }
    }
}

void hand_Reverse(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t w = n[3];
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; ++i) {
        for (int64_t j = 0; j < w; ++j) y[i * w + j] = x[i * w + w - 1 - j];
    }
}

void hand_Upsample(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t w = n[3];
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; ++i) {
        for (int64_t k = 0; k < 2; ++k) {
            for (int64_t j = 0; j < w; ++j) y[2 * j] = y[2 * j + 1] = x[i * w + j] * 2.0f;
            y += 2 * w;
        }
    }
}

void hand_Normalize(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t channels = n[1], area = n[2] * n[3];
    std::vector<float> length(area);
    for (int64_t image = 0; image < n[0]; ++image, x += channels * area, y += channels * area) {
        std::fill(length.begin(), length.end(), 0.0f);
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0; i < area; ++i) length[i] += x[c * area + i] * x[c * area + i];
        }
        for (int64_t i = 0; i < area; ++i) length[i] = std::sqrt(length[i] + 1e-10f);
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0; i < area; ++i) y[c * area + i] = x[c * area + i] / length[i];
        }
    }
}

void hand_Reorg(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t channels = n[1], w = n[3], height = n[2] / 2, width = n[3] / 2;
    for (int64_t part = 0; part < 4; ++part) {
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0; i < height; ++i) {
                const float* row = x + (c * n[2] + 2 * i + part / 2) * w + part % 2;
                for (int64_t j = 0; j < width; ++j) *y++ = row[2 * j];
            }
        }
    }
}

void hand_ShuffleChannel(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t channels = n[1], area = n[2] * n[3], groups = 3, own = channels / groups;
    for (int64_t i = 0; i < own; ++i) {
        for (int64_t g = 0; g < groups; ++g, y += area) {
            std::memcpy(y, x + (g * own + i) * area, std::size_t(area) * sizeof(float));
        }
    }
}

void hand_Crop(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 2);
    const int64_t h = n[2], w = n[3], height = n[6], width = n[7];
    for (int64_t c = 0; c < n[0] * n[1]; ++c) {
        for (int64_t i = 0; i < height; ++i, y += width) {
            const float* row = x + (c * h + i + (h - height) / 2) * w + (w - width) / 2;
            std::memcpy(y, row, std::size_t(width) * sizeof(float));
        }
    }
}

}  // extern "C"
