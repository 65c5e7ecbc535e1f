// SPDX-License-Identifier: Apache-2.0
// The maths of sizing. Each formula is a named function with its inverse; docs/maths.md derives
// them. Letters: n keys, k probes, m counters per slice, g groups, P false-positive rate. Nothing
// here looks at a filter's counters; that is Filter::statistics.
//
// Every function throws InvalidArgument, naming argument, value and range, for NaN and for what
// lies outside its range. All are pure, thread-safe and allocate nothing but messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scbf/geometry.hpp"

namespace scbf {

// ---- fill and false-positive rate -------------------------------------------------------------

/// Expected share of non-zero counters in a slice of m counters after n distinct keys:
/// 1 − (1 − 1/m)^n, without cancellation for large m. n ≥ 0, infinity allowed; m ≥ 1.
double expected_fill(double n, double m);
/// The inverse of expected_fill in n: how many distinct keys give a fill in [0, 1). Returns
/// infinity for a fill of 1. Throws InvalidArgument outside [0, 1].
double keys_for_fill(double fill, double m);

/// The covariance, in keys², of the numbers of keys that keys_for_fill gives for two filters of
/// this geometry whose sets have `common` keys in common; if that is all keys of a filter, the
/// variance of its estimate. With x = common / m and C(x) = m (e^x − 1 − x) it is C / k for
/// `split`, as known for one slice (Whang, Vander-Zanden, Taylor 1990). In `split_block` the eight
/// slices of a group share the choice of the block: (C + 7 D) / 8g with D(x) = m (16 (e^(x/16) − 1)
/// − x), in `ranked` (C + 3 D) / 4 with S for 16. See docs/maths.md. Infinite for infinitely many
/// keys.
double estimate_covariance(const Geometry& geometry, double common);

/// P of `split`: expected_fill(n, m)^k. Exact for ideal hashes.
double split_fpr(double n, std::uint32_t k, double m);
/// P of `split_block`: (Σ_j Poisson(j; n/blocks) · (1 − (15/16)^j)^8)^g. Differs from the exact
/// binomial load of a block by a relative error of about 1/blocks. blocks_per_group ≥ 1.
double split_block_fpr(double n, std::uint32_t groups, double blocks_per_group);
/// P of `ranked`: Σ_j Poisson(j; n/blocks) · (1 − (1 − 1/S)^j)^4, with S = `positions` in 65 … 112.
double ranked_fpr(double n, std::uint32_t positions, double blocks);
/// The share of a ranked filter's blocks that spill: those with more than 128 − S keys, P(j > 128 −
/// S) for j ~ Poisson(n/blocks).
double spilled_share(double n, std::uint32_t positions, double blocks);
/// How many slots the table needs so that every spilled block finds one, at all but one moment in
/// 10^9. The number of blocks that spill is Poisson-distributed; above 32, a table with six of ten
/// slots in use keeps each entry within 32 slots of its home.
double spill_slots_for(double n, std::uint32_t positions, double blocks);
/// The probability that any block of a ranked filter is ever stuck (Geometry) while it holds n
/// distinct keys, each of which is replaced by another `turnovers` times on average, in random
/// order. An approximation that errs to the safe side (docs/maths.md).
/// Throws InvalidArgument unless the layout is ranked and both numbers are at least 0.
double stuck_probability(const Geometry& geometry, double n, double turnovers = 1000);
/// P of a filter of this geometry that holds n distinct keys; n may be infinity (then P = 1).
double predicted_fpr(const Geometry& geometry, double n);

/// The rate at which a key that is not in the filter has the same 64-bit hash as one of the n that
/// are: about n/2^64, whatever the geometry. Not part of predicted_fpr: u64 keys are hashed one to
/// one and never collide, and for other keys it matters only at very low rates.
double hash_collision_fpr(double n);

/// How many keys of a filter of this geometry, with n distinct keys inserted once each, become
/// absent on average when a key is removed that looks present but was never inserted. So removing d
/// keys that were never inserted loses about d · predicted_fpr(geometry, n) times this number.
/// Formulas: docs/maths.md, "Removing what was not inserted". Throws InvalidArgument unless n is 0
/// or more and finite.
double lost_per_false_removal(const Geometry& geometry, double n);

/// The largest n with predicted_fpr(geometry, n) ≤ fpr; for a ranked filter also with enough slots
/// for the blocks that spill. Throws InvalidArgument unless 0 < fpr < 1.
std::uint64_t capacity_for(const Geometry& geometry, double fpr);
/// The smallest geometry of this layout that holds n keys at a rate of at most fpr. `parts` is k
/// for `split` (0 = the k with the fewest counters), g for `split_block` (0 = as many groups as
/// each save at least a tenth of the memory, see plan) and S for `ranked` (0 = the one with the
/// fewest bytes). Throws InvalidArgument when fpr is not in (0, 1), n is 0, or the limits of
/// Geometry are exceeded.
Geometry geometry_for(Layout layout, std::uint64_t n, double fpr, std::uint32_t parts = 0);
/// The largest geometry of this layout whose bytes(), padding included and with these cells, fit
/// into `bytes`, with `parts` ≥ 1 slices (or groups). Throws InvalidArgument when not even one
/// cache line per slice (one block per group) fits, and for `ranked`, whose shape depends on the
/// rate: see plan.
Geometry geometry_in(Layout layout, std::uint64_t bytes, std::uint32_t parts,
                     Cell cell = Cell::counter);

// ---- the paper's closed forms (real-valued k, half fill) --------------------------------------

/// log2(1/P).
double ideal_probes(double fpr);
/// M (ln 2)² / |ln P|: keys that M counters hold at rate P with the real-valued k.
double ideal_capacity(double counters, double fpr);

// ---- overflow of one counter ------------------------------------------------------------------

/// P(c ≥ j) for c ~ Binomial(n, 1/m), n rounded down to a whole number, m ≥ 1. Tiny tails keep
/// full relative precision. Cost: about √(n/m) steps at worst, near j = n/m.
double overflow_probability(double n, double m, std::uint32_t j);
/// P(c ≥ j) for c ~ Poisson(lambda), likewise.
double poisson_tail(double lambda, std::uint32_t j);
/// The paper's bound (e·n/(j·m))^j / √(2πj), computed with its factor e^j; j ≥ 1. It may exceed 1.
double overflow_bound(double n, double m, std::uint32_t j);

// ---- planning ---------------------------------------------------------------------------------

/// What is known. At least two of capacity, fpr and memory_bytes must be set; if all three are, the
/// plan must meet all of them. The planner makes the choices that are not set.
struct PlanRequest {
  std::optional<std::uint64_t> capacity = {};      ///< distinct keys, ≥ 1
  std::optional<double> fpr = {};                  ///< in (0, 1)
  std::optional<std::uint64_t> memory_bytes = {};  ///< for the counters, or bits, at most
  std::optional<Layout> layout = {};               ///< default: split_block where possible
  std::optional<std::uint32_t> groups = {};        ///< split_block only
  std::optional<std::uint32_t> probes = {};        ///< split only
  /// What the filter will have. memory_bytes and the plan's bits_per_key refer to these cells.
  Cell cell = Cell::counter;
};

struct Plan {
  Geometry geometry;       ///< with counters, as all geometries are made
  std::uint64_t capacity;  ///< keys: as asked for, or the most that it holds at `fpr`
  double fpr;              ///< the rate asked for, or the one that memory and capacity allow
  double predicted_fpr;    ///< at `capacity` keys; ≤ fpr
  double bits_per_key;     ///< 8 · geometry.with(cell).bytes() / capacity
  std::string reason;      ///< what was chosen and why, in a few sentences
};

/// Chooses a geometry. Weighs memory against cache lines per key: `split_block` takes another
/// group when that saves at least a tenth of the memory at the same capacity and rate, or gains as
/// much where a group is at its limit of blocks (with all three given, also where only more groups
/// fit). Throws InvalidArgument, naming value and limit, when fewer than two of capacity, fpr and
/// memory are given, or one is out of range, or the request cannot be met. Cost: tens of
/// microseconds for `split_block`, less than a millisecond for the other layouts. With memory
/// given, `ranked` takes a search through geometries: tens of milliseconds, at worst two seconds.
Plan plan(const PlanRequest& request);

}  // namespace scbf
