/* The binary interface between anylayer and a library of layers, in C.
 *
 * A library exports one function, anylayer_library_entry. It returns a table with the library's layer types, and each
 * type is a table of functions. Include anylayer/layer.hpp to write a layer as a C++ class; this file is enough to
 * write one in C, or in any language that can export C functions.
 *
 * Rules
 *  - Every function returns a status. On any status other than ANYLAYER_OK it writes a sentence to `message`.
 *  - No exception leaves a function.
 *  - Every structure starts with its own size in bytes. A field beyond that size does not exist. New fields are only
 *    added at the end. Arrays are arrays of pointers, so that their elements may grow.
 *  - Memory that one side passes to the other stays valid until the function returns, except where a comment says
 *    otherwise. Nobody frees what the other side has allocated.
 *  - A pointer to a function that is marked "optional" may be NULL.
 */
#ifndef ANYLAYER_ABI_H
#define ANYLAYER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. anylayer loads only libraries of its own version. */
#define ANYLAYER_ABI 1
#define ANYLAYER_MAX_RANK 32
#define ANYLAYER_NAME_SIZE 64

typedef int32_t anylayer_status;
enum {
  ANYLAYER_OK = 0,
  ANYLAYER_ERROR = 1,
  ANYLAYER_NOT_IMPLEMENTED = 2, /* select: the configuration has been changed, offer it again */
  ANYLAYER_NOT_FOUND = 3        /* configuration: there are no more configurations */
};

/* Element types, with the numbers of ONNX's TensorProto.DataType. */
enum {
  ANYLAYER_ANY_TYPE = 0,
  ANYLAYER_FLOAT32 = 1,
  ANYLAYER_UINT8 = 2,
  ANYLAYER_INT8 = 3,
  ANYLAYER_UINT16 = 4,
  ANYLAYER_INT16 = 5,
  ANYLAYER_INT32 = 6,
  ANYLAYER_INT64 = 7,
  ANYLAYER_BOOL = 9,
  ANYLAYER_FLOAT16 = 10,
  ANYLAYER_FLOAT64 = 11,
  ANYLAYER_UINT32 = 12,
  ANYLAYER_UINT64 = 13
};

/* Orders of axes of arrays of rank 4. ANYLAYER_BLOCKED exists only to be refused with a clear message: engines pass
 * plain arrays. */
enum { ANYLAYER_ANY_LAYOUT = 0, ANYLAYER_NCHW = 1, ANYLAYER_NHWC = 2, ANYLAYER_BLOCKED = 3 };

/* A buffer for an error message: UTF-8, ended by a zero byte, at most `capacity` bytes with that byte. */
typedef struct anylayer_message {
  uint32_t struct_size;
  uint32_t capacity;
  char *text;
} anylayer_message;

/* An array: contiguous, the last axis varies fastest. `data` is NULL where only the type is known. An optional input
 * that is left out has rank -1. `name` is the name of a blob, or "". */
typedef struct anylayer_tensor {
  uint32_t struct_size;
  int32_t dtype;
  int32_t rank;
  int32_t layout;
  const int64_t *sizes;
  void *data;
  const char *name;
} anylayer_tensor;

/* Kinds of parameters. */
enum {
  ANYLAYER_NONE = 0,
  ANYLAYER_FLAG = 1,
  ANYLAYER_INTEGER = 2,
  ANYLAYER_REAL = 3,
  ANYLAYER_STRING = 4,
  ANYLAYER_MESSAGE = 5,
  ANYLAYER_TENSOR = 6
};

struct anylayer_params;

/* A parameter. Its `count` values are in `integers` (flags and integers), `reals` (numbers of all kinds), `messages`
 * or `tensors`; `strings` spells every value that is not a message or tensor. `list` is 1 for a list. */
typedef struct anylayer_param {
  uint32_t struct_size;
  int32_t kind;
  uint32_t count;
  uint32_t list;
  const char *name;
  const int64_t *integers;
  const double *reals;
  const char *const *strings;
  const struct anylayer_params *const *messages;
  const anylayer_tensor *const *tensors;
} anylayer_param;

/* The parameters of a node. A parameter inside a message stands under its own name, too, as in OpenCV: where two
 * messages have the same name in them, the outer or earlier one counts. */
typedef struct anylayer_params {
  uint32_t struct_size;
  uint32_t count;
  const anylayer_param *const *entries;
} anylayer_params;

/* A node of a network, which an instance of a layer type is created for. `inputs` have no data. The data of `blobs`
 * stay valid until the instance is destroyed. */
typedef struct anylayer_node {
  uint32_t struct_size;
  uint32_t output_count;
  const char *name;
  const char *type;
  const anylayer_params *params;
  uint32_t blob_count;
  uint32_t input_count;
  const anylayer_tensor *const *blobs;
  const anylayer_tensor *const *inputs;
} anylayer_node;

/* What an implementation wants of one input or output. `dtype` ANYLAYER_ANY_TYPE and `layout` ANYLAYER_ANY_LAYOUT
 * take what the network has. `in_place` of an output is the index of the input whose memory it shares, or -1; of an
 * input it is -1. */
typedef struct anylayer_edge {
  uint32_t struct_size;
  int32_t dtype;
  int32_t layout;
  int32_t in_place;
} anylayer_edge;

enum {
  ANYLAYER_DYNAMIC_BATCH = 1, /* forward takes any size of axis 0 */
  ANYLAYER_REENTRANT = 2,     /* several threads may be in forward of one instance */
  ANYLAYER_ELEMENTWISE = 4    /* an element of an output depends only on the elements at its position; all inputs and
                               * outputs have one shape, and forward may get them in any order of axes */
};

/* One way in which an implementation can run. anylayer allocates it with as many edges as the node has. */
typedef struct anylayer_configuration {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t implementation;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t reserved;
  anylayer_edge *const *inputs;
  anylayer_edge *const *outputs;
  char name[ANYLAYER_NAME_SIZE];
} anylayer_configuration;

typedef struct anylayer_shape {
  uint32_t struct_size;
  int32_t rank;
  const int64_t *sizes;
} anylayer_shape;

/* The shapes of an instance's outputs and internal arrays. The library owns the memory that the pointers lead to,
 * and keeps it until the next call for the same instance. `in_place` 1 permits that output 0 lies over input 0. */
typedef struct anylayer_shapes {
  uint32_t struct_size;
  int32_t in_place;
  uint32_t output_count;
  uint32_t internal_count;
  const anylayer_shape *const *outputs;
  const anylayer_shape *const *internals;
} anylayer_shapes;

/* The threads of the program that calls a layer. `run` calls part(given, i) for each i of 0 .. parts - 1, and returns 1
 * when all have returned. It returns 0 where it has called none. */
typedef struct anylayer_host {
  uint32_t struct_size;
  uint32_t reserved;
  void *context;
  int32_t (*run)(void *context, uint64_t parts, void (*part)(void *given, size_t i), void *given);
} anylayer_host;

/* The arrays of one call. `threads` is the number of threads that forward should use at most, 0 for its own choice.
 * The contents of outputs and internals are undefined before the call. `host` is NULL where the caller has no threads
 * to lend. */
typedef struct anylayer_call {
  uint32_t struct_size;
  uint32_t threads;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t internal_count;
  uint32_t reserved;
  const anylayer_tensor *const *inputs;
  const anylayer_tensor *const *outputs;
  const anylayer_tensor *const *internals;
  const anylayer_host *host;
} anylayer_call;

/* A layer type. The functions are called in this order, and one instance serves one set of input shapes:
 * create, configuration (0, 1, ... until ANYLAYER_NOT_FOUND), select, shapes, finalize, forward (any number of
 * times), destroy. */
typedef struct anylayer_type {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;
  const char *description;
  anylayer_status (*create)(const anylayer_node *node, void **instance, anylayer_message *message);
  void (*destroy)(void *instance);
  /* optional: without it there is one configuration, float32 in ANYLAYER_NCHW */
  anylayer_status (*configuration)(void *instance, uint32_t index, anylayer_configuration *configuration,
                                   anylayer_message *message);
  /* optional: accept the configuration, change it (ANYLAYER_NOT_IMPLEMENTED), or refuse it (ANYLAYER_ERROR) */
  anylayer_status (*select)(void *instance, anylayer_configuration *configuration, anylayer_message *message);
  /* inputs have the order of axes of the selected configuration */
  anylayer_status (*shapes)(void *instance, const anylayer_tensor *const *inputs, uint32_t input_count,
                            uint32_t output_count, anylayer_shapes *shapes, anylayer_message *message);
  /* optional: the arrays have no data */
  anylayer_status (*finalize)(void *instance, const anylayer_call *call, anylayer_message *message);
  anylayer_status (*forward)(void *instance, const anylayer_call *call, anylayer_message *message);
} anylayer_type;

/* A layer inside the graph of an engine: what the engine's operator calls, see detail/embedded.hpp. `call` has the
 * types and sizes of the arrays in the network, without data. `direct` 1 says that forward may be called with them;
 * anylayer sets it after it has checked the first call. Until then, and for a layer whose arrays must be converted,
 * `report` computes the outputs. It also takes the message of a call of forward that did not succeed (`text`, then
 * without arrays). It returns the number of an error that it keeps, or 0. */
typedef struct anylayer_embedded {
  uint32_t struct_size;
  uint32_t direct;
  anylayer_status (*forward)(void *instance, const anylayer_call *call, anylayer_message *message);
  void *instance;
  const anylayer_call *call;
  uint64_t (*report)(void *const *inputs, void *const *outputs, const char *text);
} anylayer_embedded;

/* Takes a line of text for the log, from any thread. */
typedef void (*anylayer_log)(const char *text);

/* Functions of layers take turns by themselves, unless the selected configuration is ANYLAYER_REENTRANT. Without this
 * flag anylayer makes them take turns. A library with it has a custom operator, see anylayer_embedded. */
enum { ANYLAYER_TAKES_TURNS = 1 };

/* A library. The first two fields never change, whatever the version. */
typedef struct anylayer_library {
  uint32_t struct_size;
  uint32_t abi;
  const char *version;
  const char *description;
  uint32_t type_count;
  uint32_t flags;
  const anylayer_type *const *types;
  void (*set_log)(anylayer_log log); /* optional */
  void (*unload)(void);              /* optional: called once, when the process ends */
} anylayer_library;

#if defined(_WIN32)
#define ANYLAYER_EXPORT __declspec(dllexport)
#else
#define ANYLAYER_EXPORT __attribute__((visibility("default")))
#endif

/* The function that a library exports. It is called once, before any other, with the version of the caller. The
 * result stays valid as long as the library is loaded; NULL says that `message` has an error. */
typedef const anylayer_library *(*anylayer_entry)(uint32_t abi, anylayer_message *message);
#define ANYLAYER_ENTRY anylayer_library_entry

#ifdef __cplusplus
}
#endif
#endif
