// SPDX-License-Identifier: Apache-2.0
#include "comparators.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "blocked_filter.hpp"
#include "textbook_filter.hpp"

#if SCBF_BENCH_LIBBLOOM
#include <bloom.h>
#endif

namespace scbf::bench {

namespace {

class TextbookSubject final : public Subject {
 public:
  TextbookSubject(std::size_t n, double fpr) : filter_(n, fpr) {}

  void insert(KeySpan keys) override {
    for (std::size_t i = 0; i < keys.size; ++i) filter_.insert(hash(keys, i));
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for (std::size_t i = 0; i < keys.size; ++i) hits += out[i] = filter_.contains(hash(keys, i));
    return hits;
  }
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t removed = 0;
    for (std::size_t i = 0; i < keys.size; ++i) removed += out[i] = filter_.remove(hash(keys, i));
    return removed;
  }
  void count(KeySpan keys, std::uint8_t* out) override {
    for (std::size_t i = 0; i < keys.size; ++i) {
      out[i] = static_cast<std::uint8_t>(filter_.count(hash(keys, i)));
    }
  }
  void reset(KeySpan) override { filter_.clear(); }
  bool empty() const override { return filter_.empty(); }
  double bytes() const override { return static_cast<double>(filter_.bytes()); }
  std::optional<double> predicted_fpr(std::size_t n) const override {
    return filter_.predicted_fpr(n);
  }
  std::string target() const override { return "one key at a time"; }

 private:
  static std::uint64_t hash(KeySpan keys, std::size_t i) noexcept {
    return keys.words_each == 1 ? hash_of(keys.words + i, 8) : hash_of(keys.words + 2 * i, 16);
  }

  TextbookFilter filter_;
};

/// Counts the bytes that a container asks for. The overhead of malloc is left out, in its favour.
template <class T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(std::size_t& count) : bytes(&count) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : bytes(other.bytes) {}
  T* allocate(std::size_t n) {
    *bytes += n * sizeof(T);
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    *bytes -= n * sizeof(T);
    std::allocator<T>().deallocate(p, n);
  }
  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return bytes == other.bytes;
  }
  std::size_t* bytes;
};

class UnorderedSetSubject final : public Subject {
 public:
  explicit UnorderedSetSubject(std::size_t n) : set_(Allocator(bytes_)) { set_.reserve(n); }

  void insert(KeySpan keys) override {
    for (std::size_t i = 0; i < keys.size; ++i) set_.insert(keys.words[i]);
    most_bytes_ = std::max(most_bytes_, bytes_);
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for (std::size_t i = 0; i < keys.size; ++i) hits += out[i] = set_.contains(keys.words[i]);
    return hits;
  }
  std::uint64_t remove(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t removed = 0;
    for (std::size_t i = 0; i < keys.size; ++i) {
      removed += out[i] = static_cast<std::uint8_t>(set_.erase(keys.words[i]));
    }
    return removed;
  }
  void count(KeySpan, std::uint8_t*) override { throw std::logic_error("a set does not count"); }
  bool can_count() const override { return false; }
  void reset(KeySpan) override { set_.clear(); }
  bool empty() const override { return set_.empty(); }
  double bytes() const override { return static_cast<double>(most_bytes_); }
  std::optional<double> predicted_fpr(std::size_t) const override { return 0; }
  std::string target() const override { return "one key at a time"; }

 private:
  using Allocator = CountingAllocator<std::uint64_t>;

  std::size_t bytes_ = 0, most_bytes_ = 0;
  std::unordered_set<std::uint64_t, std::hash<std::uint64_t>, std::equal_to<>, Allocator> set_;
};

class BlockedSubject final : public Subject {
 public:
  BlockedSubject(std::size_t n, double fpr, bool ahead) : filter_(n, fpr), ahead_(ahead) {}

  void insert(KeySpan keys) override { filter_.insert(numbers(keys), ahead_); }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    return filter_.contains(numbers(keys), out, ahead_);
  }
  std::uint64_t remove(KeySpan, std::uint8_t*) override {
    throw std::logic_error("plain bits cannot be removed");
  }
  void count(KeySpan, std::uint8_t*) override { throw std::logic_error("plain bits do not count"); }
  bool can_remove() const override { return false; }
  bool can_count() const override { return false; }
  void reset(KeySpan) override { filter_.clear(); }
  void mark() override { marked_.assign(filter_.words().begin(), filter_.words().end()); }
  void return_to_mark() override { std::ranges::copy(marked_, filter_.words().begin()); }
  bool empty() const override { return filter_.empty(); }
  double bytes() const override { return static_cast<double>(filter_.bytes()); }
  std::optional<double> predicted_fpr(std::size_t n) const override {
    return filter_.predicted_fpr(n);
  }
  std::string target() const override { return BlockedFilter::target(); }

 private:
  static std::span<const std::uint64_t> numbers(KeySpan keys) {
    if (keys.words_each != 1) throw std::invalid_argument("blocked: keys must be numbers");
    return {keys.words, keys.size};
  }

  BlockedFilter filter_;
  bool ahead_;
  std::vector<std::uint64_t> marked_;
};

#if SCBF_BENCH_LIBBLOOM
/// Asks for huge pages, which our filters have too. The memory works without them.
void advise_huge(void* data, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + bytes) / kHugePage * kHugePage;
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

class LibbloomSubject final : public Subject {
 public:
  LibbloomSubject(std::size_t n, double fpr) {
    if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
        bloom_init(&bloom_, static_cast<int>(n), fpr) != 0) {
      throw std::runtime_error("libbloom refuses " + std::to_string(n) + " keys");
    }
    advise_huge(bloom_.bf, static_cast<std::size_t>(bloom_.bytes));  // before the first touch
  }
  ~LibbloomSubject() override { bloom_free(&bloom_); }

  void insert(KeySpan keys) override {
    for (std::size_t i = 0; i < keys.size; ++i) bloom_add(&bloom_, key(keys, i), width(keys));
  }
  std::uint64_t contains(KeySpan keys, std::uint8_t* out) override {
    std::uint64_t hits = 0;
    for (std::size_t i = 0; i < keys.size; ++i) {
      hits += out[i] =
          static_cast<std::uint8_t>(bloom_check(&bloom_, key(keys, i), width(keys)) == 1);
    }
    return hits;
  }
  std::uint64_t remove(KeySpan, std::uint8_t*) override {
    throw std::logic_error("libbloom cannot remove");
  }
  void count(KeySpan, std::uint8_t*) override { throw std::logic_error("libbloom cannot count"); }
  bool can_remove() const override { return false; }
  bool can_count() const override { return false; }
  void reset(KeySpan) override {
    std::memset(bloom_.bf, 0, static_cast<std::size_t>(bloom_.bytes));
  }
  void mark() override { marked_.assign(bloom_.bf, bloom_.bf + bloom_.bytes); }
  void return_to_mark() override { std::copy(marked_.begin(), marked_.end(), bloom_.bf); }
  bool empty() const override {
    return std::all_of(bloom_.bf, bloom_.bf + bloom_.bytes, [](unsigned char b) { return b == 0; });
  }
  double bytes() const override { return bloom_.bytes; }
  std::optional<double> predicted_fpr(std::size_t) const override { return {}; }
  std::string target() const override { return "one key at a time"; }

 private:
  static const void* key(KeySpan keys, std::size_t i) { return keys.words + i * keys.words_each; }
  static int width(KeySpan keys) { return static_cast<int>(8 * keys.words_each); }

  struct bloom bloom_ {};
  std::vector<unsigned char> marked_;
};
#endif

}  // namespace

std::unique_ptr<Subject> make_textbook(std::size_t n, double fpr) {
  return std::make_unique<TextbookSubject>(n, fpr);
}
std::unique_ptr<Subject> make_unordered_set(std::size_t n) {
  return std::make_unique<UnorderedSetSubject>(n);
}
std::unique_ptr<Subject> make_blocked(std::size_t n, double fpr, Calls calls) {
  return std::make_unique<BlockedSubject>(n, fpr, calls != Calls::key);
}
std::unique_ptr<Subject> make_libbloom([[maybe_unused]] std::size_t n,
                                       [[maybe_unused]] double fpr) {
#if SCBF_BENCH_LIBBLOOM
  return std::make_unique<LibbloomSubject>(n, fpr);
#else
  return nullptr;
#endif
}

}  // namespace scbf::bench
