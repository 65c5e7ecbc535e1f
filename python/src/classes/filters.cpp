// SPDX-License-Identifier: Apache-2.0
// Filter.
#include "scbf/filter.hpp"

#include "classes/filter_class.hpp"
#include "module.hpp"
#include "outside.hpp"

namespace scbf::python {
namespace {

using HeldFilter = Held<Filter>;

/// A removal that must see all keys at once, because all or none are removed: they are hashed
/// first.
RemoveReport remove_together(HeldFilter& self, const Parts& parts, const Verdicts& verdicts,
                             const BatchOptions& options) {
  const std::uint64_t seed = self.value.seed();
  std::vector<std::uint64_t> hashes(parts.size);
  std::vector<std::byte> validity((parts.size + 7) / 8, std::byte{0});
  Run run(nb::none(), parts.size, seed);
  run.over(parts, [&](const KeyBatch& batch, std::size_t first) {
    for_each_hash(batch, seed, [&](std::size_t i, std::uint64_t hash) {
      hashes[first + i] = hash;
      validity[(first + i) / 8] |= std::byte(1u << ((first + i) % 8));
    });
  });
  const KeyBatch all = KeyBatch::from_hashes(hashes);
  Outside others_may_run;
  return self.value.remove(parts.size > 0 ? all.with_validity(validity) : all,
                           verdicts.part(0, parts.size), options);
}

/// A removal that reports only totals: many small columns go as one batch. After an exception, all
/// keys accepted so far have had their turn.
RemoveReport remove_in_bulk(HeldFilter& self, const Parts& parts, const CallOptions& options) {
  Run run(options.progress, parts.size, self.value.seed());
  BulkRemover bulk = self.value.bulk_remove(options.batch);
  const auto finish = [&] {
    Outside others_may_run;
    return bulk.finish();
  };
  RemoveReport not_known_yet;
  try {
    change_in_pieces<RemovalStopped>(parts, run, not_known_yet,
                                     [&](const KeyBatch& batch, std::size_t) {
                                       bulk.remove(batch);
                                       return RemoveReport{};
                                     });
  } catch (const RemovalStopped& stopped) {
    throw RemovalStopped(stopped, stopped.processed(), finish());
  } catch (...) {
    finish();
    throw;
  }
  return finish();
}

nb::object remove(HeldFilter& self, nb::object keys, nb::object out,
                  std::optional<std::uint64_t> most_absent, CallOptions options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    if (most_absent || !out.is_none()) {
      throw InvalidArgument(
          "out and most_absent are for columns; for one key, remove() says what became of it");
    }
    Removal verdict{};
    {
      const BriefPassage inside(self.gate, Passage::To::change);
      verdict = key.visit([&](auto k) { return self.value.remove(k); });
    }
    if (verdict == Removal::absent) self.kinds.none_found(key.kind);
    return nb::cast(verdict);
  }
  const Parts parts(*keys_of(keys, seed_of(self)));
  const bool in_bulk = out.is_none() && parts.columns.size() > 1 && parts.size > kFewForBulk;
  const Verdicts verdicts(std::move(out), parts);
  RemoveReport sum;
  const auto remove_all = [&] {
    const Passage inside(self.gate, Passage::To::change);
    if (most_absent) {
      options.batch.most_absent = *most_absent;
      sum = remove_together(self, parts, verdicts, options.batch);
      return;
    }
    if (in_bulk) {
      sum = remove_in_bulk(self, parts, options);
      return;
    }
    Run run(options.progress, parts.size, self.value.seed());
    change_in_pieces<RemovalStopped>(
        parts, run, sum, [&](const KeyBatch& batch, std::size_t first) {
          return self.value.remove(batch, verdicts.part(first, batch.size()), options.batch);
        });
  };
  try {
    remove_all();
  } catch (const KeysAbsent& absent) {
    warn_if_none_found(self, absent.report(), parts);
    throw;
  }
  warn_if_none_found(self, sum, parts);
  return nb::cast(sum);
}

nb::object count(const HeldFilter& self, nb::object keys, nb::object out,
                 const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    check_no_out(out);
    unsigned count = 0;
    {
      const BriefPassage inside(self.gate, Passage::To::read);
      count = key.visit([&](auto k) { return self.value.count(k); });
    }
    if (count == 0) self.kinds.none_found(key.kind);
    return nb::int_(count);
  }
  const Parts parts(*keys_of(keys, seed_of(self)));
  Answers answers(std::move(out), parts, parts.size, "B");
  asking(self, parts, options, [&](const KeyBatch& batch, std::size_t first) {
    return self.value.count(batch, answers.span().subspan(first, batch.size()), options.batch).hits;
  });
  return std::move(answers).array<std::uint8_t>();
}

std::uint64_t subtract(HeldFilter& self, const HeldFilter& other) {
  const PassageToBoth inside(self.gate, Passage::To::change, other.gate);
  self.check_no_exports();
  Outside others_may_run;
  return self.value.subtract(other.value).inexact_counters;
}

}  // namespace

void add_filters(nb::module_& module) {
  filter_class<Filter>(module, "Filter", R"(A set that changes, as a split counting Bloom filter.

Made from two of ``capacity`` (distinct keys), ``fpr`` (false-positive rate) and ``memory_bytes``, or from a
``geometry``, or from a ``growth``. All three of the first are allowed, too, if they go together. ``layout`` is that of
the plan, "split_block" by default; ``seed`` (0 to 2**64 - 1) makes other hashes of the same keys; ``backend`` is a name
that scbf.backends() lists. Filters can be combined only if their geometries and seeds are equal.

Any number of threads may ask at once; one that changes the filter waits for the others, and they for it.

>>> import scbf
>>> seen = scbf.Filter(capacity=1_000_000, fpr=0.01)
>>> seen.insert(["apple", "banana"])
<scbf.InsertReport: 2 inserted, 0 nulls>
>>> "apple" in seen, "durian" in seen
(True, False)
>>> seen.remove("apple")
Removal.removed
>>> seen.contains(["apple", "banana"])
array([False,  True])
>>> seen
<scbf.Filter: split_block, 1 group of 89299 blocks, 1 key, fill 0.000, 5715136 bytes>)")
      .def(
          "remove",
          [](HeldFilter& self, nb::object keys, nb::object out,
             std::optional<std::uint64_t> most_absent, nb::handle threads, std::string_view path,
             nb::object progress) {
            return remove(self, std::move(keys), std::move(out), most_absent,
                          call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("most_absent") = nb::none(), nb::arg("threads").none() = 0,
          nb::arg("path") = "automatic", nb::arg("progress") = nb::none(),
          nb::sig("def remove(self, keys: Key | KeyColumn, out: NDArray[Any] | None = "
                  "None, *, most_absent: int | None = None, threads: int = 0, path: BatchPath = "
                  "'automatic', progress: Progress = None) -> RemoveReport | Removal"),
          R"(Removes a column of keys, one after another, or one key.

A key that is not there is left alone and reported as absent. One that was never inserted may look present, at
the filter's rate; removing it damages others, so remove only what was inserted.

Args:
    keys: see the package's documentation.
    out: a contiguous array of n uint8 for what became of each key, as a Removal.
    most_absent: makes it all or nothing: if more keys than this are absent, KeysAbsent is raised and nothing
        is changed. 0 if all keys must be there. Ctrl-C is noticed before and after the removal itself.
    threads, progress: as in contains(); no progress is reported with most_absent.
Returns:
    a RemoveReport; for one key a Removal.)")
      .def(
          "count",
          [](const HeldFilter& self, nb::object keys, nb::object out, nb::handle threads,
             std::string_view path, nb::object progress) {
            return count(self, std::move(keys), std::move(out),
                         call_options(threads, path, std::move(progress)));
          },
          nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("threads").none() = 0, nb::arg("path") = "automatic",
          nb::arg("progress") = nb::none(),
          nb::sig(
              "def count(self, keys: Key | KeyColumn, out: NDArray[Any] | None = None, "
              "*, threads: int = 0, path: BatchPath = 'automatic', progress: Progress = None) -> "
              "Any"),
          "How often is each key in the filter, at most? The smallest of its counters: 15 means 15 "
          "or more or, in layout ranked, unknown, where a block is full. Returns an array of n "
          "uint8 (``out``, if that was given); for one key an int.")
      .def("subtract", &subtract, nb::arg("other"),
           "Takes the other filter's keys away: the inverse of merge(). Also as ``-=``; ``-`` "
           "makes a new one. Returns how many counters may now be too high, because nobody knows "
           "what they would be: those at 15, which means 15 or more; in layout ranked those at "
           "255, and those of blocks whose counts are lost. Raises Incompatible, changing nothing, "
           "if the other filter is not contained in this one.")
      .def(
          "__isub__",
          [](nb::object self, const HeldFilter& other) {
            self.attr("subtract")(nb::find(other));
            return self;
          },
          nb::sig("def __isub__(self, other: Self, /) -> Self"), nb::is_operator())
      .def(
          "__sub__",
          [](const HeldFilter& self, const HeldFilter& other) {
            nb::object rest = nb::find(self).attr("copy")();
            rest.attr("subtract")(nb::find(other));
            return rest;
          },
          nb::sig("def __sub__(self, other: Self, /) -> Self"), nb::is_operator());
}

}  // namespace scbf::python
