// SPDX-License-Identifier: Apache-2.0
// plan(): from two or three of capacity, rate and memory to a geometry and the reasons for it. The
// formulas and their inverses are in sizing.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kit/counted.hpp"
#include "maths/sizing_search.hpp"
#include "scbf/errors.hpp"
#include "scbf/sizing.hpp"

namespace scbf {
namespace {

/// One way to meet a request.
struct Option {
  Geometry geometry;
  std::uint64_t capacity;
  double fpr;
};

/// Above this rate a filter made from memory and capacity is useless.
constexpr double kUselessFpr = 0.99;

/// As large as a line of counters, or of their bits.
const Geometry kOneBlock = Geometry::split_block(1, 1);

double ratio(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// The memory of a filter with the cells asked for.
std::uint64_t bytes_of(const PlanRequest& request, const Geometry& geometry) {
  return geometry.with(request.cell).bytes();
}
double bits_per_key(const PlanRequest& request, const Option& made) {
  return 8 * ratio(bytes_of(request, made.geometry), made.capacity);
}

void check_request(const PlanRequest& request) {
  if (request.fpr) sizing::check_fpr(*request.fpr);
  if (request.capacity && *request.capacity == 0) {
    throw InvalidArgument("capacity 0: must be at least 1");
  }
  const std::uint64_t least = bytes_of(request, kOneBlock);
  if (request.memory_bytes && *request.memory_bytes < least) {
    throw InvalidArgument(fmt::format("memory {}: must be at least {}, one block",
                                      counted(*request.memory_bytes, "byte"), least));
  }
  const int known =
      request.capacity.has_value() + request.fpr.has_value() + request.memory_bytes.has_value();
  if (known < 2) {
    throw InvalidArgument(
        fmt::format("plan: needs at least two of capacity, fpr and memory_bytes, got {}",
                    request.capacity       ? "only capacity"
                    : request.fpr          ? "only fpr"
                    : request.memory_bytes ? "only memory_bytes"
                                           : "none"));
  }
  if (request.groups && request.probes) {
    throw InvalidArgument(
        fmt::format("groups {} and probes {}: give one, groups for split_block or probes for split",
                    *request.groups, *request.probes));
  }
  if (request.groups && request.layout == Layout::split) {
    throw InvalidArgument(fmt::format(
        "groups {}: layout split has none, give probes or use split_block", *request.groups));
  }
  if (request.probes && request.layout == Layout::split_block) {
    throw InvalidArgument(
        fmt::format("probes {}: layout split_block has 8 per group, give groups or use split",
                    *request.probes));
  }
  if (request.layout == Layout::ranked && (request.groups || request.probes)) {
    throw InvalidArgument(fmt::format("{} {}: layout ranked has four probes in one group",
                                      request.groups ? "groups" : "probes",
                                      request.groups ? *request.groups : *request.probes));
  }
  if (request.groups) Geometry::split_block(*request.groups, 1);  // throws for 0 and for too many
  if (request.probes) Geometry::split(*request.probes, 1);
}

/// How the request can be met with `parts` slices or groups, if at all.
std::optional<Option> option(Layout layout, const PlanRequest& request, std::uint32_t parts) {
  if (request.capacity && request.fpr) {
    const auto geometry = sizing::smallest(layout, *request.capacity, *request.fpr, parts);
    if (!geometry) return std::nullopt;
    return Option{*geometry, *request.capacity, *request.fpr};
  }
  if (*request.memory_bytes / bytes_of(request, kOneBlock) < parts) return std::nullopt;
  const Geometry geometry = geometry_in(layout, *request.memory_bytes, parts, request.cell);
  if (request.fpr) {
    const std::uint64_t capacity = capacity_for(geometry, *request.fpr);
    if (capacity == 0) return std::nullopt;
    return Option{geometry, capacity, *request.fpr};
  }
  const auto keys = static_cast<double>(*request.capacity);
  return Option{geometry, *request.capacity, predicted_fpr(geometry, keys)};
}

/// Memory of `parts` slices or groups for the same keys and rate, relative to this option.
std::optional<double> relative_memory(const Option& to, Layout layout, std::uint32_t parts) {
  const auto other = sizing::smallest(layout, to.capacity, to.fpr, parts);
  if (!other) return std::nullopt;
  return ratio(other->bytes(), to.geometry.bytes());
}

/// Is the rate so low that it is dominated by different keys with equal hashes? More probes then
/// gain nothing.
bool past_use(const PlanRequest& request, const Option& made) {
  return !request.fpr && made.fpr <= hash_collision_fpr(static_cast<double>(made.capacity));
}

std::optional<Option> best_size(Layout layout, const PlanRequest& request) {
  const auto geometry = sizing::smallest(layout, *request.capacity, *request.fpr);
  if (!geometry) return std::nullopt;
  return Option{*geometry, *request.capacity, *request.fpr};
}

/// Memory is given.
std::optional<Option> best_groups(const PlanRequest& request) {
  constexpr Layout layout = Layout::split_block;
  std::uint32_t first = 1;
  while (first <= kMaxGroups && !option(layout, request, first)) ++first;
  if (first > kMaxGroups) return std::nullopt;
  const auto saving = [&](std::uint32_t groups) -> std::optional<double> {
    const auto current = option(layout, request, groups);
    const auto next = option(layout, request, groups + 1);
    if (past_use(request, *current) || !next) return std::nullopt;
    if (current->geometry.blocks_per_group() == kMaxBlocksPerGroup) {
      // More groups can use the memory that it leaves over: compare capacities, or rates.
      return 1 -
             (request.fpr ? ratio(current->capacity, next->capacity) : next->fpr / current->fpr);
    }
    const auto memory = relative_memory(*current, layout, groups + 1);
    if (!memory) return std::nullopt;
    return 1 - *memory;
  };
  return option(layout, request, sizing::groups_worth_taking(first, saving));
}

/// Memory is given.
std::optional<Option> best_probes(const PlanRequest& request) {
  const auto better = [&](const Option& a, const Option& b) {
    return request.fpr ? a.capacity > b.capacity : a.fpr < b.fpr;
  };
  std::optional<Option> best;
  for (std::uint32_t k = 1; k <= kMaxProbes; ++k) {
    const auto candidate = option(Layout::split, request, k);
    if (candidate && (!best || better(*candidate, *best))) best = candidate;
    if (best && past_use(request, *best)) break;
  }
  return best;
}

[[noreturn]] void refuse(Layout layout, const PlanRequest& request, std::uint32_t parts) {
  if (request.capacity && request.fpr) {
    sizing::refuse_capacity(layout, *request.capacity, *request.fpr, parts);
  }
  // Throws if not even one line or block of each part fits.
  if (parts) geometry_in(layout, *request.memory_bytes, parts, request.cell);
  throw InvalidArgument(fmt::format(
      "memory {}: too little for a single key of {} at fpr {}; give more memory or "
      "a higher fpr",
      counted(*request.memory_bytes, "byte"), to_string(layout), request.fpr.value_or(0)));
}

/// All three are given, so the option must fit into the memory. If it does not, takes the fewest
/// parts that fit; if none do, throws with the memory needed.
Option fitted(Layout layout, const PlanRequest& request, std::uint32_t parts, const Option& wish) {
  const std::uint64_t memory = *request.memory_bytes;
  std::uint64_t need = bytes_of(request, wish.geometry);
  if (need <= memory) return wish;
  if (!parts) {
    for (std::uint32_t p = 1; p <= sizing::most_parts(layout); ++p) {
      const auto other = option(layout, request, p);
      if (!other) continue;
      const std::uint64_t bytes = bytes_of(request, other->geometry);
      if (bytes <= memory) return *other;
      need = std::min(need, bytes);
    }
  }
  throw InvalidArgument(
      fmt::format("memory {}: capacity {} at fpr {} needs at least {} bytes in layout {}{}",
                  counted(memory, "byte"), *request.capacity, *request.fpr, need, to_string(layout),
                  parts ? " with " + sizing::counted_parts(layout, parts) : ""));
}

// ---- words ------------------------------------------------------------------------------------

/// "take 12.3 % more memory" or "save 4.5 % of the memory".
std::string memory_words(double relative, std::string_view save = "save") {
  if (relative > 1) return fmt::format("take {:.3g} % more memory", (relative - 1) * 100);
  return fmt::format("{} {:.3g} % of the memory", save, (1 - relative) * 100);
}

std::string groups_words(const Option& made, std::uint32_t groups) {
  std::string text;
  if (groups > 1) {
    const auto memory = relative_memory(made, Layout::split_block, groups - 1);
    text = memory ? " One group fewer would " + memory_words(*memory)
                  : " Fewer groups cannot hold this";
  }
  if (groups < kMaxGroups) {
    const auto memory = relative_memory(made, Layout::split_block, groups + 1);
    if (memory) {
      text += text.empty() ? " One" : ", one";
      text += " more group (and cache line) would " +
              memory_words(*memory, 1 - *memory < sizing::kGroupMustSave ? "save only" : "save");
    }
  }
  return text.empty() ? text : text + ".";
}

std::string why(const PlanRequest& request, const Option& made) {
  const Geometry& geometry = made.geometry;
  const bool blocks = geometry.layout() == Layout::split_block;
  const std::uint32_t parts = blocks ? geometry.groups() : geometry.probes();
  std::string text =
      fmt::format("{} with {}{}: {:.1f} counters and {} per key", to_string(geometry.layout()),
                  sizing::counted_parts(geometry.layout(), parts),
                  request.groups || request.probes ? " as asked" : "",
                  static_cast<double>(geometry.counters()) / static_cast<double>(made.capacity),
                  counted(geometry.cache_lines_per_key(), "cache line"));
  if (!request.capacity) text += ", room for " + counted(made.capacity, "key");
  if (!request.fpr) text += fmt::format(", rate {:.3g}", made.fpr);
  text += ".";
  if (past_use(request, made)) {
    text += " More probes would gain nothing: equal 64-bit hashes are likelier.";
  } else if (blocks) {
    text += groups_words(made, parts);
  } else if (const auto other = sizing::smallest(Layout::split_block, made.capacity, made.fpr)) {
    text += fmt::format(" split_block would {} and touch {} per key.",
                        memory_words(ratio(other->bytes(), geometry.bytes())),
                        counted(other->cache_lines_per_key(), "cache line"));
  }

  const double collisions = hash_collision_fpr(static_cast<double>(made.capacity));
  if (!past_use(request, made) && collisions >= made.fpr / 10) {
    text += fmt::format(" Keys that are not 64-bit integers add {:.2g} by equal 64-bit hashes.",
                        collisions);
  }
  return text;
}

Plan plan_of(const PlanRequest& request, const Option& made, std::string reason) {
  return {made.geometry,
          made.capacity,
          made.fpr,
          predicted_fpr(made.geometry, static_cast<double>(made.capacity)),
          bits_per_key(request, made),
          std::move(reason)};
}

// ---- ranked -------------------------------------------------------------------------------------

Geometry ranked_for(std::uint64_t capacity, double fpr) {
  const auto geometry = sizing::smallest(Layout::ranked, capacity, fpr);
  if (!geometry) sizing::refuse_capacity(Layout::ranked, capacity, fpr, 0);
  return *geometry;
}
/// Do so many keys at this rate fit into the memory of a request?
bool fits(std::uint64_t capacity, double fpr, const PlanRequest& request) {
  const auto geometry = sizing::smallest(Layout::ranked, capacity, fpr);
  return geometry && bytes_of(request, *geometry) <= *request.memory_bytes;
}

/// The most keys at the request's rate; 0 if not one.
std::uint64_t most_ranked_keys(const PlanRequest& request) {
  const double fpr = *request.fpr;
  std::uint64_t low = 0, high = 1;
  while (fits(high, fpr, request)) {
    low = high;
    if (high > UINT64_MAX / 2) break;
    high *= 2;
  }
  while (high - low > 1 + low / 1'000'000) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle, fpr, request) ? low : high) = middle;
  }
  return low;
}

/// The lowest rate for the request's keys; 1 if no lower one is possible.
double lowest_ranked_rate(const PlanRequest& request) {
  double log_low = std::log(1e-15), log_high = 0;
  for (int i = 0; i < 30; ++i) {
    const double middle = (log_low + log_high) / 2;
    (fits(*request.capacity, std::exp(middle), request) ? log_high : log_low) = middle;
  }
  return std::exp(log_high);
}

std::string why_ranked(const PlanRequest& request, const Option& made) {
  const Geometry& g = made.geometry;
  const auto keys = static_cast<double>(made.capacity);
  const auto blocks = static_cast<double>(g.blocks_per_group());
  std::string text = fmt::format(
      "ranked with {} positions: {:.1f} keys in a block, which may hold {}, and one cache line per "
      "key; {:.2g} % of the blocks spill, {} may, and while all keys are replaced 1,000 times, one "
      "finds no room with a probability of {:.1g}",
      g.positions(), keys / blocks, 128 - g.positions(),
      100 * spilled_share(keys, g.positions(), blocks), g.spill_slots(),
      stuck_probability(g, keys, 1000));
  if (!request.capacity) text += ", room for " + counted(made.capacity, "key");
  if (!request.fpr) text += fmt::format(", rate {:.3g}", made.fpr);
  text += ".";
  if (const auto other = sizing::smallest(Layout::split_block, made.capacity, made.fpr)) {
    text += fmt::format(" split_block would {}.",
                        memory_words(ratio(bytes_of(request, *other), bytes_of(request, g))));
  }
  return text + " For distinct keys: each copy of a key takes the room of a key.";
}

Plan plan_ranked(const PlanRequest& request) {
  constexpr std::string_view kNotInMemory =
      "memory {}: ranked does not hold {} at fpr {} in it; give more memory, fewer keys "
      "or a higher fpr";
  std::uint64_t capacity = request.capacity.value_or(0);
  double fpr = request.fpr.value_or(0);
  if (!request.capacity) capacity = most_ranked_keys(request);
  if (!request.fpr) fpr = lowest_ranked_rate(request);
  // What was not asked for follows from the memory, and may be too little.
  if (capacity == 0 || (!request.fpr && fpr > kUselessFpr)) {
    throw InvalidArgument(fmt::format(kNotInMemory, counted(*request.memory_bytes, "byte"),
                                      counted(std::max<std::uint64_t>(capacity, 1), "key"),
                                      request.fpr.value_or(kUselessFpr)));
  }
  const Option made{ranked_for(capacity, fpr), capacity, fpr};
  if (request.memory_bytes && !fits(capacity, fpr, request)) {
    throw InvalidArgument(fmt::format(kNotInMemory, counted(*request.memory_bytes, "byte"),
                                      counted(capacity, "key"), fpr));
  }
  return plan_of(request, made, why_ranked(request, made));
}

/// "; for distinct keys, layout ranked takes 12 bytes", if that is a way out.
std::string words_of_ranked(const PlanRequest& request) {
  if (!request.capacity || !request.fpr || !fits(*request.capacity, *request.fpr, request)) {
    return "";
  }
  const std::uint64_t bytes = bytes_of(request, ranked_for(*request.capacity, *request.fpr));
  return fmt::format("; for distinct keys, layout ranked takes {} bytes", bytes);
}

Plan plan_in(Layout layout, const PlanRequest& request) {
  if (layout == Layout::ranked) return plan_ranked(request);
  const std::uint32_t parts = request.groups.value_or(request.probes.value_or(0));
  const bool sized = request.capacity && request.fpr;
  auto made = parts                     ? option(layout, request, parts)
              : sized                   ? best_size(layout, request)
              : layout == Layout::split ? best_probes(request)
                                        : best_groups(request);
  if (!made) refuse(layout, request, parts);
  if (sized && request.memory_bytes) {
    made = fitted(layout, request, parts, *made);
  }
  if (!request.fpr && made->fpr > kUselessFpr) {
    throw InvalidArgument(fmt::format(
        "memory {}: capacity {} would let {:.4g} % of absent keys pass in layout {} (limit "
        "{:.0f} %); give more memory or fewer keys",
        counted(*request.memory_bytes, "byte"), *request.capacity, made->fpr * 100,
        to_string(layout), kUselessFpr * 100));
  }
  return plan_of(request, *made, why(request, *made));
}

}  // namespace

Plan plan(const PlanRequest& request) {
  check_request(request);
  if (request.layout) return plan_in(*request.layout, request);
  if (request.groups) return plan_in(Layout::split_block, request);
  if (request.probes) return plan_in(Layout::split, request);
  try {
    return plan_in(Layout::split_block, request);
  } catch (const InvalidArgument& in_blocks) {
    try {
      Plan made = plan_in(Layout::split, request);
      made.reason += fmt::format(" Not split_block: {}.", in_blocks.what());
      return made;
    } catch (const InvalidArgument& in_slices) {
      if (!request.memory_bytes) throw;  // both limits are capacities, and this is the larger one
      throw InvalidArgument(
          fmt::format("{}; {}{}", in_blocks.what(), in_slices.what(), words_of_ranked(request)));
    }
  }
}

}  // namespace scbf
