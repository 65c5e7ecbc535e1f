// SPDX-License-Identifier: Apache-2.0
// All of scbf::scbf, for those who want one line; without tbb.hpp, which needs oneTBB. The
// secondary index and what runs on a GPU have headers of their own (scbf::index, scbf::cuda).
#pragma once

#include "scbf/backend.hpp"
#include "scbf/bank.hpp"
#include "scbf/errors.hpp"
#include "scbf/filter.hpp"
#include "scbf/geometry.hpp"
#include "scbf/growth.hpp"
#include "scbf/key_batch.hpp"
#include "scbf/routing.hpp"
#include "scbf/sizing.hpp"
#include "scbf/version.hpp"
