// SPDX-License-Identifier: Apache-2.0
// What the classes Bank and BloomBank have in common: members that come and go as filters, their
// metadata and marks, questions, copies.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "classes/closing.hpp"
#include "classes/copying.hpp"
#include "classes/filter_class.hpp"
#include "classes/whole.hpp"
#include "outside.hpp"
#include "scbf/bloom_bank.hpp"
#include "text.hpp"

namespace scbf::python {

namespace nb = nanobind;

inline std::uint64_t bytes_of(const Bank& bank) {
  const BankMemory memory = bank.memory();
  return memory.counters + memory.rows;
}
inline std::uint64_t bytes_of(const BloomBank& bank) { return bank.bytes(); }

/// How many members.
using Members = Whole<"members", 0, kMaxBankMembers>;

template <class AnyBank>
void construct_bank(Held<AnyBank>* self, const nb::object& capacity, std::optional<double> fpr,
                    const nb::object& memory_bytes, std::optional<std::string_view> layout,
                    std::optional<Geometry> geometry, std::optional<Growth> growth, Members members,
                    const nb::object& seed, std::string_view backend) {
  const Size size = size_of({capacity_or_none(capacity), fpr,
                             whole_number_or_none(memory_bytes, "memory_bytes"), layout, geometry,
                             growth, std::is_same_v<AnyBank, Bank> ? Cell::counter : Cell::bit});
  const std::uint64_t hash_seed = whole_number(seed, "seed", 0);
  made_or_no_memory(size.growth, [&] {
    std::construct_at(
        self, AnyBank(size.growth, {.seed = hash_seed, .backend = backend, .capacity = members}));
  });
  if (size.plan) self->planned.set(size.plan->capacity, size.plan->fpr);
  self->kinds.begin_empty();
}

/// Adds a copy of the filter.
template <class AnyBank, class F>
std::uint32_t add_copy(Held<AnyBank>& self, const Held<F>& filter) {
  const PassageToBoth inside(self.gate, Passage::To::change, filter.gate);
  const std::uint32_t member = without_lock([&] { return self.value.add_member(F(filter.value)); });
  self.kinds.join(filter.kinds);
  return member;
}

/// Adds copies of the filters, which are of type F.
template <class AnyBank, class F>
std::vector<std::uint32_t> add_members(Held<AnyBank>& self, const nb::iterable& filters) {
  std::vector<F> copies;
  KeyKinds kinds("bank");
  kinds.begin_empty();
  for (const nb::handle each : filters) {
    if (!nb::isinstance<Held<F>>(each)) {
      throw nb::type_error(fmt::format("member of type {}: must be a {}",
                                       nb::type_name(each.type()).c_str(),
                                       std::is_same_v<F, Filter> ? "Filter" : "BloomFilter")
                               .c_str());
    }
    const auto& filter = nb::cast<const Held<F>&>(each);
    const Passage inside(filter.gate, Passage::To::read);
    kinds.join(filter.kinds);
    Outside others_may_run;
    copies.emplace_back(filter.value);
  }
  const Passage inside(self.gate, Passage::To::change);
  const auto numbers = without_lock([&] { return self.value.add_members(std::move(copies)); });
  self.kinds.join(kinds);
  return numbers;
}

template <class AnyBank>
nb::object find_members(const Held<AnyBank>& self, nb::object keys, const CallOptions& options) {
  SingleKey key;
  if (is_single_key(keys.ptr(), key)) {
    nb::list members;
    {
      const Passage inside(self.gate, Passage::To::read);
      for (const std::uint32_t member : key.visit([&](auto k) { return self.value.find(k); }))
        members.append(member);
    }
    if (members.size() == 0) self.kinds.none_found(key.kind);
    return members;
  }
  const Parts parts(*keys_of(keys, seed_of(self)));
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(parts.size + 1);
  std::vector<std::uint32_t> members;
  KindsOfKeys kinds = KindsOfKeys::none;
  {
    const Passage inside(self.gate, Passage::To::read);
    // A key of a bank of many members may take microseconds.
    Run run(options.progress, parts.size, self.value.seed(), std::size_t{1} << 16);
    MemberLists lists;
    run.over(parts, [&](const KeyBatch& batch, std::size_t) {
      self.value.find(batch, lists, options.batch);
      const std::uint64_t before = members.size();
      members.insert(members.end(), lists.members.begin(), lists.members.end());
      for (std::size_t i = 0; i < lists.size(); ++i)
        offsets.push_back(before + lists.offsets[i + 1]);
    });
    kinds = run.kinds();
  }
  if (members.empty()) self.kinds.none_found(kinds);
  return nb::module_::import_("scbf.members")
      .attr("MemberLists")(numpy_array<std::int64_t, std::uint64_t>(std::move(offsets)),
                           numpy_array<std::uint32_t>(std::move(members)));
}

/// Runs a change of the bank without Python's lock.
template <class AnyBank, class Change>
auto changing(Held<AnyBank>& self, Change change) {
  const Passage inside(self.gate, Passage::To::change);
  Outside others_may_run;
  return change(self.value);
}

/// Adds to the class what both have.
template <class AnyBank>
void add_members_and_questions(nb::class_<Held<AnyBank>>& cls) {
  using Self = Held<AnyBank>;
  cls.def("__init__", &construct_bank<AnyBank>, nb::arg("capacity") = nb::none(),
          nb::arg("fpr") = nb::none(), nb::kw_only(), nb::arg("memory_bytes") = nb::none(),
          nb::arg("layout") = nb::none(), nb::arg("geometry") = nb::none(),
          nb::arg("growth") = nb::none(), nb::arg("members") = 8, nb::arg("seed") = 0,
          nb::arg("backend") = "auto",
          nb::sig("def __init__(self, capacity: int | float | None = None, fpr: float | None = "
                  "None, *, memory_bytes: int | float | None = None, layout: Layout | None = None, "
                  "geometry: Geometry | None = None, growth: Growth | None = None, members: int = "
                  "8, seed: int = 0, backend: str = 'auto') -> None"))
      .def(
          "member_metadata",
          [](const Self& self, MemberNumber member) {
            const Passage inside(self.gate, Passage::To::read);
            return decoded(self.value.metadata(member));
          },
          nb::arg("member"), nb::sig("def member_metadata(self, member: int) -> str"),
          "A member's metadata, as Filter.metadata: whatever belongs to it, for example its name.")
      .def(
          "set_member_metadata",
          [](Self& self, MemberNumber member, nb::str text) {
            const Passage inside(self.gate, Passage::To::change);
            self.value.set_metadata(member, encoded(text, "metadata"));
          },
          nb::arg("member"), nb::arg("text"), "Sets a member's metadata: at most 1 MiB.")
      .def(
          "find",
          [](const Self& self, nb::object keys, nb::handle threads, nb::object progress) {
            return find_members(self, std::move(keys),
                                call_options(threads, "automatic", std::move(progress)));
          },
          nb::arg("keys").none(), nb::kw_only(), nb::arg("threads").none() = 0,
          nb::arg("progress") = nb::none(),
          nb::sig("def find(self, keys: Key | KeyColumn, *, threads: int = 0, progress: Progress = "
                  "None) -> Any"),
          "Which members may hold each key? Returns MemberLists, ascending lists of member "
          "numbers; for one key a list.")
      .def(
          "ask_always",
          [](Self& self, MemberNumber member, bool ask) {
            changing(self, [&](AnyBank& bank) { bank.ask_always(member, ask); });
          },
          nb::arg("member"), nb::arg("ask") = true,
          "Marks a member so that it is in every answer, for example because it is being rebuilt.")
      .def(
          "reserve",
          [](Self& self, Members members) {
            changing(self, [&](AnyBank& bank) { bank.reserve(members); });
          },
          nb::arg("members"), "Makes room for this many members at once.")
      .def("__len__", reading<AnyBank>([](const AnyBank& b) { return b.size(); }),
           "How many members there are.")
      .def(
          "__contains__",
          [](const Self&, nb::handle) -> bool {
            throw nb::type_error(
                "`in` would ask whether a member has this number, or a key: use number in "
                "bank.members, or bank.find(key)");
          },
          nb::arg("any").none(), nb::sig("def __contains__(self, any: Never, /) -> Never"),
          "Raises TypeError: use ``number in bank.members``, or find().")
      .def_prop_ro("members", reading<AnyBank>([](const AnyBank& b) {
                     nb::list numbers;
                     for (std::uint32_t i = 0; i < b.slots(); ++i) {
                       if (b.has_member(i)) numbers.append(i);
                     }
                     return numbers;
                   }),
                   nb::for_getter(nb::sig("def members(self, /) -> list[int]")),
                   "numbers of the members, ascending")
      .def_prop_rw(
          "metadata", reading<AnyBank>([](const AnyBank& b) { return decoded(b.metadata()); }),
          [](Self& self, nb::str text) {
            const Passage inside(self.gate, Passage::To::change);
            self.value.set_metadata(encoded(text, "metadata"));
          },
          nb::for_getter(nb::sig("def metadata(self, /) -> str")),
          nb::for_setter(nb::sig("def metadata(self, text: str, /) -> None")),
          "free text that is saved with the bank, at most 1 MiB")
      .def_prop_ro("growth", reading<AnyBank>([](const AnyBank& b) { return b.growth(); }))
      .def_prop_ro("seed", reading<AnyBank>([](const AnyBank& b) { return b.seed(); }))
      .def("__repr__", [](const Self& self) {
        const char* name = std::is_same_v<AnyBank, Bank> ? "Bank" : "BloomBank";
        if (self.gate.closed) return fmt::format("<scbf.{}: closed>", name);
        const Passage inside(self.gate, Passage::To::read);
        const AnyBank& b = self.value;
        return fmt::format("<scbf.{}: {}, {}, {} bytes>", name, counted(b.size(), "member"),
                           b.growth().describe(), bytes_of(b));
      });
  add_copying(
      cls,
      "Compares growth, seed, and each member's number, mark and counters or bits, but not "
      "the numbers of keys or metadata. So equal banks name the same members for every key.");
  add_closing(cls, std::is_same_v<AnyBank, Bank>
                       ? "Releases memory. The bank cannot be used afterwards."
                       : "Releases memory, mapping and file. The bank cannot be used afterwards.");
}

}  // namespace scbf::python
