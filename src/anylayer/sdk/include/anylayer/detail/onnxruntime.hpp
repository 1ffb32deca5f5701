// A layer as an operator inside a graph of ONNX Runtime, so that the engine is called once for the whole network.
// Included by layer.hpp: every library of layers is a library of custom operators, too. The operator NativeLayer of
// domain "anylayer.native" has the address of an anylayer_embedded as its attribute, so it holds in one process only.
#ifndef ANYLAYER_DETAIL_ONNXRUNTIME_HPP
#define ANYLAYER_DETAIL_ONNXRUNTIME_HPP

#include <cstdio>
#include <new>

#include "embedded.hpp"
#include "onnxruntime_api.hpp"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {
namespace detail {
namespace onnxruntime {

using namespace onnxruntime_api;
using onnxruntime_api::Status;

// A node of a session.
class Kernel {
 public:
  explicit Kernel(const anylayer_embedded* embedded) : layer_(embedded) {}

  Status compute(void* context) {
    std::unique_ptr<Frame> frame = layer_.take();
    Status status = bind(context, *frame);
    if (!status) status = run(context, *frame);
    layer_.give_back(std::move(frame));
    return status;
  }

 private:
  EmbeddedLayer layer_;

  static Status bind(void* context, Frame& frame) {
    void** address = frame.addresses.data();
    for (std::size_t i = 0; i < frame.inputs.size(); ++i, ++address) {
      void* value = nullptr;
      if (Status bad = call(kInput, static_cast<const void*>(context), i, &value)) return bad;
      if (Status bad = call(kMutableData, value, address)) return bad;
    }
    for (std::size_t i = 0; i < frame.outputs.size(); ++i, ++address) {
      void* value = nullptr;
      const anylayer_tensor& tensor = frame.outputs[i];
      if (Status bad = call(kOutput, context, i, tensor.sizes, static_cast<std::size_t>(tensor.rank), &value))
        return bad;
      if (Status bad = call(kMutableData, value, address)) return bad;
    }
    return nullptr;
  }

  Status run(void* context, Frame& frame) const {
    const anylayer_host host{sizeof(anylayer_host), 0, context, parallel};
    const uint64_t number = layer_.run(frame, host);
    if (!number) return nullptr;
    char text[64];
    std::snprintf(text, sizeof text, "anylayer error %llu.", static_cast<unsigned long long>(number));
    return error(text);
  }

  // Run the parts of a loop in the engine's threads.
  static int32_t parallel(void* context, uint64_t parts, void (*part)(void*, std::size_t), void* given) {
    return !call(kParallelFor, static_cast<const void*>(context), part, static_cast<std::size_t>(parts),
                 std::size_t{0}, given);
  }
};

struct NativeLayer : Operator {
  NativeLayer() {
    name = [](const Operator*) { return "NativeLayer"; };
    input_type = output_type = [](const Operator*, std::size_t) { return 0; };
    inputs = outputs = [](const Operator*) { return std::size_t{1}; };
    input_kind = output_kind = [](const Operator*, std::size_t) -> int { return kVariadic; };
    destroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    create2 = [](const Operator*, Table, const void* info, void** kernel) -> Status {
      int64_t address = 0;
      if (Status bad = call(kAttribute, info, "call", &address)) return bad;
      *kernel = new (std::nothrow) Kernel(reinterpret_cast<const anylayer_embedded*>(address));
      return *kernel ? nullptr : error("out of memory");
    };
    compute2 = [](void* kernel, void* context) -> Status {
      try {
        return static_cast<Kernel*>(kernel)->compute(context);
      } catch (const std::exception& thrown) {
        return error(thrown.what());
      }
    };
  }
};

inline const NativeLayer native_layer;

}  // namespace onnxruntime
}  // namespace detail
}  // namespace anylayer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

// Weak, so that each file of a library may define it, and a library may have one of its own.
#if defined(_MSC_VER)
extern "C" ANYLAYER_EXPORT inline void* RegisterCustomOps(void* options, const void* base) {
#else
extern "C" ANYLAYER_EXPORT __attribute__((weak, used)) void* RegisterCustomOps(void* options, const void* base) {
#endif
  const onnxruntime_api::Operator* const one = &anylayer::detail::onnxruntime::native_layer;
  return onnxruntime_api::add(options, static_cast<const onnxruntime_api::Base*>(base), "anylayer.native", &one, 1);
}

#endif
