// SPDX-License-Identifier: Apache-2.0
// The tables of "Split Counting Bloom Filter and its Application in HBase Secondary Index" (2016):
// as printed, as computed by the formulas, and, where it is feasible, as simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace scbf::paper {

/// A row of Table 1: 45 KiB of positions (368,640), one rate.
struct SizingRow {
  double fpr;
  std::uint32_t printed_probes;
  std::uint64_t printed_slice, printed_keys;
  double ideal_probes;    ///< log2(1/P), real-valued
  std::uint32_t probes;   ///< k: that, rounded up
  std::uint64_t slice;    ///< m = ⌊M / k⌋
  double keys_ideal;      ///< M (ln 2)²/|ln P|: the column that the paper prints, rounded down
  double keys_half_fill;  ///< m ln 2 with the rounded k
  double keys_exact;      ///< largest n with expected_fill(n, m)^k ≤ P, with the rounded k
  /// Share of absent keys found in filters with keys_exact keys. Only given where at least 100 such
  /// false positives are expected.
  std::optional<double> simulated_fpr;
};

/// A row of Tables 2 and 3 (split) and 4 (standard counting filter): P(counter ≥ j) at half fill,
/// for k = 10 slices of m = 36,864 counters.
struct OverflowRow {
  std::uint32_t bits, j;                   ///< j = 2^bits
  double printed_split;                    ///< Tables 2 and 3
  double bound_without_e;                  ///< the bound / e^j, which the paper printed
  double bound;                            ///< the paper's bound, computed
  std::optional<double> printed_standard;  ///< Table 4; none at 5 bits
  double exact_split;                      ///< Binomial(n, 1/m) tail, n = ⌊m ln 2⌋
  double exact_standard;                   ///< Binomial(nk, 1/(mk)) tail
  double poisson;                          ///< Poisson(ln 2) tail, the limit of both
  /// Share of counters that reached j. Only for 1 to 3 bits; larger counters practically never do.
  std::optional<double> simulated_split, simulated_standard;
  /// Standard error of each share, from the spread between independent slices or filters; never 0.
  std::optional<double> simulated_error, simulated_standard_error;
};

/// Table 1. For each row, `trials` filters are filled and each is queried for 20,000 absent keys; 0
/// skips the simulation. The same seed gives the same result. Cost: about 1 ms per trial and row.
std::vector<SizingRow> sizing_table(std::uint32_t trials = 200, std::uint64_t seed = 1);
/// Tables 2 to 4. For the rows of 1 to 3 bits, `trials` filters of each kind are filled; 0 skips
/// the simulation. The same seed gives the same result. Cost: about 5 ms per trial.
std::vector<OverflowRow> overflow_table(std::uint32_t trials = 200, std::uint64_t seed = 1);

}  // namespace scbf::paper
