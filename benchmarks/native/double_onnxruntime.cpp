// Double as a custom operator of ONNX Runtime, written by hand: the kernel of examples/native/double.cpp.
#include <anylayer/detail/onnxruntime_api.hpp>

#include <vector>

namespace {

using namespace onnxruntime_api;

Status twice(void*, void* context) {
  void *x = nullptr, *y = nullptr, *type = nullptr, *from = nullptr, *to = nullptr;
  std::size_t rank = 0, count = 1;
  call(kInput, static_cast<const void*>(context), std::size_t{0}, &x);
  call(kTypeAndShape, static_cast<const void*>(x), &type);
  call(kRank, static_cast<const void*>(type), &rank);
  std::vector<int64_t> sizes(rank);
  call(kSizes, static_cast<const void*>(type), sizes.data(), rank);
  reinterpret_cast<void (*)(void*)>(table[kReleaseTypeAndShape])(type);
  call(kOutput, context, std::size_t{0}, static_cast<const int64_t*>(sizes.data()), rank, &y);
  call(kMutableData, x, &from);
  call(kMutableData, y, &to);
  for (const int64_t size : sizes) count *= static_cast<std::size_t>(size);
  for (std::size_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = static_cast<const float*>(from)[i] * 2;
  return nullptr;
}

struct Double : Operator {
  Double() {
    name = [](const Operator*) { return "Double"; };
    input_type = output_type = [](const Operator*, std::size_t) { return 1; };
    inputs = outputs = [](const Operator*) { return std::size_t{1}; };
    create2 = [](const Operator*, Table, const void*, void** kernel) -> Status {
      *kernel = nullptr;
      return nullptr;
    };
    compute2 = twice;
  }
};

const Double made;

}  // namespace

extern "C" __attribute__((visibility("default"))) void* RegisterCustomOps(void* options, const void* base) {
  const Operator* const one = &made;
  return add(options, static_cast<const Base*>(base), "hand", &one, 1);
}
