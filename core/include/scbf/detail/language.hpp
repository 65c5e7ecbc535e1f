// SPDX-License-Identifier: Apache-2.0
// Says what is wrong before other headers fail one by one.
#pragma once

#if __cplusplus < 202002L
#error "scbf needs C++20: compile with -std=c++20"
#endif
