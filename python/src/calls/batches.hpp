// SPDX-License-Identifier: Apache-2.0
// The batch calls that Filter and BloomFilter have in common, for one key and for columns.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "calls/answers.hpp"
#include "calls/open_insertion.hpp"
#include "calls/run.hpp"
#include "errors.hpp"
#include "held.hpp"
#include "keys/keys.hpp"
#include "outside.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"

namespace scbf::python {

/// The number of threads to use. Throws InvalidArgument.
inline unsigned thread_number(nanobind::handle threads) {
  PyObject* const object = threads.ptr();
  if (PyLong_CheckExact(object)) {  // the usual case, without a detour
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0 && std::in_range<unsigned>(number)) return static_cast<unsigned>(number);
  }
  unsigned number = 0;
  if (!PyBool_Check(object) && nanobind::try_cast(threads, number)) return number;
  throw InvalidArgument(
      fmt::format("threads {}: must be 0, for all that the machine has, or their number",
                  shown(threads.ptr())));
}

/// Keyword arguments of every batch call.
struct CallOptions {
  BatchOptions batch;
  nanobind::object progress;
};

inline void check_progress(nanobind::handle progress) {
  if (!progress.is_none() && !PyCallable_Check(progress.ptr())) {
    throw nanobind::type_error(
        "progress: must be callable, with (keys done, keys in all), or None");
  }
}

inline CallOptions call_options(nanobind::handle threads, std::string_view path,
                                nanobind::object progress) {
  CallOptions options;
  options.batch.threads = thread_number(threads);
  options.batch.path = path_from_string(path);
  check_progress(progress);
  options.progress = std::move(progress);
  return options;
}

inline void check_no_out(const nanobind::object& out) {
  if (!out.is_none()) throw InvalidArgument("out is for columns of keys, and this is one key");
}

/// The seed that keys are hashed with before their turn comes. `own`: as in BriefPassage.
template <class F>
std::uint64_t seed_of(const Held<F>& self, const Unfinished* own = nullptr) {
  const BriefPassage inside(self.gate, Passage::To::read, own);
  return self.value.seed();
}

template <class F>
bool contains_one(const Held<F>& self, const SingleKey& key) {
  bool found = false;
  {
    const BriefPassage inside(self.gate, Passage::To::read);
    found = key.visit([&](auto k) { return self.value.contains(k); });
  }
  if (!found) self.kinds.none_found(key.kind);
  return found;
}

/// Calls ask(batch, number of its first key), which returns the number of hits, for all pieces of
/// keys that a filter is asked for. Warns if there are no hits and the keys are not of its kind.
template <class F, class Ask>
void asking(const Held<F>& self, const Parts& parts, const CallOptions& options, Ask ask) {
  KindsOfKeys kinds = KindsOfKeys::none;
  std::uint64_t hits = 0;
  {
    const Passage inside(self.gate, Passage::To::read);
    Run run(options.progress, parts.size, self.value.seed());
    run.over(parts, [&](const KeyBatch& batch, std::size_t first) { hits += ask(batch, first); });
    kinds = run.kinds();
  }
  if (hits == 0) self.kinds.none_found(kinds);
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
  Answers answers(std::move(out), parts, parts.size, "?B");
  asking(self, parts, options, [&](const KeyBatch& batch, std::size_t first) {
    return self.value.contains(batch, answers.span().subspan(first, batch.size()), options.batch)
        .hits;
  });
  return std::move(answers).array<bool>();
}

/// The answers of contains_bits(), piece by piece.
class PackedAnswers {
 public:
  PackedAnswers(nanobind::object out, const Parts& parts)
      : answers_(std::move(out), parts, (parts.size + 7) / 8, "B") {}

  /// Those of a piece that begins with key `first`. Returns the hits.
  template <class F>
  std::uint64_t add(const F& filter, const KeyBatch& batch, std::size_t first,
                    const BatchOptions& options) {
    const std::span<std::uint8_t> bits = answers_.span();
    if (first % 8 == 0) {
      return filter.contains_bits(batch, bits.subspan(first / 8, (batch.size() + 7) / 8), options)
          .hits;
    }
    // A piece that begins inside a byte.
    bytes_.resize(batch.size());
    const std::uint64_t hits = filter.contains(batch, bytes_, options).hits;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::size_t bit = first + i;
      if (bit % 8 == 0) bits[bit / 8] = 0;
      bits[bit / 8] = static_cast<std::uint8_t>(bits[bit / 8] | (bytes_[i] << (bit % 8)));
    }
    return hits;
  }
  nanobind::object array() && { return std::move(answers_).template array<std::uint8_t>(); }

 private:
  Answers answers_;
  std::vector<std::uint8_t> bytes_;
};

/// The answers of find(), piece by piece.
class FoundIndices {
 public:
  template <class F>
  std::uint64_t add(const F& filter, const KeyBatch& batch, std::size_t first,
                    const BatchOptions& options) {
    piece_.resize(batch.size());
    const std::uint64_t hits = filter.find(batch, piece_, options).hits;
    const std::size_t before = found_.size();
    found_.resize(before + hits);
    std::transform(piece_.begin(), piece_.begin() + static_cast<std::ptrdiff_t>(hits),
                   found_.begin() + static_cast<std::ptrdiff_t>(before),
                   [first](std::uint64_t i) { return i + first; });
    return hits;
  }
  nanobind::object array() && {
    found_.shrink_to_fit();
    return numpy_array<std::int64_t, std::uint64_t>(std::move(found_));
  }

 private:
  std::vector<std::uint64_t> found_, piece_;
};

template <class F>
nanobind::object contains_bits(const Held<F>& self, nanobind::object keys, nanobind::object out,
                               const CallOptions& options) {
  const Parts parts(*keys_of(keys, seed_of(self)));
  PackedAnswers answers(std::move(out), parts);
  asking(self, parts, options, [&](const KeyBatch& batch, std::size_t first) {
    return answers.add(self.value, batch, first, options.batch);
  });
  return std::move(answers).array();
}

template <class F>
nanobind::object find(const Held<F>& self, nanobind::object keys, const CallOptions& options) {
  const Parts parts(*keys_of(keys, seed_of(self)));
  FoundIndices answers;
  asking(self, parts, options, [&](const KeyBatch& batch, std::size_t first) {
    return answers.add(self.value, batch, first, options.batch);
  });
  return std::move(answers).array();
}

template <class F>
std::uint64_t count_present(const Held<F>& self, nanobind::object keys,
                            const CallOptions& options) {
  const Parts parts(*keys_of(keys, seed_of(self)));
  std::uint64_t present = 0;
  asking(self, parts, options, [&](const KeyBatch& batch, std::size_t) {
    const std::uint64_t hits = self.value.count_present(batch, options.batch).hits;
    present += hits;
    return hits;
  });
  return present;
}

/// Calls change(batch, number of its first key) for all pieces, and adds its reports up. If memory
/// runs out once some keys are done, throws a Stopped that says how far the whole call got.
template <class Stopped, class Report, class Change>
void change_in_pieces(const Parts& parts, Run& run, Report& sum, Change change) {
  const auto stop = [&](const char* why, std::uint64_t processed, const Report& done) {
    const std::uint64_t first = run.done();
    const Error error(fmt::format("{} (of a piece of the keys that begins at key {})", why, first));
    const Report of_all = Report(sum) += done;
    if constexpr (std::is_same_v<Stopped, MembersFull>) {
      throw MembersFull(error, 0, {first + processed}, of_all);
    } else {
      throw Stopped(error, first + processed, of_all);
    }
  };
  parts.check();
  try {
    run.over(parts, [&](const KeyBatch& batch, std::size_t first) { sum += change(batch, first); });
  } catch (const Stopped& stopped) {
    if (run.done() == 0) throw;
    stop(stopped.what(), stopped.processed(), stopped.done());
  } catch (...) {
    const std::optional<std::string> shortage = shortage_of(std::current_exception());
    if (!shortage || run.done() == 0) throw;
    stop(shortage->c_str(), 0, {});  // nothing of this piece was changed
  }
}

/// While it exists, keys of these kinds may be inserted. If some were, notes their kinds.
template <class F>
struct Inserting {
  Inserting(Held<F>& filter, KindsOfKeys keys) : self(filter), kinds(keys) {}
  Inserting(const Inserting&) = delete;
  Inserting& operator=(const Inserting&) = delete;
  ~Inserting() {
    if (self.value.keys_inserted() != before) self.kinds.inserted(kinds);
  }

  Held<F>& self;
  KindsOfKeys kinds;
  std::uint64_t before = self.value.keys_inserted();
};

/// Calls insert(parts, run, report, whether parts may follow) for the keys that `object` has: all
/// at once, or part by part where Python code yields them. Such code may ask the filter meanwhile
/// and sees the parts before.
template <class Insert>
InsertReport insert_from(nanobind::handle object, std::uint64_t seed, nanobind::object progress,
                         Insert insert) {
  const std::unique_ptr<KeySource> source = keys_of(object, seed);
  InsertReport sum;
  if (source->runs_python()) {
    Run run(std::move(progress), 0, seed);
    while (auto column = source->next()) insert(Parts(std::move(column)), run, sum, true);
    run.finish();
  } else {
    const Parts parts(*source);
    Run run(std::move(progress), parts.size, seed);
    insert(parts, run, sum, false);
  }
  return sum;
}

/// Inserts the keys that `object` has. Where Python code yields them, some may not be in the filter
/// yet when this returns or throws; otherwise `then` says.
template <class F>
InsertReport insert_open(Held<F>& self, const std::shared_ptr<OpenInsertion>& insertion,
                         nanobind::handle object, nanobind::object progress, Turn::Then then) {
  return insert_from(object, seed_of(self, insertion.get()), std::move(progress),
                     [&](const Parts& parts, Run& run, InsertReport& sum, bool more) {
                       const Turn turn(self.gate, insertion, more ? Turn::Then::goes_on : then);
                       const Inserting inserting{self, parts.kinds()};
                       insertion->expect(parts.size);
                       change_in_pieces<FilterFull>(parts, run, sum,
                                                    [&](const KeyBatch& batch, std::size_t) {
                                                      return insertion->insert(batch);
                                                    });
                     });
}

/// Issues the warning, if there is one. Throws python_error if warnings are errors.
inline void warn_overfull(const std::string& warning) {
  if (warning.empty()) return;
  const auto overfull = nanobind::module_::import_("scbf.errors").attr("OverfullWarning");
  if (PyErr_WarnEx(overfull.ptr(), warning.c_str(), 1) != 0) throw nanobind::python_error();
}

/// Warns if the filter holds clearly more keys than it was made for.
template <class F>
void warn_if_overfull(Held<F>& self) {
  std::string warning;
  {
    const Passage inside(self.gate, Passage::To::read);
    const std::uint64_t inserted = self.value.keys_inserted();
    if (self.planned.is_due(inserted)) {  // another thread may have looked meanwhile
      Outside others_may_run;
      warning = self.planned.look(self.value, inserted, "the filter");
    }
  }
  if (!warning.empty() && self.planned.may_warn()) warn_overfull(warning);
}

/// An InsertReport; None for one key.
template <class F>
nanobind::object insert(Held<F>& self, nanobind::object keys, const CallOptions& options) {
  nanobind::object result = nanobind::none();
  bool is_due = false;  // to look whether it is overfull
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    const BriefPassage inside(self.gate, Passage::To::change);
    key.visit([&](auto k) { self.value.insert(k); });
    self.kinds.inserted(key.kind);
    is_due = self.planned.is_due(self.value.keys_inserted());
  } else {
    const auto insertion = std::make_shared<OpenInsertion>(self.value, options.batch);
    try {
      result =
          nanobind::cast(insert_open(self, insertion, keys, options.progress, Turn::Then::finish));
    } catch (...) {
      finish_if_free(self.gate, insertion.get());
      throw;
    }
    is_due = self.planned.is_due(insertion->filter_keys());
    if (insertion->goes_on()) Turn(self.gate, insertion, Turn::Then::finish);
  }
  if (is_due) warn_if_overfull(self);
  return result;
}

/// Which keys were new; for one key a bool.
template <class F>
nanobind::object insert_new(Held<F>& self, nanobind::object keys, nanobind::object out,
                            const CallOptions& options) {
  nanobind::object result;
  bool is_due = false;  // to look whether it is overfull
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    check_no_out(out);
    const BriefPassage inside(self.gate, Passage::To::change);
    result = nanobind::bool_(key.visit([&](auto k) { return self.value.insert_new(k); }));
    if (nanobind::cast<bool>(result)) self.kinds.inserted(key.kind);
    is_due = self.planned.is_due(self.value.keys_inserted());
  } else {
    const Parts parts(*keys_of(keys, seed_of(self)));
    Answers answers(std::move(out), parts, parts.size, "?B");
    {
      const Passage inside(self.gate, Passage::To::change);
      const Inserting inserting{self, parts.kinds()};
      Run run(options.progress, parts.size, self.value.seed());
      InsertReport sum;
      change_in_pieces<FilterFull>(parts, run, sum, [&](const KeyBatch& batch, std::size_t first) {
        const InsertNewReport report = self.value.insert_new(
            batch, answers.span().subspan(first, batch.size()), options.batch);
        return InsertReport{report.inserted, report.nulls};
      });
      is_due = self.planned.is_due(self.value.keys_inserted());
    }
    result = std::move(answers).template array<bool>();
  }
  if (is_due) warn_if_overfull(self);
  return result;
}

/// The caller's array for what became of each key of a removal, if there is one.
class Verdicts {
 public:
  Verdicts(nanobind::object out, const Parts& parts) {
    if (!out.is_none()) answers_.emplace(std::move(out), parts, parts.size, "B");
  }
  std::span<std::uint8_t> part(std::size_t first, std::size_t size) const {
    return answers_ ? answers_->span().subspan(first, size) : std::span<std::uint8_t>();
  }

 private:
  std::optional<Answers> answers_;
};

/// After a removal: warns if none of the keys was found, and they are not of the kind that the
/// filter or bank holds.
template <class Value>
void warn_if_none_found(const Held<Value>& self, const RemoveReport& report, const Parts& parts) {
  if (report.absent > 0 && report.removed + report.ambiguous + report.kept == 0) {
    self.kinds.none_found(parts.kinds());
  }
}

/// The C++ object in a slot's first argument. Throws type_error if its __init__ has not run.
template <class Value>
const Value& ready(PyObject* self) {
  if (!nanobind::inst_ready(nanobind::handle(self)))
    throw nanobind::type_error("it was made without __init__");
  return *nanobind::inst_ptr<Value>(nanobind::handle(self));
}

/// Throws what `in` says to an object that is no single key.
[[noreturn]] inline void refuse_in(PyObject* object) {
  if (!looks_like_column(object)) throw InvalidKey(refusal(object));
  throw InvalidKey("`in` asks for one key; use contains() for a column of keys");
}

/// `key in filter`, as a slot of the type: half the time of a method.
template <class F>
int contains_slot(PyObject* self, PyObject* object) noexcept {
  try {
    SingleKey key;
    if (!is_single_key(object, key)) refuse_in(object);
    return contains_one(ready<Held<F>>(self), key) ? 1 : 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace scbf::python
