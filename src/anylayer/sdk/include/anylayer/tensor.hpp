// Error, Tensor and Tensors: what a layer in C++ is given.
#ifndef ANYLAYER_TENSOR_HPP
#define ANYLAYER_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "abi.h"

// All of the SDK is compiled into each library and hidden in it, so that libraries never share its state.
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {

// An error of a layer: throw anylayer::Error() << "expected 2 inputs, got " << count;
class Error : public std::exception {
 public:
  Error() = default;
  explicit Error(std::string text) : text_(std::move(text)) {}

  template <typename T>
  Error& operator<<(const T& value) {
    std::ostringstream stream;
    stream << value;
    text_ += stream.str();
    return *this;
  }

  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

namespace detail {

[[noreturn]] inline void assertion(const char* condition, const char* file, int line) {
  const char* name = file;
  for (const char* at = file; *at; ++at)
    if (*at == '/' || *at == '\\') name = at + 1;
  throw Error() << name << ":" << line << ": the assertion '" << condition << "' does not hold";
}

}  // namespace detail

// Throws an error that names the condition, the file and the line, unless the condition holds.
#define ANYLAYER_ASSERT(condition)                                                    \
  do {                                                                                \
    if (!(condition)) ::anylayer::detail::assertion(#condition, __FILE__, __LINE__); \
  } while (false)

// ANYLAYER_THROW << "expected 2 inputs, got " << count;
#define ANYLAYER_THROW throw ::anylayer::Error()

enum class DataType : int32_t {
  any = ANYLAYER_ANY_TYPE,
  float32 = ANYLAYER_FLOAT32,
  uint8 = ANYLAYER_UINT8,
  int8 = ANYLAYER_INT8,
  uint16 = ANYLAYER_UINT16,
  int16 = ANYLAYER_INT16,
  int32 = ANYLAYER_INT32,
  int64 = ANYLAYER_INT64,
  boolean = ANYLAYER_BOOL,
  float16 = ANYLAYER_FLOAT16,
  float64 = ANYLAYER_FLOAT64,
  uint32 = ANYLAYER_UINT32,
  uint64 = ANYLAYER_UINT64,
};

// The order of axes of arrays of rank 4. `any` takes what the network has. `blocked` is refused.
enum class Layout : int32_t {
  any = ANYLAYER_ANY_LAYOUT,
  nchw = ANYLAYER_NCHW,
  nhwc = ANYLAYER_NHWC,
  blocked = ANYLAYER_BLOCKED,
};

inline const char* name_of(DataType type) {
  switch (type) {
    case DataType::float32: return "float32";
    case DataType::uint8: return "uint8";
    case DataType::int8: return "int8";
    case DataType::uint16: return "uint16";
    case DataType::int16: return "int16";
    case DataType::int32: return "int32";
    case DataType::int64: return "int64";
    case DataType::boolean: return "bool";
    case DataType::float16: return "float16";
    case DataType::float64: return "float64";
    case DataType::uint32: return "uint32";
    case DataType::uint64: return "uint64";
    default: return "any type";
  }
}

// The size of an element in bytes.
inline std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64:
    case DataType::uint64: return 8;
    case DataType::float32:
    case DataType::int32:
    case DataType::uint32: return 4;
    case DataType::float16:
    case DataType::int16:
    case DataType::uint16: return 2;
    default: return 1;
  }
}

inline bool is_float(DataType type) {
  return type == DataType::float32 || type == DataType::float16 || type == DataType::float64;
}

// The type of an element that T reads; `any` for a type that only the author can know (a half, a struct).
template <typename T>
constexpr DataType type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DataType::float32;
  else if constexpr (std::is_same_v<U, double>) return DataType::float64;
  else if constexpr (std::is_same_v<U, bool>) return DataType::boolean;
  else if constexpr (!std::is_integral_v<U>) return DataType::any;
  else if constexpr (sizeof(U) == 1) return std::is_signed_v<U> ? DataType::int8 : DataType::uint8;
  else if constexpr (sizeof(U) == 2) return std::is_signed_v<U> ? DataType::int16 : DataType::uint16;
  else if constexpr (sizeof(U) == 4) return std::is_signed_v<U> ? DataType::int32 : DataType::uint32;
  else return std::is_signed_v<U> ? DataType::int64 : DataType::uint64;
}

// The sizes of an array; tensor.size[2] is the third.
struct Sizes {
  int p[ANYLAYER_MAX_RANK] = {};

  const int& operator[](int axis) const { return p[axis]; }
  operator const int*() const { return p; }
};

// An array: contiguous, the last axis varies fastest. It does not own its elements.
class Tensor {
 public:
  int dims = 0;
  Sizes size;
  unsigned char* data = nullptr;

  Tensor() = default;

  explicit Tensor(const anylayer_tensor& given)
      : dims(given.rank < 0 ? 0 : given.rank),
        data(static_cast<unsigned char*>(given.data)),
        type_(static_cast<DataType>(given.dtype)),
        layout_(static_cast<Layout>(given.layout)),
        absent_(given.rank < 0),
        name_(given.name ? given.name : "") {
    for (int i = 0; i < dims; ++i) {
      if (given.sizes[i] > std::numeric_limits<int>::max()) throw Error() << "a size does not fit into an int";
      size.p[i] = static_cast<int>(given.sizes[i]);
    }
  }

  // A view of elements that somebody else owns.
  Tensor(DataType type, const std::vector<int>& shape, void* elements)
      : dims(static_cast<int>(shape.size())), data(static_cast<unsigned char*>(elements)), type_(type) {
    if (dims > ANYLAYER_MAX_RANK) throw Error() << "a tensor has at most " << ANYLAYER_MAX_RANK << " axes";
    for (int i = 0; i < dims; ++i) size.p[i] = shape[i];
  }

  DataType dtype() const { return type_; }
  Layout layout() const { return layout_; }
  const std::string& name() const { return name_; }  // of a blob, where the file names it
  bool absent() const { return absent_; }            // an optional input that is left out
  bool empty() const { return absent_ || total() == 0; }
  std::vector<int> shape() const { return std::vector<int>(size.p, size.p + dims); }

  // The number of elements.
  std::size_t total() const {
    std::size_t count = absent_ ? 0 : 1;
    for (int i = 0; i < dims; ++i) count *= static_cast<std::size_t>(size.p[i]);
    return count;
  }

  std::size_t elemSize() const { return size_of(type_); }

  // The elements as T. Throws where the tensor holds another type.
  template <typename T>
  T* ptr() const {
    constexpr DataType wanted = type_of<T>();
    if (wanted != DataType::any && wanted != type_)
      throw Error() << "the tensor holds " << name_of(type_) << ", not " << name_of(wanted);
    return reinterpret_cast<T*>(data);
  }

  // An element by its indices. A vector of n is read as (1, n), too: at<int>(0, i).
  template <typename T, typename... Index>
  T& at(Index... indices) const {
    const int at[] = {static_cast<int>(indices)...};
    const int count = sizeof...(indices);
    const int skip = count == 2 && dims == 1 && at[0] == 0 ? 1 : dims == 0 && count ? count : 0;
    if (count - skip != dims)
      throw Error() << "at() takes " << dims << " indices for this tensor, got " << count;
    std::size_t offset = 0;
    for (int i = skip; i < count; ++i) {
      if (at[i] < 0 || at[i] >= size.p[i - skip])
        throw Error() << "index " << at[i] << " is not in an axis of size " << size.p[i - skip];
      offset = offset * static_cast<std::size_t>(size.p[i - skip]) + static_cast<std::size_t>(at[i]);
    }
    return ptr<T>()[offset];
  }

  // The element type as OpenCV 3.4 numbers it (CV_32F is 5), where float16 is CV_16S; -1 for one it lacks.
  int depth() const {
    switch (type_) {
      case DataType::uint8:
      case DataType::boolean: return 0;
      case DataType::int8: return 1;
      case DataType::uint16: return 2;
      case DataType::int16:
      case DataType::float16: return 3;
      case DataType::int32: return 4;
      case DataType::float32: return 5;
      case DataType::float64: return 6;
      default: return -1;
    }
  }
  int type() const { return depth(); }

 private:
  DataType type_ = DataType::float32;
  Layout layout_ = Layout::any;
  bool absent_ = false;
  std::string name_;
};

// The inputs, outputs or internal arrays of a call.
class Tensors {
 public:
  Tensors() = default;
  explicit Tensors(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  Tensors(const anylayer_tensor* const* given, uint32_t count) {
    tensors_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) tensors_.emplace_back(*given[i]);
  }

  std::size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

  const Tensor& operator[](std::size_t index) const {
    if (index >= tensors_.size()) throw Error() << "there is no tensor " << index << ", there are " << tensors_.size();
    return tensors_[index];
  }

  void getMatVector(std::vector<Tensor>& to) const { to = tensors_; }
  int depth() const { return tensors_.empty() ? -1 : tensors_[0].depth(); }

 private:
  std::vector<Tensor> tensors_;
};

// Conversions of IEEE half precision, for code without a compiler's own type.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1fu) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent) {
    bits = sign | ((exponent + 112u) << 23) | (mantissa << 13);
  } else if (mantissa) {
    exponent = 113u;
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      --exponent;
    }
    bits = sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
  } else {
    bits = sign;
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to the nearest half, ties to even, as NumPy does.
inline uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | 0x7e00u;
  if (bits >= 0x47800000u) return sign | 0x7c00u;
  if (bits < 0x33000000u) return sign;
  uint32_t mantissa = bits & 0x7fffffu;
  const int exponent = static_cast<int>(bits >> 23) - 112;
  uint32_t shift = 13, result;
  if (exponent <= 0) {
    mantissa |= 0x800000u;
    shift = static_cast<uint32_t>(14 - exponent);
    result = mantissa >> shift;
  } else {
    result = (static_cast<uint32_t>(exponent) << 10) | (mantissa >> 13);
  }
  const uint32_t rest = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
  if (rest > tie || (rest == tie && (result & 1u))) ++result;
  return static_cast<uint16_t>(sign | result);
}

}  // namespace anylayer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
