// SPDX-License-Identifier: Apache-2.0
// Bank: many filters that are asked together; and BloomBank, their bits.
#include "scbf/bank.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classes/bank_class.hpp"
#include "classes/epochs.hpp"
#include "keys/single_key.hpp"
#include "module.hpp"
#include "outside.hpp"
#include "scbf/delta.hpp"
#include "text.hpp"

namespace scbf::python {
namespace {

using HeldBank = Held<Bank>;
using HeldBits = Held<BloomBank>;

std::uint32_t add_member(HeldBank& self, const Held<Filter>* filter) {
  if (!filter) {
    const Passage inside(self.gate, Passage::To::change);
    Outside others_may_run;
    return self.value.add_member();
  }
  return add_copy(self, *filter);
}

/// A warning of a member that holds clearly more than planned.
struct OverfullMember {
  PlannedFor* planned = nullptr;  ///< null: it does not
  std::string warning = {};

  void warn() const {
    if (planned != nullptr && planned->may_warn()) warn_overfull(warning);
  }
};

/// Looks at a member, under Passage::To::change. The plan stays where it is as long as the bank.
OverfullMember look_at_member(HeldBank& self, std::uint32_t member) {
  if (!self.planned.is_set()) return {};
  PlannedFor& planned = self.member_plans.try_emplace(member).first->second;
  if (!planned.is_set()) planned.take(self.planned);
  const StageView stage = self.value.stage(member, 0);
  if (!planned.is_due(stage.keys_inserted())) return {};
  Outside others_may_run;
  std::string warning =
      planned.look(stage, stage.keys_inserted(), fmt::format("member {} of the bank", member));
  if (warning.empty()) return {};
  return {&planned, std::move(warning)};
}

/// Calls insert(), which inserts keys of these parts in this run, and notes their kinds. If it
/// throws, some may be in.
template <class Insert>
void noting_kinds(HeldBank& self, const Parts& parts, const Run& run, Insert insert) {
  try {
    insert();
  } catch (...) {
    self.kinds.inserted(parts.kinds());
    throw;
  }
  self.kinds.inserted(run.kinds());
}

InsertReport insert(HeldBank& self, std::uint32_t member, nb::object keys,
                    const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) keys = nb::make_tuple(keys);
  OverfullMember overfull;
  const InsertReport report = insert_from(
      keys, seed_of(self), options.progress,
      [&](const Parts& parts, Run& run, InsertReport& sum, bool) {
        const Passage inside(self.gate, Passage::To::change);
        noting_kinds(self, parts, run, [&] {
          change_in_pieces<MembersFull>(parts, run, sum, [&](const KeyBatch& batch, std::size_t) {
            return self.value.insert(member, batch, options.batch);
          });
        });
        if (overfull.planned == nullptr) overfull = look_at_member(self, member);
      });
  overfull.warn();
  return report;
}

RemoveReport remove(HeldBank& self, std::uint32_t member, nb::object keys, nb::object out,
                    const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) keys = nb::make_tuple(keys);
  const Parts parts(*keys_of(keys, seed_of(self)));
  const Verdicts verdicts(std::move(out), parts);
  RemoveReport sum;
  {
    const Passage inside(self.gate, Passage::To::change);
    Run run(options.progress, parts.size, self.value.seed());
    change_in_pieces<RemovalStopped>(
        parts, run, sum, [&](const KeyBatch& batch, std::size_t first) {
          return self.value.remove(member, batch, verdicts.part(first, batch.size()),
                                   options.batch);
        });
  }
  warn_if_none_found(self, sum, parts);
  return sum;
}

std::uint32_t member_number(const KeyBatch& members, std::size_t i, std::size_t index) {
  // Text in a list has been hashed.
  const bool is_number = members.has_values() && members.kind() != KeyBatch::Kind::hashes;
  if (!is_number || !members.valid(i)) {
    throw InvalidArgument(fmt::format("members[{}]: must be the number of a member", index));
  }
  const std::uint64_t value = members.value(i);
  if (value >= kMaxBankMembers) {
    throw InvalidArgument(fmt::format("members[{}] {}: must be 0 to {}", index,
                                      static_cast<std::int64_t>(value), kMaxBankMembers - 1));
  }
  return static_cast<std::uint32_t>(value);
}

/// The number of the member that each of n keys is for. Throws InvalidArgument unless there is one
/// for each.
std::vector<std::uint32_t> member_numbers(nb::handle members, std::size_t n) {
  if (PyLong_Check(members.ptr())) {
    throw InvalidArgument(
        fmt::format("members {}: must be a column, with the number of a member for each key",
                    shown(members.ptr())));
  }
  const std::unique_ptr<KeySource> source = [&] {
    try {
      return keys_of(members, 0);
    } catch (const InvalidKey& error) {
      throw InvalidArgument(fmt::format("members: {}", error.what()));
    }
  }();
  const Parts parts(*source);
  if (parts.size != n) {
    throw InvalidArgument(
        fmt::format("members has {}: must have {}, one for each key", parts.size, n));
  }
  std::vector<std::uint32_t> numbers;
  numbers.reserve(n);
  Room room;
  for (const auto& column : parts.columns) {
    in_stretches(column->size(), [&](std::size_t first, std::size_t count) {
      for (const std::size_t end = first + count; first < end;) {
        const std::size_t some = std::min(column->most_at_once(), end - first);
        const KeyBatch batch = column->batch(first, some, 0, room);
        for (std::size_t i = 0; i < some; ++i) {
          numbers.push_back(member_number(batch, i, numbers.size()));
        }
        first += some;
      }
    });
  }
  return numbers;
}

/// Throws InvalidArgument, naming the key, if the bank has no such member.
void check_members(const Bank& bank, std::span<const std::uint32_t> numbers) {
  in_stretches(numbers.size(), [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      if (bank.has_member(numbers[i])) continue;
      throw InvalidArgument(
          fmt::format("members[{}] {}: there is no such member; the bank has {}, numbered below {}",
                      i, numbers[i], bank.size(), bank.slots()));
    }
  });
}

/// The hashes of keys, brought together by member, in order within each.
struct ByMember {
  /// members[i] is that of key i, below `slots`.
  ByMember(const KeyBatch& keys, std::span<const std::uint32_t> members, std::uint64_t seed,
           std::uint32_t slots) {
    std::vector<std::size_t> ends(std::size_t{slots} + 1);
    for (std::size_t i = 0; i < keys.size(); ++i) ends[members[i] + 1] += keys.valid(i);
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    hashes.resize(ends.back());
    // ends[m] moves from where the keys of member m begin to where they end.
    for_each_hash(keys, seed,
                  [&](std::size_t i, std::uint64_t hash) { hashes[ends[members[i]]++] = hash; });
    for (std::uint32_t m = 0; m < slots; ++m) {
      const std::size_t begin = m == 0 ? 0 : ends[m - 1];
      if (ends[m] == begin) continue;
      batches.push_back(
          {m, KeyBatch::from_hashes(std::span(hashes).subspan(begin, ends[m] - begin))});
    }
  }

  std::vector<std::uint64_t> hashes;
  std::vector<MemberKeys> batches = {};
};

/// The columns of a call for many members. Made before anything is changed.
struct EachKey {
  EachKey(HeldBank& self, const nb::object& members, const nb::object& keys)
      : parts(*keys_of(keys, seed_of(self))), numbers(member_numbers(members, parts.size)) {}

  /// Calls change_piece(batches by member, keys, their members, number of the first) for pieces of
  /// the keys, and adds up its reports. The caller may change the bank.
  template <class Stopped, class Report, class Change>
  void change(const Bank& bank, Run& run, Report& sum, Change change_piece) const {
    change_in_pieces<Stopped>(parts, run, sum, [&](const KeyBatch& keys, std::size_t first) {
      const auto own = std::span(numbers).subspan(first, keys.size());
      const ByMember given(keys, own, bank.seed(), bank.slots());
      Report report = change_piece(given.batches, keys, own, first);
      report.nulls += keys.size() - given.hashes.size();
      return report;
    });
  }

  Parts parts;
  std::vector<std::uint32_t> numbers;
};

/// The keys that full members did not take.
struct LeftOver {
  std::string why = {};  ///< of the first member that was full
  std::vector<std::int64_t> indices = {};

  void add(const MembersFull& full, std::span<const MemberKeys> batches, const KeyBatch& keys,
           std::span<const std::uint32_t> members, std::size_t first) {
    if (why.empty()) why = full.reason();
    std::vector<std::uint64_t> taken(std::size_t{batches.back().member} + 1);  // by member
    for (std::size_t b = 0; b < batches.size(); ++b) taken[batches[b].member] = full.processed(b);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!keys.valid(i)) continue;
      if (taken[members[i]] > 0) {
        --taken[members[i]];
      } else {
        indices.push_back(static_cast<std::int64_t>(first + i));
      }
    }
  }
  [[noreturn]] void raise(const InsertReport& done) {
    const Error error(
        fmt::format("{}; {} not in: 'left' says which", why,
                    indices.size() == 1 ? "1 key is" : counted(indices.size(), "key") + " are"));
    throw KeysLeft(MembersFull(error, 0, {0}, done), numpy_array<std::int64_t>(std::move(indices)));
  }
};

/// Also looks at the members that keys went into.
InsertReport insert_each(HeldBank& self, const EachKey& each, const CallOptions& options,
                         std::vector<OverfullMember>& overfull) {
  const Passage inside(self.gate, Passage::To::change);
  check_members(self.value, each.numbers);
  Run run(options.progress, each.parts.size, self.value.seed());
  InsertReport sum;
  LeftOver left;
  std::vector<bool> given(self.planned.is_set() ? self.value.slots() : 0);
  // A member that is full does not keep the others from their keys.
  left.indices.reserve(each.parts.size);
  const auto insert_piece = [&](std::span<const MemberKeys> batches, const KeyBatch& piece,
                                std::span<const std::uint32_t> own, std::size_t first) {
    for (const MemberKeys& batch : batches) {
      if (!given.empty()) given[batch.member] = true;
    }
    try {
      return self.value.insert(batches, options.batch);
    } catch (const MembersFull& full) {
      left.add(full, batches, piece, own, first);
      return full.done();
    }
  };
  try {
    noting_kinds(self, each.parts, run,
                 [&] { each.change<MembersFull>(self.value, run, sum, insert_piece); });
  } catch (const MembersFull& full) {  // memory is short: no piece after those that are done is in
    if (left.why.empty()) left.why = full.what();
    for (std::size_t i = run.done(); i < each.parts.size; ++i) {
      left.indices.push_back(static_cast<std::int64_t>(i));
    }
    left.raise(full.done());
  }
  if (!left.why.empty()) left.raise(sum);
  for (std::uint32_t member = 0; member < given.size(); ++member) {
    if (!given[member]) continue;
    if (OverfullMember one = look_at_member(self, member); one.planned != nullptr) {
      overfull.push_back(std::move(one));
    }
  }
  return sum;
}

InsertReport insert_each(HeldBank& self, const nb::object& members, const nb::object& keys,
                         const CallOptions& options) {
  const EachKey each(self, members, keys);
  std::vector<OverfullMember> overfull;
  const InsertReport report = insert_each(self, each, options, overfull);
  for (const OverfullMember& member : overfull) member.warn();
  return report;
}

RemoveReport remove_each(HeldBank& self, const nb::object& members, const nb::object& keys,
                         const CallOptions& options) {
  const EachKey each(self, members, keys);
  RemoveReport sum;
  {
    const Passage inside(self.gate, Passage::To::change);
    check_members(self.value, each.numbers);
    Run run(options.progress, each.parts.size, self.value.seed());
    each.change<RemovalStopped>(
        self.value, run, sum,
        [&](std::span<const MemberKeys> batches, const KeyBatch&, std::span<const std::uint32_t>,
            std::size_t) { return self.value.remove(batches, options.batch); });
  }
  warn_if_none_found(self, sum, each.parts);
  return sum;
}

}  // namespace

void add_banks(nb::module_& module) {
  nb::class_<HeldBank> cls(
      module, "Bank", nb::sig("@final\nclass Bank()"), nb::is_final(), nb::is_weak_referenceable(),
      R"(Many filters that answer one question together: which of them may hold this key?

The cost of a question is nearly independent of the number of members. Every member has the same shape, given as for
Filter. ``members`` is how many there is room for at first: a bank has none when it is made, and outgrows its room by
copying its rows of bits, as reserve() does.

>>> import scbf
>>> bank = scbf.Bank(capacity=1000, fpr=0.001)
>>> fruit, tools = bank.add_member(), bank.add_member()
>>> _ = bank.insert(fruit, ["apple", "banana"])
>>> _ = bank.insert(tools, ["hammer"])
>>> bank.find("hammer") == [tools]
True
>>> [list(members) for members in bank.find(["apple", "hammer", "cloud"])] == [[fruit], [tools], []]
True
>>> scbf.Bank.from_bytes(bank.to_bytes()).find("hammer") == [tools]
True)");
  add_saving(cls, "Bank");
  add_members_and_questions(cls);
  cls.def("add_member", &add_member, nb::arg("filter") = nb::none(),
          "Adds an empty member, or a copy of a Filter of the bank's growth and seed. Returns its "
          "number, the smallest free one. Raises Incompatible.")
      .def(
          "add_members", &add_members<Bank, Filter>, nb::arg("filters"),
          nb::sig("def add_members(self, filters: Iterable[Filter]) -> list[int]"),
          "Adds copies of several filters, all or none, in one pass over the rows of bits. To fill "
          "a bank, the fastest way is to build a Filter for each member. Returns their numbers. "
          "Raises Incompatible.")
      .def(
          "remove_member",
          [](HeldBank& self, MemberNumber member) {
            return changing(self, [&](Bank& bank) {
              auto taken = hold(bank.remove_member(member));
              taken->take_notes_of(self);
              self.member_plans[member].take(self.planned);  // of whoever gets its number
              return taken;
            });
          },
          nb::arg("member"), "Takes a member out and returns it, as a Filter.")
      .def(
          "replace_member",
          [](HeldBank& self, MemberNumber member, const Held<Filter>& filter) {
            const PassageToBoth inside(self.gate, Passage::To::change, filter.gate);
            auto old = without_lock(
                [&] { return hold(self.value.replace_member(member, Filter(filter.value))); });
            old->take_notes_of(self);
            self.member_plans[member].take(self.planned);  // of the new one
            self.kinds.join(filter.kinds);
            return old;
          },
          nb::arg("member"), nb::arg("filter"),
          "Puts a copy of a Filter of the bank's growth and seed in a member's place, and clears "
          "the member's mark. Returns the old member, as a Filter. Raises Incompatible.")
      .def(
          "copy_member",
          [](const HeldBank& self, MemberNumber member) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            auto copy = hold(self.value.copy_member(member));
            copy->take_notes_of(self);
            return copy;
          },
          nb::arg("member"),
          "A copy of a member, as a Filter: for its statistics, or to save it alone.")
      .def(
          "insert",
          [](HeldBank& self, MemberNumber member, nb::object keys, nb::handle threads,
             nb::object progress) {
            return insert(self, member, std::move(keys),
                          call_options(threads, "automatic", std::move(progress)));
          },
          nb::arg("member"), nb::arg("keys").none(), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("progress") = nb::none(),
          nb::sig("def insert(self, member: int, keys: Key | KeyColumn, *, threads: int = 0, "
                  "progress: Progress = None) -> InsertReport"),
          "Inserts keys into a member, as Filter.insert(). Raises MembersFull.")
      .def(
          "remove",
          [](HeldBank& self, MemberNumber member, nb::object keys, nb::object out,
             nb::handle threads, nb::object progress) {
            return remove(self, member, std::move(keys), std::move(out),
                          call_options(threads, "automatic", std::move(progress)));
          },
          nb::arg("member"), nb::arg("keys").none(), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("threads").none() = 0, nb::arg("progress") = nb::none(),
          nb::sig("def remove(self, member: int, keys: Key | KeyColumn, out: NDArray[Any] | "
                  "None = None, *, threads: int = 0, progress: Progress = None) -> RemoveReport"),
          "Removes keys from a member, as Filter.remove().")
      .def(
          "insert_each",
          [](HeldBank& self, nb::object members, nb::object keys, nb::handle threads,
             nb::object progress) {
            return insert_each(self, members, keys,
                               call_options(threads, "automatic", std::move(progress)));
          },
          nb::arg("members"), nb::arg("keys"), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("progress") = nb::none(),
          nb::sig("def insert_each(self, members: KeyColumn, keys: KeyColumn, *, threads: int = 0, "
                  "progress: Progress = None) -> InsertReport"),
          R"(Inserts key i into member members[i]: two columns of one length.

The keys of each member are inserted in order. Null keys are skipped, and counted in the report. Iterators are read to
their end first.

Raises:
    InvalidArgument: if the lengths differ, or a number belongs to no member. Then nothing is changed.
    MembersFull: if members are full, or memory is short; ``left`` says which keys were not inserted.)")
      .def(
          "remove_each",
          [](HeldBank& self, nb::object members, nb::object keys, nb::handle threads,
             nb::object progress) {
            return remove_each(self, members, keys,
                               call_options(threads, "automatic", std::move(progress)));
          },
          nb::arg("members"), nb::arg("keys"), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("progress") = nb::none(),
          nb::sig("def remove_each(self, members: KeyColumn, keys: KeyColumn, *, threads: int = 0, "
                  "progress: Progress = None) -> RemoveReport"),
          "Removes key i from member members[i], as insert_each() inserts. Raises RemovalStopped.")
      .def(
          "merge",
          [](HeldBank& self, MemberNumber member, const Held<Filter>& other) {
            OverfullMember overfull;
            {
              const PassageToBoth inside(self.gate, Passage::To::change, other.gate);
              without_lock([&] { self.value.merge(member, other.value); });
              self.kinds.join(other.kinds);
              overfull = look_at_member(self, member);
            }
            overfull.warn();
          },
          nb::arg("member"), nb::arg("other"), "Adds a Filter to a member, as Filter.merge().")
      .def(
          "clear",
          [](HeldBank& self, MemberNumber member) {
            changing(self, [&](Bank& bank) {
              bank.clear(member);
              self.member_plans[member].begin_again();
            });
          },
          nb::arg("member"), "Resets a member to one empty stage.")
      .def_prop_ro("nbytes", reading<Bank>([](const Bank& b) { return bytes_of(b); }),
                   "bytes of counters and of rows of bits");

  nb::class_<HeldBits> bits(
      module, "BloomBank", nb::sig("@final\nclass BloomBank()"), nb::is_final(),
      nb::is_weak_referenceable(),
      R"(A bank for readers: the bits of many filters. It gives the answers of a Bank, with a fifth of a full one's memory
(two fifths in layout ranked).

Members are BloomFilters, added and removed as a whole. of(bank) makes a BloomBank of a Bank; load() and from_bytes()
also take what a Bank saved. A BloomBank's own file has the rows of bits as they lie in memory, so any number of
processes can map() it.

>>> import scbf
>>> bank = scbf.Bank(capacity=1000, fpr=0.001)
>>> _ = bank.insert(bank.add_member(), ["apple", "banana"])
>>> reader = scbf.BloomBank.of(bank)
>>> sent = scbf.BloomFilter(growth=reader.growth)
>>> _ = sent.insert(["banana"])
>>> reader.add_member(sent), reader.find("banana"), reader.find("apple")
(1, [0, 1], [0]))");
  add_members_and_questions(bits);
  add_saving(bits, "BloomBank");
  add_mapping(bits, "BloomBank",
              "Maps a file as a bank that can be asked at once, and whose members stay as they "
              "are. Pages are read as needed and shared by all processes. Only the header is "
              "verified. The file of a Bank is loaded. As with Filter.map(), the file must not be "
              "truncated meanwhile.");
  bits.def_static(
          "of",
          [](const HeldBank& bank) {
            const Passage inside(bank.gate, Passage::To::read);
            Outside others_may_run;
            auto made = hold(BloomBank(bank.value));
            made->take_notes_of(bank);
            return made;
          },
          nb::arg("bank"), nb::sig("def of(bank: Bank) -> BloomBank"),
          "The bits of a Bank, with its numbers, marks and metadata. Cost: a copy of its rows of "
          "bits.")
      .def(
          "add_member", &add_copy<BloomBank, BloomFilter>, nb::arg("filter"),
          "Adds the bits of a BloomFilter of the bank's growth and seed. Returns their number, the "
          "smallest free one. Raises Incompatible.")
      .def(
          "add_members", &add_members<BloomBank, BloomFilter>, nb::arg("filters"),
          nb::sig("def add_members(self, filters: Iterable[BloomFilter]) -> list[int]"),
          "Adds the bits of several filters, all or none, in one pass over the rows. Returns their "
          "numbers. Raises Incompatible.")
      .def(
          "replace_member",
          [](HeldBits& self, MemberNumber member, const Held<BloomFilter>& filter) {
            const PassageToBoth inside(self.gate, Passage::To::change, filter.gate);
            without_lock([&] { self.value.replace_member(member, BloomFilter(filter.value)); });
            self.kinds.join(filter.kinds);
          },
          nb::arg("member"), nb::arg("filter"),
          "Replaces the bits of a member, and clears its mark. Raises Incompatible.")
      .def(
          "apply",
          [](HeldBits& self, MemberNumber member, const Delta& delta) {
            changing(self, [&](BloomBank& bank) {
              bank.apply(member, delta);
              self.kinds.forget();
            });
          },
          nb::arg("member"), nb::arg("delta"),
          "Applies a delta to a member, all of it or nothing, as BloomFilter.apply(). Its mark "
          "stays.")
      .def(
          "epoch",
          [](const HeldBits& self, MemberNumber member) {
            const Passage inside(self.gate, Passage::To::read);
            return number_of(self.value.epoch(member));
          },
          nb::arg("member"),
          "The epoch of a member: that of the filter that was added, or of the last delta since "
          "then; or None.")
      .def(
          "remove_member",
          [](HeldBits& self, MemberNumber member) {
            changing(self, [&](BloomBank& bank) { bank.remove_member(member); });
          },
          nb::arg("member"), "Takes a member out.")
      .def(
          "copy_member",
          [](const HeldBits& self, MemberNumber member) {
            const Passage inside(self.gate, Passage::To::read);
            Outside others_may_run;
            auto copy = hold(self.value.copy_member(member));
            copy->take_notes_of(self);
            return copy;
          },
          nb::arg("member"), "The bits of a member, as a BloomFilter.")
      .def_prop_ro("read_only",
                   reading<BloomBank>([](const BloomBank& b) { return b.read_only(); }),
                   "whether it is mapped from a file")
      .def_prop_ro("nbytes", reading<BloomBank>([](const BloomBank& b) { return b.bytes(); }),
                   "bytes of the rows of bits");
}

}  // namespace scbf::python
