// parallel_for: split a loop over threads.
#ifndef ANYLAYER_PARALLEL_HPP
#define ANYLAYER_PARALLEL_HPP

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "abi.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {

namespace detail {

constexpr int kPartsPerThread = 4;

inline thread_local int wanted_threads = 0;
inline thread_local bool inside_parallel = false;

inline thread_local const anylayer_host* host = nullptr;

// Has loops of this thread run in a host's threads, until the end of the scope.
class HostScope {
 public:
  explicit HostScope(const anylayer_host* given) : before_(host) { host = given; }
  ~HostScope() { host = before_; }
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  const anylayer_host* before_;
};

// A loop in the threads of a host.
struct HostLoop {
  const std::function<void(int64_t, int64_t)>& body;
  int64_t count, parts;
  std::mutex mutex;
  std::exception_ptr error;

  static void part(void* given, std::size_t i) {
    HostLoop& self = *static_cast<HostLoop*>(given);
    const bool before = inside_parallel;
    inside_parallel = true;
    const int64_t part = static_cast<int64_t>(i);
    try {
      self.body(self.count * part / self.parts, self.count * (part + 1) / self.parts);
    } catch (...) {
      std::lock_guard<std::mutex> lock(self.mutex);
      if (!self.error) self.error = std::current_exception();
    }
    inside_parallel = before;
  }
};

// Threads that wait for loops. They are made once, by the first loop that needs them.
class Pool {
 public:
  // Leaked on purpose: a thread may still wait when the process ends. A process that was forked has none of its
  // parent's threads, and so makes a pool of its own.
  static Pool& instance() {
    static std::atomic<Pool*> pool{nullptr};
    Pool* found = pool.load();
    if (!found || found->process_ != process()) {
      found = new Pool;
      pool.store(found);
    }
    return *found;
  }

  // Run a loop in so many parts. Each thread takes the next part when it is done with one, so a thread whose core is
  // busy takes fewer.
  void run(int64_t count, int threads, int parts, const std::function<void(int64_t, int64_t)>& body) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) {  // another thread has the pool
      body(0, count);
      return;
    }
    grow(threads - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      count_ = count;
      parts_ = parts;
      next_ = 0;
      left_ = parts;
      error_ = nullptr;
      ++round_;
    }
    start_.notify_all();
    inside_parallel = true;
    work();
    inside_parallel = false;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    body_ = nullptr;
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static long process() {
#if defined(_WIN32)
    return 0;
#else
    return static_cast<long>(getpid());
#endif
  }

  const long process_ = process();
  std::mutex turn_, mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t count_ = 0;
  int parts_ = 0, next_ = 0, left_ = 0;
  uint64_t round_ = 0;
  std::exception_ptr error_;

  void grow(int wanted) {
    while (static_cast<int>(threads_.size()) < wanted) threads_.emplace_back([this] { wait(); });
  }

  void wait() {
    inside_parallel = true;
    uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        start_.wait(lock, [&] { return round_ != seen && next_ < parts_; });
        seen = round_;
      }
      work();
    }
  }

  // Take parts of the loop until none is left.
  void work() {
    for (;;) {
      const std::function<void(int64_t, int64_t)>* body;
      int64_t begin, end;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (next_ >= parts_) return;
        const int part = next_++;
        body = body_;
        begin = count_ * part / parts_;
        end = count_ * (part + 1) / parts_;
      }
      std::exception_ptr error;
      try {
        (*body)(begin, end);
      } catch (...) {
        error = std::current_exception();
      }
      std::lock_guard<std::mutex> lock(mutex_);
      if (error && !error_) error_ = error;
      if (--left_ == 0) done_.notify_all();
    }
  }
};

}  // namespace detail

// The number of threads that forward should use at most.
inline int threads() {
  if (detail::wanted_threads > 0) return detail::wanted_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Call body(begin, end) for parts of 0 .. count - 1, in several threads where every part has at least `grain`
// iterations. An exception of a part is thrown again here. A loop inside a loop runs in its own thread.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, Body body) {
  if (count <= 0) return;
  const int64_t most = count / std::max<int64_t>(1, grain);
  const int64_t wanted = std::min<int64_t>(threads(), most);
  if (wanted < 2 || detail::inside_parallel) {
    body(static_cast<int64_t>(0), count);
    return;
  }
  const int64_t parts = std::min<int64_t>(wanted * detail::kPartsPerThread, most);
  if (detail::host) {
    const std::function<void(int64_t, int64_t)> function(std::ref(body));
    detail::HostLoop loop{function, count, parts, {}, nullptr};
    if (detail::host->run(detail::host->context, static_cast<uint64_t>(parts), detail::HostLoop::part, &loop)) {
      if (loop.error) std::rethrow_exception(loop.error);
      return;
    }
  }
  detail::Pool::instance().run(count, static_cast<int>(wanted), static_cast<int>(parts), body);
}

}  // namespace anylayer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
