// SPDX-License-Identifier: Apache-2.0
// The maths of routing. Servers hold regions, each region has a filter, and a query asks the
// servers whose filters say that they may have the value. Each formula is a named function with its
// inverse; docs/secondary_index.md derives them. Letters: S servers, h of them that have the value,
// r regions of a server, P rate of a region's filter, P_s of a server.
//
// Every function throws InvalidArgument, naming argument, value and range, for NaN and for what
// lies outside its range. All are pure and thread-safe.
#pragma once

#include <cstdint>

#include "scbf/bank.hpp"
#include "scbf/geometry.hpp"

namespace scbf {

/// The largest number of servers of one index.
inline constexpr std::uint32_t kMaxServers = 1u << 16;

/// P_s = 1 − (1 − P)^r: the rate at which a server without the value is asked, because the filter
/// of one of its regions gives a false positive. P in (0, 1); r ≥ 0, real-valued, so that it can be
/// a mean over servers.
double server_fpr(double region_fpr, double regions);
/// The inverse in P: 1 − (1 − P_s)^(1/r); r > 0.
double region_fpr_for(double server_fpr, double regions);

/// h + (S − h)·P_s: servers asked per query. 0 ≤ h ≤ S, P_s in [0, 1].
double expected_requests(double servers, double holding, double server_fpr);
/// The inverse in P_s; h ≤ requests ≤ S, h < S.
double server_fpr_for(double servers, double holding, double requests);

/// Memory of a bank of this many members of one geometry, with room for exactly these; no bank is
/// made. Throws InvalidArgument past kMaxBankMembers and past 2^63 bytes.
BankMemory bank_memory(const Geometry& geometry, std::uint32_t members);
/// The inverse: the most members whose bank fits into `bytes`; 0 if not even one.
std::uint32_t bank_members_in(const Geometry& geometry, std::uint64_t bytes);

}  // namespace scbf
