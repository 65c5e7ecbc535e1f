// SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>

#include "scbf/errors.hpp"
#include "scbf/key_batch.hpp"

namespace scbf::index {

std::uint64_t random_number() {
  try {
    std::random_device random;
    return std::max<std::uint64_t>(std::uint64_t{random()} << 32 | random(), 1);
  } catch (const std::exception& error) {
    throw IoError(fmt::format("no random numbers: {}", error.what()));
  }
}

std::uint64_t history_after(std::uint64_t history, std::string_view change) {
  const std::uint64_t digest = KeyBatch(std::span(&change, 1)).hashes(history).front();
  return std::max<std::uint64_t>(digest, 1);
}

}  // namespace scbf::index
