// SPDX-License-Identifier: Apache-2.0
// How a filter grows: the policies, the shape of each stage, and the maths of several stages. Each
// formula is a named function with its inverse; docs/maths.md derives them. Letters: P rate of a
// stage, P_d of d stages together, r tightening, g growth, n keys.
//
// Every function throws InvalidArgument, naming argument, value and range, for NaN and for what
// lies outside its range. All are pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "scbf/geometry.hpp"

namespace scbf {

/// The largest number of stages of one filter. A query may have to look in all of them.
inline constexpr std::uint32_t kMaxStages = 256;
/// Defaults for `tightening`: each stage holds twice as many keys as the one before, at 0.8 times
/// its rate. Chosen for the least memory while a filter grows to a thousand times its first stage
/// (docs/maths.md).
inline constexpr double kDefaultGrowth = 2;
inline constexpr double kDefaultTightening = 0.8;

// ---- identical stages (the paper) ---------------------------------------------------------------

/// P_d = 1 − (1 − P)^d: the rate of d stages of rate P. P in (0, 1).
double compound_fpr(double stage_fpr, std::uint32_t stages);
/// The inverse in d: the largest d with compound_fpr(stage_fpr, d) ≤ compound; 0 if there is none.
/// At most kMaxStages.
std::uint32_t stages_within(double stage_fpr, double compound);
/// The inverse in P: 1 − (1 − P_d)^(1/d). stages ≥ 1.
double stage_fpr_for(double compound, std::uint32_t stages);

// ---- tightening stages --------------------------------------------------------------------------

/// P·(1 − r)·r^i: the rate of stage i, counted from 0. However many stages there are, their rates
/// add up to less than P.
double tightened_fpr(double fpr, double tightening, std::uint32_t stage);
/// P·(1 − r^s): the sum of the rates of the first s stages, a bound on their compound rate.
double tightened_sum(double fpr, double tightening, std::uint32_t stages);
/// n·g^i, rounded up: the keys that stage i is made for. Throws InvalidArgument past 2^63.
std::uint64_t grown_capacity(std::uint64_t first, double growth, std::uint32_t stage);

// ---- both ---------------------------------------------------------------------------------------

/// The keys that a stage holds, at least 0, and its false-positive rate, in [0, 1].
struct StageLoad {
  double keys;
  double fpr;
};
/// 1 − Π(1 − P_i): the rate of all stages together.
double compound_fpr(std::span<const StageLoad> stages);
/// The share of the keys, each inserted once, that more than one stage claims, so that their
/// removal is ambiguous. Σ_i n_i·(1 − Π_{j≠i}(1 − P_j)) / Σ_i n_i; 0 without keys. If some stages
/// hold infinitely many keys, the limit as these grow alike: only they count.
double ambiguous_share(std::span<const StageLoad> stages);

// ---- policies -----------------------------------------------------------------------------------

/// StageShape::full_at of a stage that is never full.
inline constexpr std::uint64_t kNeverFull = ~std::uint64_t{0};

/// The shape of a stage, and when it is full.
struct StageShape {
  Geometry geometry;
  /// Its share of the rate: an upper bound on the rate of this stage as long as the stage is not
  /// fuller than planned.
  double fpr;
  /// Keys are inserted as long as fewer counters than this are non-zero; or kNeverFull. One key
  /// makes at most k counters non-zero, and the limit allows for them: the rate never exceeds
  /// `fpr`.
  std::uint64_t full_at;

  /// The same shape with other cells.
  constexpr StageShape with(Cell cell) const noexcept {
    return {geometry.with(cell), fpr, full_at};
  }

  friend bool operator==(const StageShape&, const StageShape&) = default;
};

/// How a filter grows; a small value.
class Growth {
 public:
  enum class Policy : std::uint32_t {
    one = 0,         ///< a single stage that is never full; its rate depends on how it was sized
    fixed = 1,       ///< the paper's: identical stages, each up to half fill, up to a given number
    tightening = 2,  ///< later stages are larger and stricter, so the rate stays below the target
  };

  /// A single stage, which takes all keys.
  static Growth one(const Geometry& stage) noexcept;
  /// Identical stages, at most `most_stages`. Throws InvalidArgument unless 1 ≤ most_stages ≤
  /// kMaxStages.
  static Growth fixed(const Geometry& stage, std::uint32_t most_stages);
  /// Stage i holds first_capacity·growth^i keys at rate fpr·(1 − tightening)·tightening^i. Throws
  /// InvalidArgument unless first_capacity ≥ 1, 0 < fpr < 1, 1 ≤ growth ≤ 1024 and
  /// 0 < tightening < 1.
  static Growth tightening(std::uint64_t first_capacity, double fpr,
                           Layout layout = Layout::split_block, double growth = kDefaultGrowth,
                           double tightening = kDefaultTightening);

  Policy policy() const noexcept { return policy_; }
  Layout layout() const noexcept { return first_.layout(); }
  /// one: 1; fixed: d; tightening: kMaxStages.
  std::uint32_t most_stages() const noexcept { return most_stages_; }
  /// The bound on the compound rate of all stages that may be added: P for tightening, P_d for
  /// fixed, 1 (no bound) for one.
  double fpr() const noexcept { return fpr_; }
  /// Keys of the first stage. fixed: those at half fill; one: 0, not known.
  std::uint64_t first_capacity() const noexcept { return first_capacity_; }
  double growth() const noexcept { return growth_; }          ///< 1 except for tightening
  double tightening() const noexcept { return tightening_; }  ///< 1 except for tightening
  /// one, fixed: the geometry of all stages; tightening: of the first. It has counters, even if the
  /// growth was made from bits.
  const Geometry& first_geometry() const noexcept { return first_; }

  /// The shape of stage i, counted from 0. Throws InvalidArgument for i ≥ most_stages() and where
  /// the limits of Geometry are exceeded. Cost: up to some ten milliseconds.
  StageShape stage(std::uint32_t index) const;
  /// For messages: "tightening: 1000 keys, × 2 each, rate 0.01, × 0.8 each".
  std::string describe() const;

  friend bool operator==(const Growth&, const Growth&) = default;

 private:
  Growth(Policy policy, const Geometry& first) noexcept
      : policy_(policy), first_(first.with(Cell::counter)) {}

  Policy policy_;
  Geometry first_;
  std::uint32_t most_stages_ = kMaxStages;
  std::uint64_t first_capacity_ = 1;
  double fpr_ = 0;
  double growth_ = 1, tightening_ = 1;
};
/// "one", "fixed" or "tightening".
std::string_view to_string(Growth::Policy policy) noexcept;

/// The paper's planner turns the memory of one stage (M; of its counters, or bits), its rate (P)
/// and the rate of all stages (P_d) into the shape of a stage and the number of stages.
struct FixedPlan {
  Growth growth;
  double stage_fpr;              ///< at half fill; ≤ P
  double compound_fpr;           ///< of all stages at half fill; ≤ P_d
  std::uint64_t stage_capacity;  ///< keys of one stage at half fill
  std::uint64_t capacity;        ///< of all
};
/// `split`: k = ⌈log2 1/P⌉ slices; `split_block`: the fewest groups whose rate at half fill is at
/// most P. d = stages_within(P, P_d). Throws InvalidArgument if not even one stage stays within
/// P_d, or if no stage can be made.
FixedPlan plan_fixed(std::uint64_t stage_bytes, double stage_fpr, double compound,
                     Layout layout = Layout::split, Cell cell = Cell::counter);

}  // namespace scbf
