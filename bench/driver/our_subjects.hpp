// SPDX-License-Identifier: Apache-2.0
// Our filters as subjects, given their keys in each form of calls.
#pragma once

#include <functional>
#include <memory>

#include "filter_case.hpp"
#include "subject.hpp"

namespace scbf::bench {

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

/// What makes the subject of a case: our filter, or the comparator.
MakeSubject subject_of(const FilterCase& c);

}  // namespace scbf::bench
