// A layer as an operator inside a graph of ONNX Runtime, so that the engine is called once for the whole network.
// Included by layer.hpp: every library of layers is a library of custom operators, too. The operator NativeLayer of
// domain "anylayer.native" has the address of an anylayer_embedded as its attribute, so it holds in one process only.
#ifndef ANYLAYER_DETAIL_ONNXRUNTIME_HPP
#define ANYLAYER_DETAIL_ONNXRUNTIME_HPP

#include <cstdio>
#include <new>

#include "onnxruntime_api.hpp"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {
namespace detail {
namespace onnxruntime {

using namespace onnxruntime_api;
using onnxruntime_api::Status;

// The arrays of one call.
struct Frame {
  std::vector<anylayer_tensor> inputs, outputs, internals;
  std::vector<const anylayer_tensor*> pointers;
  std::vector<void*> addresses;
  std::vector<std::unique_ptr<float[]>> memory;
  anylayer_call call;

  explicit Frame(const anylayer_call& from) : call(from) {
    take(from.inputs, from.input_count, inputs);
    take(from.outputs, from.output_count, outputs);
    take(from.internals, from.internal_count, internals);
    for (anylayer_tensor& tensor : internals) {
      int64_t count = 1;
      for (int32_t k = 0; k < tensor.rank; ++k) count *= tensor.sizes[k];
      memory.emplace_back(new float[count]);
      tensor.data = memory.back().get();
    }
    for (auto* part : {&inputs, &outputs, &internals})
      for (const anylayer_tensor& tensor : *part) pointers.push_back(&tensor);
    addresses.resize(inputs.size() + outputs.size());
    call.inputs = pointers.data();
    call.outputs = call.inputs + inputs.size();
    call.internals = call.outputs + outputs.size();
  }

 private:
  static void take(const anylayer_tensor* const* from, uint32_t count, std::vector<anylayer_tensor>& to) {
    for (uint32_t i = 0; i < count; ++i) to.push_back(*from[i]);
  }
};

// A node of a session. Several threads may compute it.
class Kernel {
 public:
  explicit Kernel(const anylayer_embedded* embedded) : embedded_(embedded) {}

  Status compute(void* context) {
    std::unique_ptr<Frame> frame = taken();
    Status status = bind(context, *frame);
    if (!status) status = run(context, *frame);
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(frame));
    return status;
  }

 private:
  const anylayer_embedded* embedded_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> free_;

  std::unique_ptr<Frame> taken() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Frame> found = std::move(free_.back());
        free_.pop_back();
        return found;
      }
    }
    return std::make_unique<Frame>(*embedded_->call);
  }

  static Status bind(void* context, Frame& frame) {
    void** address = frame.addresses.data();
    for (std::size_t i = 0; i < frame.inputs.size(); ++i, ++address) {
      void* value = nullptr;
      if (Status bad = call(kInput, static_cast<const void*>(context), i, &value)) return bad;
      if (Status bad = call(kMutableData, value, address)) return bad;
      frame.inputs[i].data = *address;
    }
    for (std::size_t i = 0; i < frame.outputs.size(); ++i, ++address) {
      void* value = nullptr;
      anylayer_tensor& tensor = frame.outputs[i];
      if (Status bad = call(kOutput, context, i, tensor.sizes, static_cast<std::size_t>(tensor.rank), &value))
        return bad;
      if (Status bad = call(kMutableData, value, address)) return bad;
      tensor.data = *address;
    }
    return nullptr;
  }

  Status run(void* context, Frame& frame) {
    char text[1024] = "";
    uint64_t number;
    if (*const_cast<const volatile uint32_t*>(&embedded_->direct)) {
      anylayer_message message{sizeof(anylayer_message), sizeof text, text};
      const Host host{context, parallel};
      HostScope scope(&host);
      if (embedded_->forward(embedded_->instance, &frame.call, &message) == ANYLAYER_OK) return nullptr;
      number = embedded_->report(nullptr, nullptr, text);
    } else {
      number = embedded_->report(frame.addresses.data(), frame.addresses.data() + frame.inputs.size(), nullptr);
      if (!number) return nullptr;
    }
    std::snprintf(text, sizeof text, "anylayer error %llu.", static_cast<unsigned long long>(number));
    return error(text);
  }

  // Run the parts of a loop in the engine's threads.
  static bool parallel(void* context, std::size_t parts, void (*part)(void*, std::size_t), void* given) {
    return !call(kParallelFor, static_cast<const void*>(context), part, parts, std::size_t{0}, given);
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
