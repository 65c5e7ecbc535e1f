// SPDX-License-Identifier: Apache-2.0
// Includes all headers of scbf::scbf except tbb.hpp, which needs oneTBB. The secondary index
// (scbf::index) and the device interface (scbf::cuda) have their own headers.
#pragma once

#include "scbf/backend.hpp"
#include "scbf/bank.hpp"
#include "scbf/bank_base.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/delta.hpp"
#include "scbf/errors.hpp"
#include "scbf/files.hpp"
#include "scbf/filter.hpp"
#include "scbf/filter_base.hpp"
#include "scbf/geometry.hpp"
#include "scbf/growth.hpp"
#include "scbf/key_batch.hpp"
#include "scbf/reports.hpp"
#include "scbf/routing.hpp"
#include "scbf/sizing.hpp"
#include "scbf/version.hpp"
