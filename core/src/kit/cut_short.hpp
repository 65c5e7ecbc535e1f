// SPDX-License-Identifier: Apache-2.0
// How a backend says that memory ended in the middle of a batch that changes counters. Only a
// device needs it: on the host everything is allocated before the first change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include "scbf/backend.hpp"
#include "scbf/errors.hpp"

namespace scbf {

/// Thrown by Backend::insert, insert_new and remove: the first `keys` keys of the batch are done,
/// nulls included, and the others have changed nothing.
class CutShort : public Error {
 public:
  CutShort(const Error& message, std::size_t done, std::exception_ptr why)
      : Error(message), keys(done), cause(std::move(why)) {}

  std::size_t keys;
  std::uint64_t inserted = 0;  ///< of an insertion of new keys: how many of those were inserted
  RemoveCounts removed = {};   ///< of a removal: what became of those keys
  std::exception_ptr cause;    ///< to be thrown if nothing at all was changed
};

}  // namespace scbf
