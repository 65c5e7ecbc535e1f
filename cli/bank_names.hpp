// SPDX-License-Identifier: Apache-2.0
// Names of a bank's members: the command notes them in the members' metadata, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scbf/bank_base.hpp"

namespace scbf::cli {

/// The metadata of a filter that becomes a member: its name, beside what was there. A name that is
/// not UTF-8 is noted as {"bytes": [255, …]}.
std::string named(const std::string& name, const std::string& metadata);

/// `metadata`, which a delta brought, with the name that was in `before` in place of its own.
std::string named_as_before(const std::string& before, const std::string& metadata);

/// The name of member `number`: that of named(), or the group of Spark, or the number.
std::string name_in(const std::string& metadata, std::uint32_t number);

/// The names of the members, by number; empty where there is none.
std::vector<std::string> names_of(const BankBase& bank);

/// The numbers of the members called `name`. `names` is names_of(bank); `bank` tells members whose
/// name is empty from numbers that are free. Throws UsageError, which names the option and the
/// file, if there is none.
std::vector<std::uint32_t> members_named(const BankBase& bank,
                                         const std::vector<std::string>& names,
                                         const std::string& name, const char* option,
                                         const std::string& file);

}  // namespace scbf::cli
