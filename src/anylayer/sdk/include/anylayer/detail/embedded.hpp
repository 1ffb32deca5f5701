// A layer inside the graph of an engine: see anylayer_embedded. Included by the operators of the engines.
#ifndef ANYLAYER_DETAIL_EMBEDDED_HPP
#define ANYLAYER_DETAIL_EMBEDDED_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../abi.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {
namespace detail {

// The arrays of one call. An engine's operator fills `addresses`: those of the inputs, then those of the outputs.
class Frame {
 public:
  std::vector<anylayer_tensor> inputs, outputs;
  std::vector<void*> addresses;

  explicit Frame(const anylayer_call& from) {
    std::memcpy(&call_, &from, std::min<std::size_t>(sizeof call_, from.struct_size));
    call_.struct_size = sizeof call_;
    take(from.inputs, from.input_count, inputs);
    take(from.outputs, from.output_count, outputs);
    take(from.internals, from.internal_count, internals_);
    for (anylayer_tensor& tensor : internals_) {
      int64_t count = 1;
      for (int32_t k = 0; k < tensor.rank; ++k) count *= tensor.sizes[k];
      memory_.emplace_back(new float[count]);
      tensor.data = memory_.back().get();
    }
    for (auto* part : {&inputs, &outputs, &internals_})
      for (const anylayer_tensor& tensor : *part) pointers_.push_back(&tensor);
    addresses.resize(inputs.size() + outputs.size());
    call_.inputs = pointers_.data();
    call_.outputs = call_.inputs + inputs.size();
    call_.internals = call_.outputs + outputs.size();
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // The arrays for forward, whose loops may run in the threads of `host`.
  const anylayer_call* call(const anylayer_host& host) {
    void* const* address = addresses.data();
    for (auto* part : {&inputs, &outputs})
      for (anylayer_tensor& tensor : *part) tensor.data = *address++;
    call_.host = &host;
    return &call_;
  }

 private:
  anylayer_call call_{};
  std::vector<anylayer_tensor> internals_;
  std::vector<const anylayer_tensor*> pointers_;
  std::vector<std::unique_ptr<float[]>> memory_;

  static void take(const anylayer_tensor* const* from, uint32_t count, std::vector<anylayer_tensor>& to) {
    for (uint32_t i = 0; i < count; ++i) to.push_back(*from[i]);
  }
};

// A layer of an engine's graph. Several threads may compute it.
class EmbeddedLayer {
 public:
  explicit EmbeddedLayer(const anylayer_embedded* embedded) : embedded_(embedded) {}

  const anylayer_call& types() const { return *embedded_->call; }

  std::unique_ptr<Frame> take() {
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

  void give_back(std::unique_ptr<Frame> frame) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(frame));
  }

  // Compute the outputs. Returns 0, or the number of the error that anylayer keeps.
  uint64_t run(Frame& frame, const anylayer_host& host) const {
    if (!*const_cast<const volatile uint32_t*>(&embedded_->direct))
      return embedded_->report(frame.addresses.data(), frame.addresses.data() + frame.inputs.size(), nullptr);
    char text[1024] = "";
    anylayer_message message{sizeof(anylayer_message), sizeof text, text};
    if (embedded_->forward(embedded_->instance, frame.call(host), &message) == ANYLAYER_OK) return 0;
    return embedded_->report(nullptr, nullptr, text);
  }

 private:
  const anylayer_embedded* embedded_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> free_;
};

}  // namespace detail
}  // namespace anylayer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
