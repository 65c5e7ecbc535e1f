// SPDX-License-Identifier: Apache-2.0
// Batches from arbitrary bytes: a geometry, options, and operations on keys of every kind, with
// arbitrary offsets and bitmaps. Either an exception refuses the arguments, or all backends do the
// same. Anything else is a crash.
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "scbf/filter.hpp"

namespace {

/// Takes values from the front of the input, and zeros once it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  template <class T>
  T value() {
    T result{};
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      reinterpret_cast<unsigned char*>(&result)[i] = byte();
    }
    return result;
  }
  template <class T>
  std::vector<T> values(std::size_t n) {
    std::vector<T> result(n);
    for (T& v : result) v = value<T>();
    return result;
  }
  /// The vector's memory ends with the bytes, so that the sanitizer sees reads past them.
  std::vector<std::byte> bytes(std::size_t n) { return values<std::byte>(n); }

 private:
  std::span<const std::uint8_t> rest_;
};

scbf::Geometry geometry_from(Input& input) {
  const std::uint8_t kind = input.byte();
  switch (kind % 3) {
    case 0:
      return scbf::Geometry::split_block(1 + kind / 3 % 4, 1 + input.byte() % 40);
    case 1:
      return scbf::Geometry::split(1 + kind / 3 % 21, 1 + input.value<std::uint16_t>() % 500);
    default: {  // few blocks, so that they spill and are stuck
      const std::uint64_t blocks = 1 + input.byte() % 8;
      return scbf::Geometry::ranked(65 + kind / 3 % 48, blocks, input.byte() % 6);
    }
  }
}

void must(bool condition) {
  if (!condition) std::abort();
}

class Run {
 public:
  explicit Run(Input& input)
      : input_(input), geometry_(geometry_from(input)), seed_(input.value<std::uint64_t>()) {
    for (const scbf::Backend* backend : scbf::backends()) {
      if (backend->unavailable_reason().empty() && backend->supports(geometry_.layout())) {
        filters_.emplace_back(geometry_, scbf::FilterOptions{seed_, backend->name()});
      }
    }
  }

  /// One operation on one batch, on all backends.
  void step() {
    const std::uint8_t operation = input_.byte(), kind = input_.byte();
    const std::size_t n = input_.byte();
    // The batch refers to these.
    std::vector<std::uint64_t> numbers;
    std::vector<std::byte> data, bitmap;
    std::vector<std::int32_t> offsets32;
    std::vector<std::int64_t> offsets64;
    std::vector<std::string> strings;
    scbf::KeyBatch keys = numbers;
    switch (kind % 6) {
      case 0:
        numbers = input_.values<std::uint64_t>(n);
        keys = numbers;
        break;
      case 1:  // few different keys, repeated
        for (std::size_t i = 0; i < n * 20; ++i) numbers.push_back(i * i % (1 + kind / 6));
        keys = numbers;
        break;
      case 2:
        numbers = input_.values<std::uint64_t>(n);
        keys = scbf::KeyBatch::from_hashes(numbers);
        break;
      case 3:
        data = input_.bytes(n);
        keys = scbf::KeyBatch::from_fixed(data, input_.byte());
        break;
      case 4:
        offsets32 = input_.values<std::int32_t>(n % 16);
        data = input_.bytes(input_.byte());
        keys = scbf::KeyBatch::from_offsets(data, offsets32);
        break;
      default:
        // Offsets that are often in order.
        for (std::int64_t at = 0; offsets64.size() < n % 32; at += input_.value<std::int8_t>()) {
          offsets64.push_back(at);
        }
        data = input_.bytes(input_.byte());
        keys = scbf::KeyBatch::from_offsets(data, offsets64);
    }
    if (operation & 0x80) {
      bitmap = input_.bytes(input_.byte());
      keys = keys.with_validity(bitmap, input_.byte() % 20);
    }
    if (operation & 0x40) keys = keys.slice(input_.byte(), input_.byte());
    const std::uint8_t mode = input_.byte();
    const scbf::BatchOptions options{
        .threads = 1u + (mode >> 6 & 1u),
        .path = static_cast<scbf::Path>(mode % 3),
        .scratch_bytes = mode & 0x80 ? std::size_t{1} << (mode / 4 % 24) : 0};
    const unsigned which = operation % 16;
    apply(which == 15 ? 8 : which == 10 ? 9 : which % 8, keys, options);
  }

 private:
  /// Either all backends subtract the other filter, or all refuse.
  void subtract(scbf::Filter& filter, const scbf::Filter& other, const scbf::BatchOptions& options,
                bool first) {
    bool refused = false;
    try {
      filter.subtract(other, options);
    } catch (const scbf::Incompatible&) {
      refused = true;
    }
    if (first) first_refused_ = refused;
    must(refused == first_refused_);
  }

  void apply(unsigned operation, const scbf::KeyBatch& keys, const scbf::BatchOptions& options) {
    std::vector<std::uint8_t> want;
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      scbf::Filter& filter = filters_[i];
      std::vector<std::uint8_t> answers(keys.size(), 0xCC);
      switch (operation) {
        case 0:
        case 1:
          filter.insert(keys, options);
          break;
        case 7: {  // as one insertion, however it is cut
          scbf::BulkInserter bulk = filter.bulk(options);
          const std::size_t cut = keys.size() / (1 + i);
          bulk.insert(keys.slice(0, cut));
          bulk.insert(keys.slice(cut, keys.size() - cut));
          break;
        }
        case 8:
          if (filter.backend().memory() == scbf::kHostMemory) {
            filter.insert_new(keys, answers, options);
          } else {  // which has none
            const std::string name(filter.backend().name());
            filter = filters_.front();
            filter.to(name);
            answers = want;
          }
          break;
        case 2:
          filter.remove(keys, answers, options);
          break;
        case 9: {  // as one removal, however it is cut
          scbf::BulkRemover bulk = filter.bulk_remove(options);
          const std::size_t cut = keys.size() / (1 + i);
          bulk.remove(keys.slice(0, cut));
          bulk.remove(keys.slice(cut, keys.size() - cut));
          break;
        }
        case 3:
          filter.contains(keys, answers, options);
          break;
        case 4:
        case 5: {  // another filter of these keys, merged or subtracted
          scbf::Filter other(geometry_, scbf::FilterOptions{seed_, filter.backend().name()});
          other.insert(keys, options);
          if (operation == 4) {
            filter.merge(other, options);
          } else {
            subtract(filter, other, options, i == 0);
          }
          break;
        }
        default:
          filter.count(keys, answers, options);
      }
      if (i == 0) want = answers;  // the first backend is the scalar one
      must(answers == want);
      must(filter == filters_.front());
    }
  }

  Input& input_;
  scbf::Geometry geometry_;
  std::uint64_t seed_;
  std::vector<scbf::Filter> filters_;
  bool first_refused_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Run run(input);
  for (int i = 0; i < 12 && !input.empty(); ++i) {
    try {
      run.step();
    } catch (const scbf::InvalidArgument&) {
      // Refused, so nothing has changed.
    }
  }
  return 0;
}
