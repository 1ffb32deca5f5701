// The part of ONNX Runtime's C interface that custom operators need. Its headers are not needed: the interface is a table
// of functions whose order is frozen, and the few functions that are used here are called by their place in it.
#ifndef ANYLAYER_ONNXRUNTIME_API_HPP
#define ANYLAYER_ONNXRUNTIME_API_HPP

#include <cstddef>
#include <cstdint>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace onnxruntime_api {

using Status = void*;  // OrtStatus*, NULL for success
using Table = void* const*;

struct Base {
  Table (*get)(uint32_t version);
};

// Places in the table, which has them all since version 17 (ONNX Runtime 1.17).
enum Slot {
  kCreateStatus = 0,
  kCreateDomain = 26,
  kAddOperator = 27,
  kAddDomain = 28,
  kMutableData = 51,
  kRank = 61,
  kSizes = 62,
  kTypeAndShape = 65,
  kAttribute = 86,
  kText = 87,
  kInput = 90,
  kOutput = 91,
  kReleaseStatus = 93,
  kReleaseTypeAndShape = 99,
  kParallelFor = 274
};
constexpr uint32_t kVersion = 17;

inline Table table = nullptr;

template <typename... Given>
Status call(Slot slot, Given... given) {
  return reinterpret_cast<Status (*)(Given...)>(table[slot])(given...);
}

inline void release(Status status) { reinterpret_cast<void (*)(Status)>(table[kReleaseStatus])(status); }

inline Status error(const char* text) { return call(kCreateStatus, 1, text); }

enum Kind { kRequired = 0, kOptional = 1, kVariadic = 2 };

// OrtCustomOp with the fields of version 17, for an operator with required inputs and outputs of fixed types. Derive
// from it, and set what is NULL here.
struct Operator {
  uint32_t version = kVersion;
  void* (*create)(const Operator*, Table, const void*) = nullptr;  // not called where create2 is set
  const char* (*name)(const Operator*) = nullptr;
  const char* (*provider)(const Operator*) = [](const Operator*) -> const char* { return nullptr; };
  int (*input_type)(const Operator*, std::size_t) = nullptr;  // the numbers of ONNX, 0 for any
  std::size_t (*inputs)(const Operator*) = nullptr;
  int (*output_type)(const Operator*, std::size_t) = nullptr;
  std::size_t (*outputs)(const Operator*) = nullptr;
  void (*compute)(void*, void*) = nullptr;  // not called where compute2 is set
  void (*destroy)(void*) = [](void*) {};
  int (*input_kind)(const Operator*, std::size_t) = [](const Operator*, std::size_t) -> int { return kRequired; };
  int (*output_kind)(const Operator*, std::size_t) = [](const Operator*, std::size_t) -> int { return kRequired; };
  int (*input_memory)(const Operator*, std::size_t) = [](const Operator*, std::size_t) { return 0; };
  int (*input_least)(const Operator*) = [](const Operator*) { return 1; };
  int (*input_same)(const Operator*) = [](const Operator*) { return 0; };
  int (*output_least)(const Operator*) = [](const Operator*) { return 1; };
  int (*output_same)(const Operator*) = [](const Operator*) { return 0; };
  Status (*create2)(const Operator*, Table, const void*, void**) = nullptr;
  Status (*compute2)(void*, void*) = nullptr;
  void* other[8] = {};
};

// Add operators to the options of a session.
inline Status add(void* options, const Base* base, const char* name, const Operator* const* operators,
                  std::size_t count) {
  table = base->get(kVersion);
  if (!table) {
    table = base->get(1);
    return table ? error("this ONNX Runtime is too old: the operators need version 1.17") : nullptr;
  }
  void* domain = nullptr;
  if (Status bad = call(kCreateDomain, name, &domain)) return bad;
  for (std::size_t i = 0; i < count; ++i)
    if (Status bad = call(kAddOperator, domain, operators[i])) return bad;
  return call(kAddDomain, options, domain);
}

}  // namespace onnxruntime_api

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
