// A layer of a library as a custom operator of ONNX Runtime: the node has the address of the layer's function and
// instance, so it holds in this process only.
//
// The wheel has no headers. The parts of the C interface that are used are declared here: its functions are a table
// whose order is frozen.
#include <anylayer/abi.h>

#include <cstddef>
#include <vector>

namespace {

using Status = void*;
using Table = void* const*;
struct Base {
  Table (*get)(uint32_t version);
};
enum Slot {
  kCreateStatus = 0,
  kCreateDomain = 26,
  kAddOp = 27,
  kAddDomain = 28,
  kMutableData = 51,
  kAttribute = 86,
  kInputCount = 88,
  kInput = 90,
  kOutput = 91,
  kAttributes = 163
};

Table api;

template <typename... Given>
Status call(Slot slot, Given... given) {
  return reinterpret_cast<Status (*)(Given...)>(api[slot])(given...);
}

struct Kernel {
  int64_t forward = 0, instance = 0;
  std::vector<int64_t> sizes;
  std::vector<anylayer_tensor> tensors;
  std::vector<const anylayer_tensor*> given;

  explicit Kernel(const void* info) {
    call(kAttribute, info, "forward", &forward);
    call(kAttribute, info, "instance", &instance);
    size_t count = 0;
    call(kAttributes, info, "sizes", static_cast<int64_t*>(nullptr), &count);
    sizes.resize(count);
    call(kAttributes, info, "sizes", sizes.data(), &count);
  }

  // The measured layer has inputs of its output's shape.
  Status compute(void* context) {
    size_t count = 0;
    call(kInputCount, static_cast<const void*>(context), &count);
    if (tensors.empty()) {
      tensors.assign(count + 1, {sizeof(anylayer_tensor), ANYLAYER_FLOAT32, static_cast<int32_t>(sizes.size()),
                                 ANYLAYER_NCHW, sizes.data(), nullptr, ""});
      for (size_t i = 0; i < count; ++i) given.push_back(&tensors[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      void* value = nullptr;
      call(kInput, static_cast<const void*>(context), i, &value);
      call(kMutableData, value, &tensors[i].data);
    }
    void* value = nullptr;
    call(kOutput, context, size_t{0}, static_cast<const int64_t*>(sizes.data()), sizes.size(), &value);
    call(kMutableData, value, &tensors.back().data);
    const anylayer_tensor* made = &tensors.back();
    const anylayer_call arrays{sizeof(anylayer_call), 1, static_cast<uint32_t>(count), 1, 0, 0, given.data(), &made,
                               nullptr};
    char text[256] = "";
    anylayer_message message{sizeof(anylayer_message), sizeof(text), text};
    const auto function = reinterpret_cast<decltype(anylayer_type::forward)>(forward);
    if (function(reinterpret_cast<void*>(instance), &arrays, &message) == ANYLAYER_OK) return nullptr;
    return call(kCreateStatus, 1, static_cast<const char*>(text));
  }
};

constexpr int kFloat = 1, kVariadic = 2;

// OrtCustomOp of version 16, which has the functions that return a status.
struct Operator {
  uint32_t version = 16;
  void* (*create)(const Operator*, Table, const void*) = nullptr;
  const char* (*name)(const Operator*) = [](const Operator*) { return "Wrapped"; };
  const char* (*provider)(const Operator*) = [](const Operator*) -> const char* { return nullptr; };
  int (*input_type)(const Operator*, size_t) = [](const Operator*, size_t) { return kFloat; };
  size_t (*inputs)(const Operator*) = [](const Operator*) { return size_t{1}; };
  int (*output_type)(const Operator*, size_t) = [](const Operator*, size_t) { return kFloat; };
  size_t (*outputs)(const Operator*) = [](const Operator*) { return size_t{1}; };
  void (*compute)(void*, void*) = nullptr;
  void (*destroy)(void*) = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  int (*input_kind)(const Operator*, size_t) = [](const Operator*, size_t) { return kVariadic; };
  int (*output_kind)(const Operator*, size_t) = [](const Operator*, size_t) { return 0; };
  int (*input_memory)(const Operator*, size_t) = [](const Operator*, size_t) { return 0; };
  int (*input_least)(const Operator*) = [](const Operator*) { return 1; };
  int (*input_same)(const Operator*) = [](const Operator*) { return 1; };
  int (*output_least)(const Operator*) = [](const Operator*) { return 1; };
  int (*output_same)(const Operator*) = [](const Operator*) { return 1; };
  Status (*create2)(const Operator*, Table, const void*, void**) = [](const Operator*, Table, const void* info,
                                                                     void** kernel) -> Status {
    *kernel = new Kernel(info);
    return nullptr;
  };
  Status (*compute2)(void*, void*) = [](void* kernel, void* context) {
    return static_cast<Kernel*>(kernel)->compute(context);
  };
  void* tail[8] = {};
};

Operator wrapped;

}  // namespace

extern "C" ANYLAYER_EXPORT Status RegisterCustomOps(void* options, const Base* base) {
  api = base->get(16);
  void* domain = nullptr;
  if (Status bad = call(kCreateDomain, "native", &domain)) return bad;
  if (Status bad = call(kAddOp, domain, static_cast<const Operator*>(&wrapped))) return bad;
  return call(kAddDomain, options, domain);
}
