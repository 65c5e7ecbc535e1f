// SPDX-License-Identifier: Apache-2.0
#include "filter/walk.hpp"

namespace scbf {

void throw_full(const std::string& reason, std::uint64_t processed, const InsertReport& done) {
  throw FilterFull(fmt::format("{}; {} keys of the batch were inserted, the next is key {}", reason,
                               done.inserted, processed),
                   processed, done);
}

}  // namespace scbf
