// SPDX-License-Identifier: Apache-2.0
// What the compiler for GPUs is told about a loop.
#pragma once

// For loops of a few rounds, which it unrolls or not, depending on what else they do; and for loops
// where unrolling costs more in registers than it gains.
#if defined(__CUDA_ARCH__)
#define SCBF_UNROLLED _Pragma("unroll")
#define SCBF_NOT_UNROLLED _Pragma("unroll 1")
#else
#define SCBF_UNROLLED
#define SCBF_NOT_UNROLLED
#endif
