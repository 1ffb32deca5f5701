// The loop that the three Interp layers share: bilinear interpolation whose corners keep their places. The arithmetic
// is that of examples/native/interp.cpp.
#ifndef INTERP_LOOP_HPP
#define INTERP_LOOP_HPP

#include <cstdint>
#include <vector>

namespace interp {

struct Column {
  int left, right;
  float weight;
};

// Each output column lies between two input columns.
inline std::vector<Column> columns(int from, int to) {
  std::vector<Column> found;
  const float scale = to > 1 ? static_cast<float>(from - 1) / (to - 1) : 0.f;
  for (int x = 0; x < to; ++x) {
    const float at = scale * x;
    const int left = static_cast<int>(at);
    found.push_back({left, left < from - 1 ? left + 1 : left, at - left});
  }
  return found;
}

// Rows begin to end of all planes of the output. A function of its own, at an address that is a multiple of 64: inlined
// into each host, the same instructions were 1.3 times slower where their place in the cache lines was an unlucky one.
__attribute__((noinline, aligned(64))) inline void rows(const float* from, float* to, int height, int width, int out_height,
                 const std::vector<Column>& columns, int64_t begin, int64_t end) {
  const int out_width = static_cast<int>(columns.size());
  const float scale = out_height > 1 ? static_cast<float>(height - 1) / (out_height - 1) : 0.f;
  for (int64_t row = begin; row < end; ++row) {
    const int y = static_cast<int>(row % out_height);
    const float at = scale * y;
    const int top = static_cast<int>(at);
    const float low = at - top, high = 1.f - low;
    const float* above = from + ((row / out_height) * height + top) * width;
    const float* below = top < height - 1 ? above + width : above;
    float* out = to + row * out_width;
    for (int x = 0; x < out_width; ++x) {
      const Column& c = columns[x];
      out[x] = high * ((1.f - c.weight) * above[c.left] + c.weight * above[c.right]) +
               low * ((1.f - c.weight) * below[c.left] + c.weight * below[c.right]);
    }
  }
}

}  // namespace interp

#endif
