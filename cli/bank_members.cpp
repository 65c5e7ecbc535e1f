// SPDX-License-Identifier: Apache-2.0
#include "bank_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "bank_names.hpp"
#include "errors.hpp"
#include "free_memory.hpp"
#include "output.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

constexpr std::uint64_t kFirstStageKeys = 1000;

Refusal refusal_of(const BankVerbOptions& options, const std::string& input,
                   std::optional<double> planned) {
  Refusal refusal{.name = display_name(input), .planned = planned};
  if (options.filters) {
    refusal.way_out = "leave it out, or take a larger one";
  } else if (!options.to.empty()) {
    refusal.way_out = "make the bank anew, for more keys";
  }
  return refusal;
}

}  // namespace

MemberShape new_shape(const BankVerbOptions& options, const KeyFormat& format, Counted& counted) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  const double fpr = options.fpr.value_or(kDefaultFpr);
  if (options.scalable) {
    return {Growth::tightening(options.capacity.value_or(kFirstStageKeys), fpr,
                               options.layout.value_or(Layout::split_block)),
            options.seed,
            {.kind = format.kind, .fpr = fpr}};
  }
  std::uint64_t capacity = options.capacity.value_or(1);
  if (!options.capacity) {
    if (!all_regular(inputs)) {
      throw UsageError(
          "bank: --capacity is missing, and keys that come from a pipe cannot be counted first: "
          "give an upper bound for the largest member such as --capacity 1e7, or --scalable");
    }
    std::uint64_t memory = memory_to_spare() / 4;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      counted[i].emplace(std::vector{inputs[i]}, format, options.seed, options.run, memory);
      capacity = std::max(capacity, counted[i]->keys());
      if (counted[i]->have_hashes()) {
        memory -= std::min(memory, counted[i]->keys() * sizeof(std::uint64_t));
      }
    }
  }
  return {Growth::one(plan({.capacity = capacity, .fpr = fpr, .layout = options.layout}).geometry),
          options.seed,
          {.kind = format.kind, .capacity = capacity, .fpr = fpr}};
}

Members<Filter> members_of_keys(const BankVerbOptions& options, const MemberShape& shape,
                                const KeyFormat& format, Counted counted) {
  const std::vector<std::string>& inputs = options.keys.inputs;
  Members<Filter> members;
  members.read.kind = format.kind;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Filter filter(shape.growth, {.seed = shape.seed, .backend = options.run.backend});
    const Refusal refusal = refusal_of(options, inputs[i], shape.notes.fpr);
    const KeyTotals read = insert_or_refuse(filter, refusal, [&] {
      return insert_keys(filter, {inputs[i]}, format, counted[i], options.run, "building");
    });
    check_rate(filter, options.most_fpr, refusal);
    counted[i].reset();
    filter.set_metadata(named(inputs[i], {}));
    members.filters.push_back(std::move(filter));
    members.read.kind = read.kind;
    members.read.keys += read.keys;
    members.read.empty_lines += read.empty_lines;
    members.read.bytes += read.bytes;
    if (read.keys > members.largest) {
      members.largest = read.keys;
      members.at = i;
    }
  }
  return members;
}

std::vector<AnyFilter> open_filters(const BankVerbOptions& options) {
  std::vector<AnyFilter> filters;
  for (const std::string& input : options.keys.inputs) {
    filters.push_back(open_for_changes(input, options.run).filter);
  }
  return filters;
}

template <class OneFilter>
Members<OneFilter> members_of_filters(const BankVerbOptions& options, std::vector<AnyFilter> opened,
                                      std::optional<MemberShape>& shape) {
  constexpr bool kBits = std::is_same_v<OneFilter, BloomFilter>;
  const std::vector<std::string>& inputs = options.keys.inputs;
  Members<OneFilter> members;
  std::string shaped_by = options.to, noted_by = options.to;
  bool mixed = false, any_kind = false, some_kind = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& input = inputs[i];
    OneFilter* const of_this_kind = std::get_if<OneFilter>(&opened[i]);
    if (of_this_kind == nullptr) {
      throw Incompatible(fmt::format(
          "{} has {}, {} has {}: all members are of one kind; 'scbf project' makes bits of "
          "counters",
          display_name(options.to.empty() ? inputs.front() : options.to),
          kBits ? "bits" : "counters", display_name(input), kBits ? "counters" : "bits"));
    }
    OneFilter filter = std::move(*of_this_kind);
    const FilterNotes notes = read_notes(filter.metadata());
    check_rate(filter, options.most_fpr, refusal_of(options, input, notes.fpr));
    if (!shape) {
      shape = MemberShape{filter.growth(), filter.seed(), notes};
      shaped_by = noted_by = input;
    }
    if (!(filter.growth() == shape->growth) || filter.seed() != shape->seed) {
      const auto text = [](const Growth& growth, std::uint64_t seed) {
        return fmt::format("{}, seed {}",
                           growth.policy() == Growth::Policy::one
                               ? growth.first_geometry().describe()
                               : growth.describe(),
                           seed);
      };
      throw Incompatible(fmt::format("{} has {}; {} {}: all members have one shape and seed",
                                     display_name(shaped_by), text(shape->growth, shape->seed),
                                     display_name(input), text(filter.growth(), filter.seed())));
    }
    check_kinds(shape->notes, noted_by, notes, input, options.keys.force);
    if (!shape->notes.kind && !shape->any_kind) {
      shape->notes.kind = notes.kind;
      noted_by = input;
    }
    mixed |= notes.kind && shape->notes.kind && *notes.kind != *shape->notes.kind;
    some_kind |= notes.kind || shape->notes.kind;
    any_kind |= !notes.kind && filter.keys_inserted() > 0;
    const std::uint64_t keys = keys_left(filter.keys_inserted(), filter.keys_removed());
    members.read.keys += keys;
    members.largest = std::max(members.largest, keys);
    try {
      filter.set_metadata(named(input, filter.metadata()));
    } catch (const InvalidArgument& error) {
      throw Incompatible(fmt::format("{}: with its name, {}", display_name(input), error.what()));
    }
    members.filters.push_back(std::move(filter));
  }
  if (mixed || (any_kind && some_kind)) {
    shape->notes.kind.reset();
    note_both_kinds(mixed ? "members have" : "members may have", "find");
  }
  members.read.kind = shape->notes.kind.value_or(KeyKind::lines);
  return members;
}
template Members<Filter> members_of_filters(const BankVerbOptions&, std::vector<AnyFilter>,
                                            std::optional<MemberShape>&);
template Members<BloomFilter> members_of_filters(const BankVerbOptions&, std::vector<AnyFilter>,
                                                 std::optional<MemberShape>&);

}  // namespace scbf::cli
