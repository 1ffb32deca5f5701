// LayerParams: a node's name, type, parameters and blobs.
#ifndef ANYLAYER_PARAMS_HPP
#define ANYLAYER_PARAMS_HPP

#include <cmath>
#include <map>
#include <memory>

#include "tensor.hpp"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {

class LayerParams;

namespace detail {

struct Value {
  int32_t kind = ANYLAYER_NONE;
  bool list = false;
  std::size_t count = 0;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> strings;
  std::vector<LayerParams> messages;
  std::vector<Tensor> tensors;
};

template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};

}  // namespace detail

// The parameters of a node. A parameter inside a message stands under its own name: get<int>("width") finds
// interp_param { width: 8 }. `messages` gives the messages themselves.
class LayerParams {
 public:
  std::string name;
  std::string type;
  std::vector<Tensor> blobs;
  int outputs = 1;  // how many outputs the node has

  LayerParams() = default;

  explicit LayerParams(const anylayer_params* given) {
    for (uint32_t i = 0; given && i < given->count; ++i) add(*given->entries[i]);
  }

  explicit LayerParams(const anylayer_node& node)
      : LayerParams(node.params) {
    name = node.name;
    type = node.type;
    outputs = static_cast<int>(node.output_count);
    for (uint32_t i = 0; i < node.blob_count; ++i) blobs.emplace_back(*node.blobs[i]);
  }

  bool has(const std::string& key) const { return find(key) != nullptr; }

  // The parameter as T: int, unsigned, int64_t, float, double, bool, std::string, or a std::vector of them. Throws
  // where there is no such parameter, or where it is something else: 1.5 is no int, a list of two is no int.
  template <typename T>
  T get(const std::string& key) const {
    const detail::Value* value = find(key);
    if (!value) throw Error() << "parameter '" << key << "' is missing";
    return read<T>(*value, key);
  }

  // As get(key), or `otherwise` where there is no such parameter.
  template <typename T, typename U>
  T get(const std::string& key, const U& otherwise) const {
    const detail::Value* value = find(key);
    return value ? read<T>(*value, key) : T(otherwise);
  }

  // The messages of this name, none where there is no such message.
  std::vector<LayerParams> messages(const std::string& key) const {
    const auto found = messages_.find(key);
    return found == messages_.end() ? std::vector<LayerParams>() : found->second->messages;
  }

  // The message of this name. Throws unless there is exactly one.
  LayerParams message(const std::string& key) const {
    const auto found = messages(key);
    if (found.size() != 1) throw Error() << "message '" << key << "' is there " << found.size() << " times, expected 1";
    return found[0];
  }

  // A parameter that is an array (ONNX and TensorFlow have them). Its data stay valid as long as the layer.
  Tensor tensor(const std::string& key) const {
    const detail::Value* value = find(key);
    if (!value || value->tensors.size() != 1) throw Error() << "parameter '" << key << "' is no array";
    return value->tensors[0];
  }

  // The names of the parameters, messages not counted.
  std::vector<std::string> keys() const {
    std::vector<std::string> found;
    for (const auto& item : values_) found.push_back(item.first);
    return found;
  }

 private:
  std::map<std::string, std::shared_ptr<const detail::Value>> values_, messages_;

  void add(const anylayer_param& given) {
    auto value = std::make_shared<detail::Value>();
    value->kind = given.kind;
    value->list = given.list != 0;
    value->count = given.count;
    for (uint32_t i = 0; i < given.count; ++i) {
      if (given.integers) value->integers.push_back(given.integers[i]);
      if (given.reals) value->reals.push_back(given.reals[i]);
      if (given.strings) value->strings.emplace_back(given.strings[i]);
      if (given.messages) value->messages.emplace_back(given.messages[i]);
      if (given.tensors) value->tensors.emplace_back(*given.tensors[i]);
    }
    (given.kind == ANYLAYER_MESSAGE ? messages_ : values_).emplace(given.name, value);
  }

  const detail::Value* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : found->second.get();
  }

  template <typename T>
  static T read(const detail::Value& value, const std::string& key) {
    if constexpr (detail::is_vector<T>::value) {
      T found;
      for (std::size_t i = 0; i < value.count; ++i)
        found.push_back(element<typename T::value_type>(value, i, key));
      return found;
    } else {
      if (value.count != 1)
        throw Error() << "parameter '" << key << "' is a list of " << value.count << " values, expected one value";
      return element<T>(value, 0, key);
    }
  }

  [[noreturn]] static void wrong(const detail::Value& value, std::size_t i, const std::string& key, const char* what) {
    throw Error() << "parameter '" << key << "' is " << (i < value.strings.size() ? value.strings[i] : "an array")
                  << ", expected " << what;
  }

  template <typename T>
  static T element(const detail::Value& value, std::size_t i, const std::string& key) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (i >= value.strings.size()) wrong(value, i, key, "a string");
      return value.strings[i];
    } else if constexpr (std::is_same_v<T, bool>) {
      const std::string text = i < value.strings.size() ? value.strings[i] : "";
      if (i < value.integers.size()) return value.integers[i] != 0;
      if (text == "true" || text == "True") return true;
      if (text == "false" || text == "False") return false;
      wrong(value, i, key, "true or false");
    } else if constexpr (std::is_integral_v<T>) {
      if (i < value.integers.size()) {
        const int64_t number = value.integers[i];
        if ((std::is_unsigned_v<T> && number < 0) || static_cast<int64_t>(static_cast<T>(number)) != number)
          wrong(value, i, key, "an integer that fits");
        return static_cast<T>(number);
      }
      if (i >= value.reals.size() || std::nearbyint(value.reals[i]) != value.reals[i] ||
          std::fabs(value.reals[i]) > 9007199254740992.0)
        wrong(value, i, key, "an integer");
      return static_cast<T>(value.reals[i]);
    } else {
      static_assert(std::is_floating_point_v<T>, "get<T>: T is a number, bool, std::string, or a std::vector of them");
      if (i >= value.reals.size()) wrong(value, i, key, "a number");
      return static_cast<T>(value.reals[i]);
    }
  }
};

}  // namespace anylayer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
