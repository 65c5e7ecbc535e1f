// SPDX-License-Identifier: Apache-2.0
#include "scbf/routing.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kit/row_kernels.hpp"
#include "maths/sizing_search.hpp"
#include "scbf/errors.hpp"

namespace scbf {

namespace {

void check_servers(double servers, double holding) {
  if (!(servers >= 1 && std::isfinite(servers))) {
    throw InvalidArgument(fmt::format("servers {}: must be at least 1", servers));
  }
  if (!(holding >= 0 && holding <= servers)) {
    throw InvalidArgument(
        fmt::format("holding {}: must be 0 to {}, the servers", holding, servers));
  }
}

__extension__ using Wide = unsigned __int128;  // products of arguments may overflow 64 bits

struct Bytes {
  Wide counters, rows;
};

Bytes bytes_of_bank(const Geometry& geometry, std::uint32_t members) {
  return {static_cast<Wide>(geometry.with(Cell::counter).bytes()) * members,
          static_cast<Wide>(geometry.padded_counters()) * row_stride(members)};
}

}  // namespace

double server_fpr(double region_fpr, double regions) {
  sizing::check_fpr(region_fpr);
  if (!(regions >= 0 && std::isfinite(regions))) {
    throw InvalidArgument(fmt::format("regions {}: must be at least 0", regions));
  }
  return -std::expm1(regions * std::log1p(-region_fpr));
}

double region_fpr_for(double server_fpr, double regions) {
  sizing::check_fpr(server_fpr);
  if (!(regions > 0 && std::isfinite(regions))) {
    throw InvalidArgument(fmt::format("regions {}: must be above 0", regions));
  }
  return -std::expm1(std::log1p(-server_fpr) / regions);
}

double expected_requests(double servers, double holding, double server_fpr) {
  check_servers(servers, holding);
  if (!(server_fpr >= 0 && server_fpr <= 1)) {
    throw InvalidArgument(fmt::format("server fpr {}: must be in [0, 1]", server_fpr));
  }
  return holding + (servers - holding) * server_fpr;
}

double server_fpr_for(double servers, double holding, double requests) {
  check_servers(servers, holding);
  if (!(holding < servers)) {
    throw InvalidArgument(
        fmt::format("holding {}: must be below {}, the number of servers: the rate "
                    "concerns only servers that do not hold the value",
                    holding, servers));
  }
  if (!(requests >= holding && requests <= servers)) {
    throw InvalidArgument(fmt::format("requests {}: must be {} to {}", requests, holding, servers));
  }
  return (requests - holding) / (servers - holding);
}

BankMemory bank_memory(const Geometry& geometry, std::uint32_t members) {
  if (members > kMaxBankMembers) {
    throw InvalidArgument(
        fmt::format("{} members: a bank has at most {}", members, kMaxBankMembers));
  }
  const Bytes bytes = bytes_of_bank(geometry, members);
  if ((bytes.counters + bytes.rows) >> 63 != 0) {
    throw InvalidArgument(fmt::format("{} members of {} bytes: a bank takes less than 2^63",
                                      members, geometry.bytes()));
  }
  return {static_cast<std::uint64_t>(bytes.counters), static_cast<std::uint64_t>(bytes.rows)};
}

std::uint32_t bank_members_in(const Geometry& geometry, std::uint64_t bytes) {
  const auto fits = [&](std::uint32_t members) {
    const Bytes bank = bytes_of_bank(geometry, members);
    return bank.counters + bank.rows <= bytes;
  };
  if (!fits(1)) return 0;
  std::uint32_t fitting = 1, beyond = kMaxBankMembers + 1;
  while (beyond - fitting > 1) {
    const std::uint32_t middle = fitting + (beyond - fitting) / 2;
    (fits(middle) ? fitting : beyond) = middle;
  }
  return fitting;
}

}  // namespace scbf
