// SPDX-License-Identifier: Apache-2.0
#include "filter/walk.hpp"

#include "kit/error_text.hpp"

namespace scbf {

void throw_full(std::string_view reason, std::uint64_t processed, const InsertReport& done) {
  throw FilterFull(error_text("{}; {} {} inserted, the next is key {}", reason, done.inserted,
                              keys_of_batch_were(done.inserted), processed),
                   processed, done);
}

std::string_view FilterFull::reason() const noexcept {
  const std::string_view text = what();
  return text.substr(0, text.rfind("; "));
}

}  // namespace scbf
