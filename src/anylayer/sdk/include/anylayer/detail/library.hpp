// The table of a library's layers, and the functions of abi.h in terms of anylayer::Layer. Included by layer.hpp.
#ifndef ANYLAYER_DETAIL_LIBRARY_HPP
#define ANYLAYER_DETAIL_LIBRARY_HPP

namespace anylayer {
namespace detail {

inline void write(anylayer_message* message, const char* text) noexcept {
  if (!message || !message->text || !message->capacity) return;
  const std::size_t length = std::min<std::size_t>(std::strlen(text), message->capacity - 1);
  std::memcpy(message->text, text, length);
  message->text[length] = '\0';
}

// Runs a function that may throw, for a caller that no exception may reach.
template <typename Function>
anylayer_status guarded(anylayer_message* message, Function function) noexcept {
  try {
    return function();
  } catch (const std::exception& error) {
    write(message, error.what());
  } catch (...) {
    write(message, "an exception that is not a std::exception was thrown");
  }
  return ANYLAYER_ERROR;
}

// A thread holds it while it is in a function of a layer that is not reentrant.
inline std::recursive_mutex turn;

// Runs a function that may throw, while no other thread is in one.
template <typename Function>
anylayer_status in_turn(anylayer_message* message, Function function) noexcept {
  return guarded(message, [&] {
    std::lock_guard<std::recursive_mutex> lock(turn);
    return function();
  });
}

// Shapes in memory that stays until they are set again.
class ShapeList {
 public:
  void set(const Shapes& shapes) {
    sizes_.clear();
    for (const auto& shape : shapes) sizes_.emplace_back(shape.begin(), shape.end());
    shapes_.clear();
    for (const auto& sizes : sizes_)
      shapes_.push_back({sizeof(anylayer_shape), static_cast<int32_t>(sizes.size()), sizes.data()});
    pointers_.clear();
    for (const auto& shape : shapes_) pointers_.push_back(&shape);
  }
  const anylayer_shape* const* data() const { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<anylayer_shape> shapes_;
  std::vector<const anylayer_shape*> pointers_;
};

// A layer with its configurations.
struct Instance {
  std::unique_ptr<Layer> layer;
  std::vector<std::shared_ptr<Implementation>> implementations;
  std::vector<std::pair<uint32_t, Configuration>> configurations;
  Implementation* selected = nullptr;
  bool reentrant = false;
  ShapeList outputs, internals;
};

inline void put(const Edge& from, anylayer_edge* to) {
  to->dtype = static_cast<int32_t>(from.dtype);
  to->layout = static_cast<int32_t>(from.layout);
  to->in_place = from.in_place;
}

inline Edge taken(const anylayer_edge& from) {
  return Edge{static_cast<DataType>(from.dtype), static_cast<Layout>(from.layout), from.in_place};
}

inline void put(const Configuration& from, anylayer_configuration* to) {
  if (from.inputs.size() != to->input_count || from.outputs.size() != to->output_count)
    throw Error() << "a configuration has " << from.inputs.size() << " inputs and " << from.outputs.size()
                  << " outputs, the node has " << to->input_count << " and " << to->output_count;
  for (uint32_t i = 0; i < to->input_count; ++i) put(from.inputs[i], to->inputs[i]);
  for (uint32_t i = 0; i < to->output_count; ++i) put(from.outputs[i], to->outputs[i]);
  to->flags = (from.dynamic_batch ? ANYLAYER_DYNAMIC_BATCH : 0) | (from.reentrant ? ANYLAYER_REENTRANT : 0) |
              (from.elementwise ? ANYLAYER_ELEMENTWISE : 0);
}

inline Configuration taken(const anylayer_configuration& from) {
  Configuration made;
  for (uint32_t i = 0; i < from.input_count; ++i) made.inputs.push_back(taken(*from.inputs[i]));
  for (uint32_t i = 0; i < from.output_count; ++i) made.outputs.push_back(taken(*from.outputs[i]));
  made.dynamic_batch = (from.flags & ANYLAYER_DYNAMIC_BATCH) != 0;
  made.reentrant = (from.flags & ANYLAYER_REENTRANT) != 0;
  made.elementwise = (from.flags & ANYLAYER_ELEMENTWISE) != 0;
  return made;
}

template <typename Class>
anylayer_status create(const anylayer_node* node, void** instance, anylayer_message* message) noexcept {
  return in_turn(message, [&] {
    auto made = std::make_unique<Instance>();
    const LayerParams params(*node);
    made->layer = std::make_unique<Class>(params);
    const Tensors inputs(node->inputs, node->input_count);
    made->implementations = made->layer->getImplementations();
    const int outputs = static_cast<int>(node->output_count);
    for (uint32_t k = 0; k < made->implementations.size(); ++k)
      for (auto& one : made->implementations[k]->getSupportedConfigurations(inputs, outputs))
        made->configurations.emplace_back(k, std::move(one));
    if (made->implementations.empty())
      for (auto& one : made->layer->getSupportedConfigurations(inputs, outputs))
        made->configurations.emplace_back(0, std::move(one));
    *instance = made.release();
    return ANYLAYER_OK;
  });
}

inline void destroy(void* instance) noexcept {
  try {
    delete static_cast<Instance*>(instance);
  } catch (...) {
  }
}

inline anylayer_status configuration(void* instance, uint32_t index, anylayer_configuration* to,
                                     anylayer_message* message) noexcept {
  return in_turn(message, [&]() -> anylayer_status {
    const auto& self = *static_cast<Instance*>(instance);
    if (index >= self.configurations.size()) return ANYLAYER_NOT_FOUND;
    const auto& one = self.configurations[index];
    put(one.second, to);
    to->implementation = one.first;
    std::string name;
    if (!self.implementations.empty()) name = self.implementations[one.first]->name();
    const std::size_t length = std::min(name.size(), sizeof to->name - 1);
    name.copy(to->name, length);
    to->name[length] = '\0';
    return ANYLAYER_OK;
  });
}

inline anylayer_status select(void* instance, anylayer_configuration* chosen, anylayer_message* message) noexcept {
  return in_turn(message, [&]() -> anylayer_status {
    auto& self = *static_cast<Instance*>(instance);
    Configuration one = taken(*chosen);
    if (!self.implementations.empty()) self.selected = self.implementations.at(chosen->implementation).get();
    const Status status = self.selected ? self.selected->init(one) : self.layer->init(one);
    self.reentrant = (chosen->flags & ANYLAYER_REENTRANT) != 0;
    if (status == Status::not_implemented) put(one, chosen);
    if (status == Status::error) write(message, "init refuses the configuration");
    return static_cast<anylayer_status>(status);
  });
}

inline anylayer_status shapes(void* instance, const anylayer_tensor* const* inputs, uint32_t input_count,
                              uint32_t output_count, anylayer_shapes* to, anylayer_message* message) noexcept {
  return in_turn(message, [&] {
    auto& self = *static_cast<Instance*>(instance);
    Shapes given, outputs, internals;
    for (const Tensor& x : Tensors(inputs, input_count)) given.push_back(x.shape());
    to->in_place = self.layer->getMemoryShapes(given, static_cast<int>(output_count), outputs, internals);
    self.outputs.set(outputs);
    self.internals.set(internals);
    to->output_count = self.outputs.size();
    to->internal_count = self.internals.size();
    to->outputs = self.outputs.data();
    to->internals = self.internals.data();
    return ANYLAYER_OK;
  });
}

inline anylayer_status finalize(void* instance, const anylayer_call* call, anylayer_message* message) noexcept {
  return in_turn(message, [&] {
    auto& self = *static_cast<Instance*>(instance);
    self.layer->finalize(Tensors(call->inputs, call->input_count), Tensors(call->outputs, call->output_count));
    return ANYLAYER_OK;
  });
}

inline anylayer_status forward(void* instance, const anylayer_call* call, anylayer_message* message) noexcept {
  return guarded(message, [&] {
    auto& self = *static_cast<Instance*>(instance);
    std::unique_lock<std::recursive_mutex> lock(turn, std::defer_lock);
    if (!self.reentrant) lock.lock();
    wanted_threads = static_cast<int>(call->threads);
    const bool has_host = call->struct_size >= offsetof(anylayer_call, host) + sizeof call->host;
    HostScope scope(has_host ? call->host : nullptr);
    const Tensors inputs(call->inputs, call->input_count), outputs(call->outputs, call->output_count),
        internals(call->internals, call->internal_count);
    if (self.selected) {
      self.selected->forward(inputs, outputs, internals);
    } else {
      self.layer->forward(inputs, outputs, internals);
    }
    return ANYLAYER_OK;
  });
}

// The layers that the library's files have registered.
struct Registry {
  std::vector<std::unique_ptr<anylayer_type>> types;
  std::vector<const anylayer_type*> pointers;
  const char* version = "";
  const char* description = "";
  std::atomic<anylayer_log> log{nullptr};
  void (*unload)() = nullptr;
  anylayer_library library{};

  static Registry& instance() {
    static Registry registry;
    return registry;
  }
};

template <typename Class>
bool add(const char* name, const char* description) {
  auto made = std::make_unique<anylayer_type>(anylayer_type{sizeof(anylayer_type), 0, name, description,
                                                           create<Class>, destroy, configuration, select, shapes,
                                                           finalize, forward});
  Registry::instance().types.push_back(std::move(made));
  return true;
}

// Calls Adds::now() when the library is loaded, wherever `done` is named: also in a function that is never called.
template <typename Adds>
struct Registered {
  static const bool done;
};
template <typename Adds>
const bool Registered<Adds>::done = Adds::now();

inline bool unload_with(void (*unload)()) {
  Registry::instance().unload = unload;
  return true;
}

inline bool describe(const char* version, const char* description) {
  Registry::instance().version = version;
  Registry::instance().description = description;
  return true;
}

inline void set_log(anylayer_log log) noexcept { Registry::instance().log = log; }

inline const anylayer_library* entry(anylayer_message* message) noexcept {
  const anylayer_library* made = nullptr;
  guarded(message, [&] {
    Registry& self = Registry::instance();
    self.pointers.clear();
    for (const auto& type : self.types) self.pointers.push_back(type.get());
    self.library = {sizeof(anylayer_library), ANYLAYER_ABI, self.version, self.description,
                    static_cast<uint32_t>(self.pointers.size()), ANYLAYER_TAKES_TURNS, self.pointers.data(), set_log,
                    self.unload};
    made = &self.library;
    return ANYLAYER_OK;
  });
  return made;
}

}  // namespace detail

inline void log(const std::string& text) {
  if (const anylayer_log write = detail::Registry::instance().log) write(text.c_str());
}

}  // namespace anylayer

// Weak, so that each file of a library may define it.
#if defined(_MSC_VER)
extern "C" ANYLAYER_EXPORT inline const anylayer_library* anylayer_library_entry(uint32_t, anylayer_message* message) {
  return anylayer::detail::entry(message);
}
#else
extern "C" ANYLAYER_EXPORT __attribute__((weak, used)) const anylayer_library* anylayer_library_entry(
    uint32_t, anylayer_message* message) {
  return anylayer::detail::entry(message);
}
#endif

#endif
