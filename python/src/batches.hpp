// SPDX-License-Identifier: Apache-2.0
// The batch calls that Filter and BloomFilter have in common, for one key and for columns.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <vector>

#include "answers.hpp"
#include "held.hpp"
#include "keys.hpp"
#include "outside.hpp"
#include "run.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"

namespace scbf::python {

/// Keyword arguments of every batch call.
struct CallOptions {
  BatchOptions batch;
  nanobind::object progress;
};

inline Path path_of(std::string_view name) {
  if (name == "automatic") return Path::automatic;
  if (name == "direct") return Path::direct;
  if (name == "partitioned") return Path::partitioned;
  throw InvalidArgument(fmt::format("path '{}': must be automatic, direct or partitioned", name));
}

inline CallOptions call_options(unsigned threads, std::string_view path,
                                nanobind::object progress) {
  CallOptions options;
  options.batch.threads = threads;
  options.batch.path = path_of(path);
  if (!progress.is_none() && !PyCallable_Check(progress.ptr())) {
    throw nanobind::type_error(
        "progress: must be callable, with (keys done, keys in all), or None");
  }
  options.progress = std::move(progress);
  return options;
}

inline void check_no_out(const nanobind::object& out) {
  if (!out.is_none()) throw InvalidArgument("out is for columns of keys, and this is one key");
}

/// The seed that keys are hashed with before their turn comes.
template <class F>
std::uint64_t seed_of(const Held<F>& self) {
  const BriefPassage inside(self.gate, Passage::To::read);
  return self.value.seed();
}

template <class F>
bool contains_one(const Held<F>& self, const SingleKey& key) {
  const BriefPassage inside(self.gate, Passage::To::read);
  return key.visit([&](auto k) { return self.value.contains(k); });
}

template <class F>
nanobind::object contains(const Held<F>& self, nanobind::object keys, nanobind::object out,
                          const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    check_no_out(out);
    return nanobind::bool_(contains_one(self, key));
  }
  const Parts parts(*keys_of(keys, seed_of(self)));
  Answers answers(std::move(out), parts.size, "?B");
  const Passage inside(self.gate, Passage::To::read);
  Run run(options.progress, parts.size, self.value.seed());
  run.over(parts, [&](const KeyBatch& batch, std::size_t first) {
    self.value.contains(batch, answers.span().subspan(first, batch.size()), options.batch);
  });
  return std::move(answers).array<bool>();
}

template <class F>
nanobind::object contains_bits(const Held<F>& self, nanobind::object keys, nanobind::object out,
                               const CallOptions& options) {
  const Parts parts(*keys_of(keys, seed_of(self)));
  Answers answers(std::move(out), (parts.size + 7) / 8, "B");
  const Passage inside(self.gate, Passage::To::read);
  Run run(options.progress, parts.size, self.value.seed());
  const std::span<std::uint8_t> bits = answers.span();
  std::vector<std::uint8_t> bytes;
  run.over(parts, [&](const KeyBatch& batch, std::size_t first) {
    if (first % 8 == 0) {
      self.value.contains_bits(batch, bits.subspan(first / 8, (batch.size() + 7) / 8),
                               options.batch);
      return;
    }
    // A part that begins inside a byte.
    bytes.resize(batch.size());
    self.value.contains(batch, bytes, options.batch);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t bit = first + i;
      if (bit % 8 == 0) bits[bit / 8] = 0;
      bits[bit / 8] = static_cast<std::uint8_t>(bits[bit / 8] | (bytes[i] << (bit % 8)));
    }
  });
  return std::move(answers).array<std::uint8_t>();
}

template <class F>
nanobind::object find(const Held<F>& self, nanobind::object keys, const CallOptions& options) {
  const Parts parts(*keys_of(keys, seed_of(self)));
  const Passage inside(self.gate, Passage::To::read);
  Run run(options.progress, parts.size, self.value.seed());
  std::vector<std::uint64_t> found, piece;
  run.over(parts, [&](const KeyBatch& batch, std::size_t first) {
    piece.resize(batch.size());
    const std::uint64_t hits = self.value.find(batch, piece, options.batch).hits;
    found.reserve(found.size() + hits);
    for (std::uint64_t i = 0; i < hits; ++i) found.push_back(piece[i] + first);
  });
  found.shrink_to_fit();
  return numpy_array<std::int64_t, std::uint64_t>(std::move(found));
}

/// Adds what was done before a piece to what the exception says of the piece.
/// Call it where `error` is being handled.
[[noreturn]] inline void rethrow_after(const FilterFull& error, std::uint64_t first,
                                       const InsertReport& before) {
  if (first == 0) throw;  // whatever it is exactly
  throw FilterFull(
      Error(fmt::format("{} (of a piece of the keys that begins at key {})", error.what(), first)),
      first + error.processed(),
      {before.inserted + error.done().inserted, before.nulls + error.done().nulls});
}

template <class F>
void insert_column(Held<F>& self, const Column& column, Run& run, const BatchOptions& options,
                   InsertReport& report) {
  const auto in_pieces = [&](auto& target, const auto&... more) {
    run.over(column, [&](const KeyBatch& batch, std::size_t first) {
      try {
        const InsertReport piece = target.insert(batch, more...);
        report.inserted += piece.inserted;
        report.nulls += piece.nulls;
      } catch (const FilterFull& error) {
        rethrow_after(error, first, report);
      }
    });
  };
  constexpr std::size_t kFewKeys = std::size_t{1} << 18;
  if (column.size() <= kFewKeys) {
    in_pieces(self.value, options);
    return;
  }
  BulkInserter bulk(self.value, options);
  in_pieces(bulk);
  Outside others_may_run;
  bulk.finish();
}

/// None for one key.
template <class F>
nanobind::object insert(Held<F>& self, nanobind::object keys, const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    const BriefPassage inside(self.gate, Passage::To::change);
    key.visit([&](auto k) { self.value.insert(k); });
    return nanobind::none();
  }
  const std::uint64_t seed = seed_of(self);
  const std::unique_ptr<KeySource> source = keys_of(keys, seed);
  InsertReport report;
  if (source->runs_python()) {
    // What yields the keys may ask this filter, so nobody is inside meanwhile.
    Run run(options.progress, 0, seed);
    while (const auto column = source->next()) {
      const Passage inside(self.gate, Passage::To::change);
      insert_column(self, *column, run, options.batch, report);
    }
  } else {
    const Parts parts(*source);
    const Passage inside(self.gate, Passage::To::change);
    Run run(options.progress, parts.size, seed);
    for (const auto& column : parts.columns)
      insert_column(self, *column, run, options.batch, report);
  }
  return nanobind::cast(report);
}

/// The object of a slot's first argument. Throws InvalidArgument if its __init__ has not run.
template <class Value>
const Value& ready(PyObject* self) {
  if (!nanobind::inst_ready(nanobind::handle(self)))
    throw nanobind::type_error("it was made without __init__");
  return *nanobind::inst_ptr<Value>(nanobind::handle(self));
}

/// `key in filter`, as a slot of the type: half the time of a method.
template <class F>
int contains_slot(PyObject* self, PyObject* object) noexcept {
  try {
    SingleKey key;
    if (!is_single_key(object, key)) {
      throw InvalidKey("`in` asks for one key; use contains() for a column of keys");
    }
    return contains_one(ready<Held<F>>(self), key) ? 1 : 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace scbf::python
