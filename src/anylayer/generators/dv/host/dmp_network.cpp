// Computes the layers of a generated network on a PC: values are stored as 16-bit floats, and summed in
// double precision, so that the order of sums does not change the 16-bit results.
#include "dmp_network.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace {

struct Map {  // channels, rows, columns
  int w, h, c;
  std::vector<double> values;
  Map(int width, int height, int channels) : w(width), h(height), c(channels), values(size_t(w) * h * c) {}
  double& at(int x, int y, int z) { return values[(size_t(z) * h + y) * w + x]; }
  double at(int x, int y, int z) const { return values[(size_t(z) * h + y) * w + x]; }
};

const uint16_t* halves(const uint8_t* memory, uint64_t offs) {
  return reinterpret_cast<const uint16_t*>(memory + offs);
}

Map load(const uint8_t* io, uint64_t offs, int w, int h, int c) {
  Map map(w, h, c);
  const uint16_t* from = halves(io, offs);
  for (int z = 0; z < c; ++z)
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) map.at(x, y, z) = half_to_float(from[hw_offset(x, y, z, w, h, c)]);
  return map;
}

void store(uint8_t* io, uint64_t offs, const Map& map) {
  uint16_t* to = reinterpret_cast<uint16_t*>(io + offs);
  for (int z = 0; z < map.c; ++z)
    for (int y = 0; y < map.h; ++y)
      for (int x = 0; x < map.w; ++x)
        to[hw_offset(x, y, z, map.w, map.h, map.c)] = float_to_half(map.at(x, y, z));
}

// Packed weights of a convolution: blocks of 12 x 6 values, whose arrangement depends on the kernel's size.
// The values are 16-bit floats, or indices of 8 bits into a table that precedes the blocks.
struct Weights {
  const uint8_t* data;
  int channels, outputs, size;  // `size` is the larger side of the kernel, made odd
  bool prelu;
  const uint16_t* table;  // NULL for 16-bit floats

  size_t bytes() const { return table ? 1 : 2; }
  int group() const { return size == 1 ? 64 : 8; }
  int blocks(int count) const { return size == 7 ? count : size == 5 ? (count + 1) / 2 : 1; }
  size_t per_output() const {
    const int full = channels / group(), rest = channels % group();
    return size_t(full) * blocks(group()) + (rest ? blocks(rest) : 0);
  }
  size_t fixed() const { return prelu ? 32 : 16; }  // the bytes of the biases and slopes of eight outputs
  size_t head(int m) const { return size_t(m / 8) * (fixed() + 8 * 72 * per_output() * bytes()); }
  float bias(int m) const { return half_to_float(halves(data, head(m))[m % 8]); }
  float slope(int m) const { return half_to_float(halves(data, head(m) + 16)[m % 8]); }
  size_t total() const {
    return size_t((outputs + 7) / 8) * fixed() + size_t(outputs) * 72 * per_output() * bytes();
  }
  float at(int m, int c, int y, int x) const {
    const int g = c / group(), in = c % group(), count = std::min(group(), channels - g * group());
    const int outputs_here = std::min(8, outputs - m / 8 * 8);
    const int within = size == 7 ? in : size == 5 ? in / 2 : 0;
    const size_t block = size_t(g) * blocks(group()) * outputs_here + size_t(m % 8) * blocks(count) + within;
    int row, column;
    if (size == 7) {
      row = x < 6 ? 5 + y : y == 0 ? 2 : (y - 1) % 3;
      column = x < 6 ? x : y == 0 ? 5 : y < 4 ? 3 : 0;
    } else if (size == 5) {
      row = 7 - in % 2 * 6 + y;
      column = x;
    } else if (size == 3) {
      row = 9 - in / 2 * 3 + y;
      column = in % 2 * 3 + x;
    } else {
      row = 11 - in % 8 / 2 * 3 - in / 8 / 3;
      column = in % 2 * 3 + in / 8 % 3;
    }
    const uint8_t* value = data + head(m) + fixed() + (block * 72 + row * 6 + column) * bytes();
    return half_to_float(table ? table[*value] : *halves(value, 0));
  }
};

int low(uint32_t word) { return word & 0xff; }
int high(uint32_t word) { return word >> 8 & 0xff; }

double activated(double v, const dmp_dv_cmdraw_conv_v0_run& run, double slope) {
  switch (run.actfunc) {
    case 1: return std::tanh(v);
    case 2: return v < 0 ? v * half_to_float(run.actfunc_param) : v;
    case 3: return 1 / (1 + std::exp(-v));
    case 4: return v < 0 ? v * slope : v;
    case 5: return v < 0 ? std::exp(v) - 1 : v;
    case 6: return std::min(std::max(v, 0.0), 6.0);
    default: return v;
  }
}

Map spread(const Map& in, int sx, int sy) {  // zeros between the pixels, for a transposed convolution
  Map out((in.w - 1) * sx + 1, (in.h - 1) * sy + 1, in.c);
  for (int c = 0; c < in.c; ++c)
    for (int y = 0; y < in.h; ++y)
      for (int x = 0; x < in.w; ++x) out.at(x * sx, y * sy, c) = in.at(x, y, c);
  return out;
}

Map convolved(const Map& map, const dmp_dv_cmdraw_conv_v0_run& run, const uint8_t* memory) {
  const int kx = low(run.p), ky = high(run.p) ? high(run.p) : kx;
  const bool dilated = run.conv_dilation != 0, depthwise = run.conv_enable & 2, transposed = run.conv_enable & 4;
  const int dx = dilated ? low(run.conv_dilation) : 1, dy = dilated ? high(run.conv_dilation) : 1;
  const Map in = transposed ? spread(map, low(run.conv_stride), high(run.conv_stride)) : map;
  const int sx = transposed ? 1 : low(run.conv_stride), sy = transposed ? 1 : high(run.conv_stride);
  const int left = low(run.conv_pad), right = low(run.conv_pad >> 8);
  const int top = low(run.conv_pad >> 16), bottom = low(run.conv_pad >> 24);
  const int w = (in.w + left + right - (kx - 1) * dx - 1) / sx + 1;
  const int h = (in.h + top + bottom - (ky - 1) * dy - 1) / sy + 1;
  const int side = std::max(kx, ky) | 1, channels = depthwise ? 1 : in.c;
  const bool indexed = run.weight_fmt == 3;
  const uint8_t* start = memory + run.weight_buf.offs;
  Weights packed = {start + (indexed ? 512 : 0), channels, run.m, dilated ? 1 : side, run.actfunc == 4,
                    indexed ? halves(start, 0) : nullptr};
  const size_t tap = (packed.total() + 15) / 16 * 16;
  Weights last = packed;  // a dilated kernel has one set of weights per tap; the last one has the bias
  if (dilated) last.data += tap * (size_t(kx) * ky - 1);
  Map out(w, h, run.m);
  for (int m = 0; m < run.m; ++m) {
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) out.at(x, y, m) = last.bias(m);
    for (int c = 0; c < channels; ++c)
      for (int j = 0; j < ky; ++j)
        for (int i = 0; i < kx; ++i) {
          Weights here = packed;
          if (dilated) here.data += tap * (size_t(j) * kx + i);
          const double weight = dilated ? here.at(m, c, 0, 0) : here.at(m, c, j + side - ky, i);
          if (weight == 0) continue;
          for (int y = 0; y < h; ++y) {
            const int from = y * sy - top + j * dy;
            if (from < 0 || from >= in.h) continue;
            for (int x = 0; x < w; ++x) {
              const int column = x * sx - left + i * dx;
              if (column >= 0 && column < in.w)
                out.at(x, y, m) += weight * in.at(column, from, depthwise ? m : c);
            }
          }
        }
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x)
        out.at(x, y, m) = activated(out.at(x, y, m), run, packed.prelu ? last.slope(m) : 0);
  }
  return out;
}

Map pooled(const Map& in, const dmp_dv_cmdraw_conv_v0_run& run) {
  const int kx = low(run.pool_size), ky = high(run.pool_size);
  if (run.pool_enable == 4) {  // each pixel becomes a block of pixels
    Map out(in.w * kx, in.h * ky, in.c);
    for (int c = 0; c < out.c; ++c)
      for (int y = 0; y < out.h; ++y)
        for (int x = 0; x < out.w; ++x) out.at(x, y, c) = in.at(x / kx, y / ky, c);
    return out;
  }
  const int sx = low(run.pool_stride), sy = high(run.pool_stride);
  const int left = low(run.pool_pad), right = low(run.pool_pad >> 8);
  const int top = low(run.pool_pad >> 16), bottom = low(run.pool_pad >> 24);
  Map out((in.w + left + right - kx) / sx + 1, (in.h + top + bottom - ky) / sy + 1, in.c);
  const bool average = run.pool_enable == 2;
  for (int c = 0; c < out.c; ++c)
    for (int y = 0; y < out.h; ++y)
      for (int x = 0; x < out.w; ++x) {
        double found = average ? 0 : -std::numeric_limits<double>::infinity();
        for (int j = std::max(0, y * sy - top); j < std::min(in.h, y * sy - top + ky); ++j)
          for (int i = std::max(0, x * sx - left); i < std::min(in.w, x * sx - left + kx); ++i)
            found = average ? found + in.at(i, j, c) : std::max(found, in.at(i, j, c));
        out.at(x, y, c) = average ? found * half_to_float(run.pool_avg_param) : found;
      }
  return out;
}

// LRN over 5 channels with the alpha and beta of AlexNet and GoogLeNet, which the hardware has no others of.
Map normalized(const Map& in) {
  Map out(in.w, in.h, in.c);
  for (int c = 0; c < in.c; ++c)
    for (int y = 0; y < in.h; ++y)
      for (int x = 0; x < in.w; ++x) {
        double sum = 0;
        for (int i = std::max(0, c - 2); i <= std::min(in.c - 1, c + 2); ++i) sum += in.at(x, y, i) * in.at(x, y, i);
        const double root = std::sqrt(1 + 1e-4 / 5 * sum);
        out.at(x, y, c) = in.at(x, y, c) / (root * std::sqrt(root));
      }
  return out;
}

int count(const int* dim, int size) {
  int n = 1;
  for (int i = 0; i < size; ++i) n *= dim[i];
  return n;
}

#ifdef DMP_TWO_ARGUMENTS
uint8_t* io_of_running_network = nullptr;
#endif

}  // namespace

float half_to_float(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = half & 0x8000 ? -1.f : 1.f;
  if (exponent == 31) return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.f + fraction, exponent - 25) : std::ldexp(float(fraction), -24));
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = bits >> 16 & 0x8000;
  if (value != value) return sign | 0x7e00;
  const float size = std::fabs(value);
  if (size >= 65520.f) return sign | 0x7c00;
  if (size < std::ldexp(1.f, -24) / 2) return sign;
  const int exponent = std::max(std::ilogb(size), -14);
  const int fraction = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // 1024 and more: normal
  return sign + static_cast<uint16_t>(((exponent + 14) << 10) + fraction);
}

size_t hw_offset(int x, int y, int c, int w, int h, int channels) {
  const int first = c / 8 * 8, group = std::min(8, channels - first);
  return size_t(first) * w * h + (size_t(x) * h + y) * group + (c - first);
}

bool CDMP_Network::ReserveMemory(size_t weights_size, size_t io_size) {
  weights_.assign(weights_size, 0);
  io_.assign(io_size, 0xff);  // not a number, until a layer writes
  io_ptr_ = io_.data();
  return true;
}

bool CDMP_Network::LoadWeights(const std::string& filename) {
  std::ifstream file(filename, std::ios::binary);
  file.read(reinterpret_cast<char*>(weights_.data()), weights_.size());
  return bool(file) && file.peek() == std::ifstream::traits_type::eof();
}

void* CDMP_Network::get_network_input_addr_cpu() { return io_ptr_; }

bool CDMP_Network::RunNetwork() {
#ifdef DMP_TWO_ARGUMENTS
  io_of_running_network = io_ptr_;
#endif
  for (fpga_layer& layer : layers_) switch (layer.type) {
      case LT_CONV: run_conv(layer); break;
      case LT_FC: run_fc(layer); break;
      case LT_CONCAT: break;  // the inputs lie in its buffer
      case LT_COPY_CONCAT: run_copy_concat(layer); break;
      case LT_SOFTMAX: run_softmax(layer); break;
#ifdef DMP_TWO_ARGUMENTS
      case LT_CUSTOM: layer.custom_proc_ptr(layer, layer.custom_param); break;
#else
      case LT_CUSTOM: layer.custom_proc_ptr(layer, layer.custom_param, io_ptr_); break;
#endif
      default: return false;
    }
  return true;
}

void CDMP_Network::run_conv(const fpga_layer& layer) {
  const dmp_dv_cmdraw_conv_v0& conf = layer.conv_conf;
  const Map input = load(io_ptr_, conf.input_buf.offs, conf.w, conf.h, conf.c);
  Map map = input;
  uint64_t offs = conf.output_buf.offs;
  const dmp_dv_cmdraw_conv_v0_run* run = conf.run;
  for (uint32_t topo = conf.topo; topo; topo >>= 1, ++run) {
    if (run->conv_enable) map = convolved(map, *run, weights_.data());
    if (conf.output_mode == 1) {
      const Map other = load(io_ptr_, conf.eltwise_buf.offs, conf.w, conf.h, conf.c);
      for (size_t i = 0; i < map.values.size(); ++i)
        map.values[i] = activated(map.values[i] + other.values[i], *run, 0);
    } else if (run->lrn & 1) {
      map = normalized(map);
    } else if (run->pool_enable) {
      map = pooled(map, *run);
    }
    if (topo & 1) {  // the result goes to the output, and the next run reads the input again
      store(io_ptr_, offs, map);
      offs += map.values.size() * 2;
      map = input;
    } else {  // the next run reads the result, which is stored as 16-bit floats
      for (double& v : map.values) v = half_to_float(float_to_half(v));
    }
  }
}

void CDMP_Network::run_fc(const fpga_layer& layer) {
  const dmp_dv_cmdraw_fc_v0& conf = layer.fc_conf;
  const uint16_t* in = halves(io_ptr_, conf.input_buf.offs);
  const uint8_t* start = weights_.data() + conf.weight_buf.offs;
  const bool indexed = conf.weight_fmt == 1;  // a table of 256 numbers, and indices of 8 bits
  const uint16_t *table = halves(start, 0), *weights = table;
  const uint8_t* index = start + 512;
  const size_t size = size_t(conf.input_size) * conf.output_size;
  const uint16_t* bias = halves(start, indexed ? 512 + (size + 15) / 16 * 16 : (size * 2 + 15) / 16 * 16);
  uint16_t* out = reinterpret_cast<uint16_t*>(io_ptr_ + conf.output_buf.offs);
  for (int m = 0; m < conf.output_size; ++m) {
    double sum = half_to_float(bias[m]);
    for (int i = 0; i < conf.input_size; ++i) {
      const size_t at = size_t(m) * conf.input_size + i;
      sum += double(half_to_float(indexed ? table[index[at]] : weights[at])) * half_to_float(in[i]);
    }
    if (conf.actfunc == 1) sum = std::max(sum, 0.0);
    if (conf.actfunc == 2) sum = std::tanh(sum);
    if (conf.actfunc == 3) sum = sum < 0 ? sum * half_to_float(conf.actfunc_param) : sum;
    if (conf.actfunc == 4) sum = 1 / (1 + std::exp(-sum));
    out[m] = float_to_half(sum);
  }
}

void CDMP_Network::run_copy_concat(const fpga_layer& layer) {
  const int w = layer.output_dim[0], h = layer.output_dim[1];
  Map out(w, h, layer.output_dim[2]);
  auto to = out.values.begin();
  for (int i = 0; i < layer.input_layer_num; ++i) {
    const fpga_layer& from = *layer.input_layers[i];
    const Map part = load(io_ptr_, from.output_offs, w, h, from.output_dim[2]);
    to = std::copy(part.values.begin(), part.values.end(), to);
  }
  store(io_ptr_, layer.output_offs, out);
}

void CDMP_Network::run_softmax(const fpga_layer& layer) {
  const int n = count(layer.input_dim, layer.input_dim_size), c = layer.input_dim[layer.input_dim_size - 1];
  std::vector<float> values(n);
  const uint16_t* in = halves(io_ptr_, layer.input_offs);
  for (int i = 0; i < n; ++i) {
    const int pixel = i / c, w = layer.input_dim[0], h = layer.input_dim[1];
    values[i] = half_to_float(
        in[layer.is_input_hw_layout ? hw_offset(pixel % w, pixel / w, i % c, w, h, c) : size_t(i)]);
  }
  for (int start = 0; start < n; start += c) {
    const auto row = values.begin() + start;
    const float top = *std::max_element(row, row + c);
    float sum = 0;
    for (auto v = row; v != row + c; ++v) sum += *v = std::exp(*v - top);
    for (auto v = row; v != row + c; ++v) *v /= sum;
  }
  std::memcpy(io_ptr_ + layer.output_offs, values.data(), size_t(n) * 4);
}

void CDMP_Network::get_final_output(std::vector<float>& output, int i_output) {
  const fpga_layer& layer = *output_layers_[i_output];
  const uint8_t* from = io_ptr_ + layer.output_offs;
  output.resize(count(layer.output_dim, layer.output_dim_size));
  if (layer.is_f32_output) {
    std::memcpy(output.data(), from, output.size() * 4);
    return;
  }
  if (layer.output_dim_size < 3) {
    for (size_t i = 0; i < output.size(); ++i) output[i] = half_to_float(halves(from, 0)[i]);
    return;
  }
  const int w = layer.output_dim[0], h = layer.output_dim[1], c = layer.output_dim[2];
  const Map map = load(io_ptr_, layer.output_offs, w, h, c);
  for (int x = 0; x < w; ++x)
    for (int y = 0; y < h; ++y)
      for (int z = 0; z < c; ++z) output[(size_t(x) * h + y) * c + z] = map.at(x, y, z);
}

#ifdef DMP_TWO_ARGUMENTS
uint8_t* current_io_ptr() { return io_of_running_network; }
void get_layer_input(fpga_layer& layer, std::vector<float>& layer_input) {
  uint8_t* io_ptr = io_of_running_network;
#else
void get_layer_input(fpga_layer& layer, std::vector<float>& layer_input, uint8_t* io_ptr) {
#endif
  const int n = count(layer.input_dim, layer.input_dim_size);
  const int w = layer.input_dim[0], h = layer.input_dim[1], c = layer.input_dim[2];
  const uint16_t* in = halves(io_ptr, layer.input_offs);
  layer_input.resize(n);
  for (int i = 0; i < n; ++i)
    layer_input[i] = half_to_float(
        in[layer.is_input_hw_layout ? hw_offset(i / c % w, i / c / w, i % c, w, h, c) : size_t(i)]);
}

#ifdef DMP_TWO_ARGUMENTS
void put_layer_output(fpga_layer& layer, std::vector<float>& layer_output, bool is_output_hw_layout) {
  uint8_t* io_ptr = io_of_running_network;
#else
void put_layer_output(fpga_layer& layer, std::vector<float>& layer_output, uint8_t* io_ptr,
                      bool is_output_hw_layout) {
#endif
  if (!is_output_hw_layout) {
    std::memcpy(io_ptr + layer.output_offs, layer_output.data(), layer.output_size);
    return;
  }
  uint16_t* out = reinterpret_cast<uint16_t*>(io_ptr + layer.output_offs);
  const int n = count(layer.output_dim, layer.output_dim_size);
  const int w = layer.output_dim[0], h = layer.output_dim[1], c = layer.output_dim[2];
  for (int i = 0; i < n; ++i)
    out[layer.output_dim_size < 3 ? size_t(i) : hw_offset(i / c % w, i / c / w, i % c, w, h, c)] =
        float_to_half(layer_output[i]);
}
