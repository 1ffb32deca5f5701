// Layers written by hand as plain C++ loops, for benchmarks/loops.py and benchmarks/targets.py. Each function
// gets the pointers of the inputs and the outputs, and the sizes of all of them in this order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

const float* input(void* const* p, int i) { return static_cast<const float*>(p[i]); }
float* output(void* const* p, int i) { return static_cast<float*>(p[i]); }

// The lower cell and the weight of the upper one for each position of an axis. `step` is the distance of two positions.
void positions(float step, int64_t to, std::vector<int64_t>& cells, std::vector<float>& parts) {
    for (int64_t i = 0; i < to; ++i) {
        const float at = float(i) * step;
        cells[i] = int64_t(at);
        parts[i] = at - float(cells[i]);
    }
}

// Bilinear interpolation of each channel: all columns first, then all rows.
void interpolate(void* const* p, const int64_t* n, float row_step, float column_step) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    const int64_t h = n[2], w = n[3], height = n[6], width = n[7];
    std::vector<int64_t> rows(height), columns(width);
    std::vector<float> below(height), right(width), wide(h * width);
    positions(row_step, height, rows, below);
    positions(column_step, width, columns, right);
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

float logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// A bilinear sample: the indices of four elements, and their weights.
struct Sample {
    int64_t at[4];
    float weight[4];
};

}  // namespace

extern "C" {

void hand_Chain(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) y[i] = std::max(x[i] * 2.0f + 1.0f, 0.0f) * x[i] - 3.0f;
}

void hand_Logistic(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    float* y = output(p, 1);
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) y[i] = logistic(x[i]);
}

void hand_Interp(void* const* p, const int64_t* n) {
    interpolate(p, n, float(n[2] - 1) / float(n[6] - 1), float(n[3] - 1) / float(n[7] - 1));
}

void hand_ResizeBilinear(void* const* p, const int64_t* n) {
    interpolate(p, n, float(n[2]) / float(n[6]), float(n[3]) / float(n[7]));
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

void hand_Yolo(void* const* p, const int64_t* n) {
    const float* x = input(p, 0);
    const int64_t boxes = 3, values = n[1] / boxes, area = n[2] * n[3];
    for (int64_t image = 0; image < n[0]; ++image) {
        float* place = output(p, 1) + image * 4 * boxes * area;
        float* chance = output(p, 2) + image * boxes * area;
        float* classes = output(p, 3) + image * (values - 5) * boxes * area;
        for (int64_t box = 0; box < boxes; ++box) {
            for (int64_t value = 0; value < values; ++value, x += area) {
                if (value == 2 || value == 3) {
                    std::memcpy(place + ((5 - value) * boxes + box) * area, x, std::size_t(area) * sizeof(float));
                    continue;
                }
                float* y = value < 2 ? place + (value * boxes + box) * area
                                     : value == 4 ? chance + box * area : classes + ((value - 5) * boxes + box) * area;
                for (int64_t i = 0; i < area; ++i) y[i] = logistic(x[i]);
            }
        }
    }
}

void hand_SpatialTransformer(void* const* p, const int64_t* n) {
    const int64_t h = n[2], w = n[3], rows = n[8], columns = n[9];
    std::vector<Sample> samples(rows * columns);
    float* y = output(p, 2);
    for (int64_t image = 0; image < n[0]; ++image) {
        const float* t = input(p, 1) + image * 6;
        for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
                const float a = float(i) * (2.0f / float(rows)) - 1.0f, b = float(j) * (2.0f / float(columns)) - 1.0f;
                const float row = (t[0] * a + t[1] * b + t[2] + 1.0f) * (float(h) / 2.0f);
                const float column = (t[3] * a + t[4] * b + t[5] + 1.0f) * (float(w) / 2.0f);
                for (int k = 0; k < 4; ++k) {
                    const float r = std::floor(row) + float(k / 2), c = std::floor(column) + float(k % 2);
                    const bool inside = r >= 0 && r < float(h) && c >= 0 && c < float(w);
                    Sample& sample = samples[i * columns + j];
                    sample.at[k] = inside ? int64_t(r) * w + int64_t(c) : 0;
                    sample.weight[k] = inside ? (1.0f - std::abs(row - r)) * (1.0f - std::abs(column - c)) : 0.0f;
                }
            }
        }
        for (int64_t c = 0; c < n[1]; ++c) {
            const float* x = input(p, 0) + (image * n[1] + c) * h * w;
            for (const Sample& sample : samples) {
                float sum = 0;
                for (int k = 0; k < 4; ++k) sum += x[sample.at[k]] * sample.weight[k];
                *y++ = sum;
            }
        }
    }
}

void hand_ROIAlign(void* const* p, const int64_t* n) {
    const int64_t channels = n[1], h = n[2], w = n[3], height = n[8], width = n[9], grid = 2;
    const float scale = 0.25f;
    std::vector<int64_t> rows(height * grid), columns(width * grid);
    std::vector<float> below(height * grid), right(width * grid), in_row(height * grid), in_column(width * grid);
    std::vector<Sample> samples(height * width * grid * grid);
    float* y = output(p, 2);
    for (int64_t k = 0; k < n[4]; ++k) {
        const float* roi = input(p, 1) + k * 5;
        const auto axis = [&](float start, float end, int64_t size, std::vector<int64_t>& cells,
                              std::vector<float>& parts, std::vector<float>& inside) {
            const float length = std::max(end - start, 1.0f);
            for (std::size_t i = 0; i < cells.size(); ++i) {
                const float at = start + (float(i) + 0.5f) / float(cells.size()) * length;
                const float near = std::min(std::max(at, 0.0f), float(size - 1));
                inside[i] = at >= -1.0f && at <= float(size) ? 1.0f : 0.0f;
                cells[i] = int64_t(near);
                parts[i] = near - float(cells[i]);
            }
        };
        axis(roi[2] * scale, roi[4] * scale, h, rows, below, in_row);
        axis(roi[1] * scale, roi[3] * scale, w, columns, right, in_column);
        Sample* next = samples.data();
        for (int64_t bin = 0; bin < height * width; ++bin) {
            for (int64_t part = 0; part < grid * grid; ++part, ++next) {
                const int64_t i = bin / width * grid + part / grid, j = bin % width * grid + part % grid;
                const float weight = in_row[i] * in_column[j] / float(grid * grid);
                for (int corner = 0; corner < 4; ++corner) {
                    const bool low = corner / 2, wide = corner % 2;
                    const int64_t row = std::min(rows[i] + low, h - 1), column = std::min(columns[j] + wide, w - 1);
                    next->at[corner] = row * w + column;
                    next->weight[corner] = weight * (low ? below[i] : 1.0f - below[i]) *
                                           (wide ? right[j] : 1.0f - right[j]);
                }
            }
        }
        for (int64_t c = 0; c < channels; ++c) {
            const float* x = input(p, 0) + (int64_t(roi[0]) * channels + c) * h * w;
            const Sample* sample = samples.data();
            for (int64_t bin = 0; bin < height * width; ++bin) {
                float sum = 0;
                for (int64_t part = 0; part < grid * grid; ++part, ++sample) {
                    for (int corner = 0; corner < 4; ++corner) sum += x[sample->at[corner]] * sample->weight[corner];
                }
                *y++ = sum;
            }
        }
    }
}

}  // extern "C"
