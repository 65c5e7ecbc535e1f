// SPDX-License-Identifier: Apache-2.0
// A backend whose counters the host cannot access, as on a device: the scalar backend over pages
// that are accessible only while it computes or copies. Code that follows a far pointer on the host
// crashes at once, counters in host memory are refused, and allocations and copies fail on demand.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/backend_table.hpp"
#include "kit/known_backends.hpp"
#include "scbf/errors.hpp"

namespace scbf_test {

/// Thrown for every failure of far memory.
class FarError : public scbf::Error {
 public:
  using Error::Error;
};

/// Counts events in all far memories together, and says what is to fail next.
struct FarLog {
  std::atomic<int> stores{0};  ///< stores that exist now
  std::atomic<std::uint64_t> allocated{0};
  std::atomic<std::uint64_t> counted{0};                      ///< passes that count
  std::atomic<const scbf::Executor*> last_executor{nullptr};  ///< of the last of them
  std::atomic<std::uint64_t> words_read{0}, words_written{0}, words_copied{0};
  std::atomic<bool> fail_allocate{false};
  /// This many further copies of any kind succeed; then each throws FarError.
  std::atomic<std::uint64_t> copies_left{UINT64_MAX};

  void heal() {
    fail_allocate = false;
    copies_left = UINT64_MAX;
  }
  void copy_may_fail() {
    if (copies_left == 0) throw FarError("far memory: the copy failed, as was asked for");
    --copies_left;
  }
};
inline FarLog& far_log() {
  static FarLog log;
  return log;
}

/// Pages that are accessible only while a HoldOpen exists.
class FarPages {
 public:
  explicit FarPages(std::uint64_t words) : words_(words) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = (words * 8 + page - 1) / page * page;
    void* data = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::uint64_t*>(data);
  }
  FarPages(const FarPages&) = delete;
  FarPages& operator=(const FarPages&) = delete;
  ~FarPages() { ::munmap(data_, bytes_); }

  std::uint64_t* data() const noexcept { return data_; }
  std::uint64_t words() const noexcept { return words_; }

  void open() {
    const std::scoped_lock lock(mutex_);
    if (holders_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    if (--holders_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) {
    if (::mprotect(data_, bytes_, access) != 0) throw std::runtime_error("mprotect failed");
  }

  std::uint64_t words_, bytes_;
  std::uint64_t* data_;
  std::mutex mutex_;
  int holders_ = 0;
};

/// Finds the memory that a far pointer belongs to.
class FarPointers {
 public:
  void add(std::string_view memory, FarPages& pages) {
    const std::scoped_lock lock(mutex_);
    known_[pages.data()] = {memory, &pages};
  }
  void drop(const FarPages& pages) {
    const std::scoped_lock lock(mutex_);
    known_.erase(pages.data());
  }
  FarPages& pages(std::string_view memory, const std::uint64_t* words) {
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(words);
    if (found == known_.end()) throw std::logic_error("far backend: a pointer that is not far");
    if (found->second.first != memory) {
      throw std::logic_error("far backend: counters of another far memory");
    }
    return *found->second.second;
  }

 private:
  std::mutex mutex_;
  std::map<const std::uint64_t*, std::pair<std::string_view, FarPages*>> known_;
};
inline FarPointers& far_pointers() {
  static FarPointers pointers;
  return pointers;
}

class HoldOpen {
 public:
  explicit HoldOpen(FarPages& pages) : pages_(pages) { pages_.open(); }
  HoldOpen(const HoldOpen&) = delete;
  HoldOpen& operator=(const HoldOpen&) = delete;
  ~HoldOpen() { pages_.close(); }

 private:
  FarPages& pages_;
};

class FarStore final : public scbf::CounterStore {
 public:
  FarStore(std::string_view memory, std::uint64_t words)
      : CounterStore({.on_host = false}), name_(memory), pages_(words) {
    memory_.words = pages_.data();
    far_pointers().add(name_, pages_);
    ++far_log().stores;
    far_log().allocated += words;
  }
  ~FarStore() override {
    far_pointers().drop(pages_);
    --far_log().stores;
  }

  void clear() override {
    far_log().copy_may_fail();
    const HoldOpen hold(pages_);
    std::memset(pages_.data(), 0, pages_.words() * 8);
  }
  void read(std::uint64_t first, std::span<std::uint64_t> out) const override {
    check(first, out.size());
    far_log().words_read += out.size();
    const HoldOpen hold(pages_);
    std::memcpy(out.data(), pages_.data() + first, out.size_bytes());
  }
  void write(std::uint64_t first, std::span<const std::uint64_t> in) override {
    check(first, in.size());
    far_log().words_written += in.size();
    const HoldOpen hold(pages_);
    std::memcpy(pages_.data() + first, in.data(), in.size_bytes());
  }
  void copy_from(const scbf::CounterStore& other) override {
    far_log().copy_may_fail();
    FarPages& from = far_pointers().pages(name_, other.words());
    if (from.words() != pages_.words()) throw std::logic_error("far store: sizes differ");
    far_log().words_copied += from.words();
    const HoldOpen hold(pages_), hold_from(from);
    std::memcpy(pages_.data(), from.data(), from.words() * 8);
  }

 private:
  void check(std::uint64_t first, std::uint64_t count) const {
    if (first > pages_.words() || count > pages_.words() - first) {
      throw std::logic_error("far store: out of bounds");
    }
    far_log().copy_may_fail();
  }

  std::string_view name_;  ///< of the memory
  mutable FarPages pages_;
};

class FarBackend final : public scbf::Backend {
 public:
  FarBackend(std::string_view name, std::string_view memory) : name_(name), memory_(memory) {}

  std::string_view name() const noexcept override { return name_; }
  std::string_view description() const noexcept override { return "the model, in far memory"; }
  std::string_view target() const noexcept override { return "far"; }
  std::string unavailable_reason() const override { return {}; }
  std::string_view memory() const noexcept override { return memory_; }
  std::unique_ptr<scbf::CounterStore> allocate(std::uint64_t words) const override {
    if (far_log().fail_allocate) throw FarError("far memory: no room, as was asked for");
    return std::make_unique<FarStore>(memory_, words);
  }

  /// Does not count non-zero counters, as a device might not: filters must call count_nonzero.
  scbf::NonzeroChange insert(scbf::CounterView view, const scbf::KeyBatch& keys,
                             const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(view));
    model().insert(view, keys, options);
    return {};
  }
  scbf::NewKeys insert_new(scbf::CounterView view, const scbf::KeyBatch& keys, std::uint8_t* out,
                           const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(view));
    return {model().insert_new(view, keys, out, options).keys, {}};
  }
  std::uint64_t contains(std::span<const scbf::ConstCounterView> filters,
                         const scbf::KeyBatch& keys, std::uint8_t* out,
                         const scbf::BatchOptions& options) const override {
    const auto hold = hold_all(filters);
    return model().contains(filters, keys, out, options);
  }
  std::uint64_t count(std::span<const scbf::ConstCounterView> filters, const scbf::KeyBatch& keys,
                      std::uint8_t* out, const scbf::BatchOptions& options) const override {
    const auto hold = hold_all(filters);
    return model().count(filters, keys, out, options);
  }
  /// Unlike insert, it does count.
  scbf::RemoveCounts remove(std::span<const scbf::CounterView> filters, const scbf::KeyBatch& keys,
                            std::uint8_t* verdicts, std::span<scbf::RemovalChange> changes,
                            const scbf::BatchOptions& options) const override {
    const auto hold = hold_all(filters);
    return model().remove(filters, keys, verdicts, changes, options);
  }
  void merge(scbf::CounterView into, scbf::ConstCounterView from,
             const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(into)), hold_from(pages(from));
    model().merge(into, from, options);
  }
  scbf::SubtractCounts check_subtract(scbf::ConstCounterView from, scbf::ConstCounterView what,
                                      const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(from)), hold_what(pages(what));
    return model().check_subtract(from, what, options);
  }
  void subtract(scbf::CounterView from, scbf::ConstCounterView what,
                const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(from)), hold_what(pages(what));
    model().subtract(from, what, options);
  }
  std::vector<scbf::Histogram> histograms(scbf::ConstCounterView view,
                                          const scbf::BatchOptions& options) const override {
    const HoldOpen hold(pages(view));
    ++far_log().counted;
    far_log().last_executor = options.executor;
    return model().histograms(view, options);
  }

 private:
  static const scbf::Backend& model() { return scbf::scalar_backend(); }
  template <class View>
  std::vector<std::unique_ptr<HoldOpen>> hold_all(std::span<const View> filters) const {
    std::vector<std::unique_ptr<HoldOpen>> all;
    for (const View& filter : filters) all.push_back(std::make_unique<HoldOpen>(pages(filter)));
    return all;
  }
  template <class Word>
  FarPages& pages(const scbf::BasicCounterView<Word>& view) const {
    FarPages& pages = far_pointers().pages(memory_, view.words);
    if (pages.words() != view.geometry.words()) throw std::logic_error("far backend: wrong size");
    return pages;
  }

  std::string_view name_, memory_;
};

/// Adds three backends to the table: "far", "far:again" in the same memory, and "farther" in
/// another, once. Call it while the program starts.
inline bool add_far_backends() {
  static const FarBackend far("far", "far memory"), again("far:again", "far memory"),
      farther("farther", "farther memory");
  static const bool added = [] {
    for (const scbf::Backend* backend : {&far, &again, &farther}) scbf::add_backend(*backend);
    return true;
  }();
  return added;
}

}  // namespace scbf_test
