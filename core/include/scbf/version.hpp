// SPDX-License-Identifier: Apache-2.0
#pragma once

#define SCBF_VERSION_MAJOR 0
#define SCBF_VERSION_MINOR 2
#define SCBF_VERSION_PATCH 0
#define SCBF_VERSION "0.2.0"
