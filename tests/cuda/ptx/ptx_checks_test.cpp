// SPDX-License-Identifier: Apache-2.0
// The interpreter of PTX: each mistake that it looks for, in a small kernel that makes it, beside
// one that does not.
#include <gtest/gtest.h>

#include "small_kernels.hpp"

namespace {

using namespace scbf_test;

// ---- faults -------------------------------------------------------------------------------------

TEST(PtxChecks, AccessesOutOfBounds) {
  EXPECT_EQ(fault_of("ld.global.u64 %rd9, [%rd1+2040];"), "no fault");
  SCBF_EXPECT_SAYS(fault_of("ld.global.u64 %rd9, [%rd1+2048];"),
                   "a read outside of the device's memory");
  SCBF_EXPECT_SAYS(fault_of("st.global.u64 [%rd1-8], 1;"),
                   "a write outside of the device's memory");
  SCBF_EXPECT_SAYS(fault_of("atom.global.add.u64 %rd9, [%rd1+2048], 1;"),
                   "a write outside of the device's memory");
  SCBF_EXPECT_SAYS(fault_of("ld.global.v2.u64 {%rd8, %rd9}, [%rd1+2048];"), "outside");
  EXPECT_EQ(fault_of("ld.shared.u64 %rd9, [words+248];"), "no fault");
  SCBF_EXPECT_SAYS(fault_of("ld.shared.u64 %rd9, [words+256];"),
                   "a read outside of the shared memory");
  SCBF_EXPECT_SAYS(fault_of("st.shared.u64 [words+256], 1;"),
                   "a write outside of the shared memory");
  SCBF_EXPECT_SAYS(fault_of("ld.param.u64 %rd9, [k_param_0+8];"),
                   "a read outside of the parameters");
}

TEST(PtxChecks, AccessesThatAreNotAligned) {
  EXPECT_EQ(fault_of("ld.global.u16 %rs1, [%rd1+2];"), "no fault");
  SCBF_EXPECT_SAYS(fault_of("ld.global.u64 %rd9, [%rd1+4];"),
                   "an access of 8 bytes at an address that is not aligned");
  SCBF_EXPECT_SAYS(fault_of("st.shared.u32 [words+2], 1;"), "not aligned");
  // The fault says where.
  SCBF_EXPECT_SAYS(fault_of("ld.global.v2.u64 {%rd8, %rd9}, [%rd1+8];", {.threads = 1}),
                   "an access of 16 bytes at an address that is not aligned [PTX line 17, block 0, "
                   "thread 0, k]");
}

TEST(PtxChecks, TrapsAndDivisionsByZero) {
  SCBF_EXPECT_SAYS(fault_of("trap;"), "a trap");
  SCBF_EXPECT_SAYS(fault_of("mov.u64 %rd3, 0; div.u64 %rd9, %rd1, %rd3;"), "division by zero");
}

TEST(PtxChecks, MasksThatDoNotFit) {
  const SmallRun warp{.threads = 32};
  EXPECT_EQ(fault_of("bar.warp.sync -1;", warp), "no fault");
  SCBF_EXPECT_SAYS(fault_of("bar.warp.sync 0xFFFF;", warp),
                   "a lane is not in the mask that it names");
  SCBF_EXPECT_SAYS(fault_of("bar.warp.sync -1;", {.threads = 31}),
                   "lanes that have exited or do not exist");
  const std::string half_exit = "setp.lt.u32 %p1, %r1, 16; @%p1 ret;\n";
  SCBF_EXPECT_SAYS(fault_of(half_exit + "vote.sync.any.pred %p2, %p1, -1;", warp),
                   "a mask names lanes that have exited");
  EXPECT_EQ(fault_of(half_exit + "vote.sync.any.pred %p2, %p1, 0xFFFF0000;", warp), "no fault");
}

TEST(PtxChecks, DeadlocksAreNoticed) {
  const std::string part = "setp.lt.u32 %p1, %r1, 16; @%p1 bra LESS;\n";
  // Two halves, each of which waits for all: at two instructions, or with two masks.
  SCBF_EXPECT_SAYS(fault_of(part + "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1; ret;\n"
                                   "LESS: shfl.sync.idx.b32 %r9, %r1, 1, 31, -1;",
                            {.threads = 32}),
                   "a deadlock in k: thread 0 of block 0 waits for lanes of its warp");
  SCBF_EXPECT_SAYS(fault_of(part + "bar.sync 0; ret; LESS: bar.sync 1;", {.threads = 32}),
                   "a deadlock in k: thread 0 of block 0 waits at a barrier");
  // A flag that nobody sets, and one that somebody does.
  const std::string wait =
      "LOOP: ld.volatile.global.u64 %rd3, [%rd1]; setp.eq.s64 %p2, %rd3, 0; @%p2 bra LOOP;";
  SCBF_EXPECT_SAYS(fault_of(wait, {.threads = 2}), "nothing changes any more in k");
  EXPECT_EQ(fault_of("setp.eq.s32 %p1, %r1, 1; @%p1 st.volatile.global.u64 [%rd1], 1;\n" + wait,
                     {.threads = 2}),
            "no fault");
}

TEST(PtxChecks, KernelsThatDoNotEndAreStopped) {
  const std::string loop =
      "LOOP: atom.global.add.u64 %rd3, [%rd1], 1; setp.lt.u64 %p2, %rd3, 1000; @%p2 bra LOOP;";
  EXPECT_EQ(fault_of(loop, {.settings = {.most_instructions = 10'000}}), "no fault");
  SCBF_EXPECT_SAYS(fault_of(loop, {.settings = {.most_instructions = 1000}}), "no end in k");
}

TEST(PtxChecks, LaunchesAreWithinTheirBounds) {
  EXPECT_EQ(fault_of("", {.threads = 256}), "no fault");
  SCBF_EXPECT_SAYS(fault_of("", {.threads = 257}),
                   "a launch of 257 threads a block; the kernel allows 256");
}

// ---- problems -----------------------------------------------------------------------------------

TEST(PtxChecks, ShufflesThatReadLanesThatDoNotTakePart) {
  const std::string part = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra OUT;\n";
  const SmallRun warp{.threads = 32};
  EXPECT_EQ(problems_of(part + "shfl.sync.idx.b32 %r9, %r1, 15, 31, 0xFFFF; OUT:", warp), "");
  SCBF_EXPECT_SAYS(problems_of(part + "shfl.sync.idx.b32 %r9, %r1, 16, 31, 0xFFFF; OUT:", warp),
                   "a shuffle reads a lane that does not take part");
}

TEST(PtxChecks, BarriersThatOnlySomeThreadsReach) {
  const std::string part = "setp.lt.u32 %p1, %r1, 16; @%p1 bra LESS;\n";
  const SmallRun warp{.threads = 32};
  SCBF_EXPECT_SAYS(problems_of(part + "bar.sync 0; ret; LESS: bar.sync 0;", warp),
                   "lanes of one warp wait at different barriers");
  EXPECT_EQ(problems_of(part + "barrier.sync 0; ret; LESS: barrier.sync 0;", warp), "");
  SCBF_EXPECT_SAYS(problems_of(part + "bar.sync 0; LESS:", warp),
                   "a barrier after some threads of the block have exited");
}

// ---- races --------------------------------------------------------------------------------------

const std::string kOwn = "st.global.u64 [%rd2], 1;\n";  // each thread its own word
const std::string kNext =
    "xor.b32 %r3, %r1, 1; mul.wide.u32 %rd3, %r3, 8; add.s64 %rd3, %rd3, %rd1;\n";
const std::string kReadNext = kNext + "ld.global.u64 %rd9, [%rd3];\n";  // and then its neighbour's
const std::string kRace = "a race: a read of global memory, and the write of line 17";

TEST(PtxChecks, RacesOfLanesOfAWarp) {
  const SmallRun warp{.threads = 32};
  SCBF_EXPECT_SAYS(problems_of(kOwn + kReadNext, warp), "a race: a ");
  EXPECT_EQ(problems_of(kOwn + "bar.warp.sync -1;\n" + kReadNext, warp), "");
  EXPECT_EQ(problems_of(kOwn + "bar.sync 0;\n" + kReadNext, warp), "");
  // Values that lanes exchange order nothing else.
  SCBF_EXPECT_SAYS(problems_of(kOwn + "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;\n" + kReadNext, warp),
                   kRace);
  // Pairs of lanes: with each other, and with others.
  const std::string pairs =
      "shr.u32 %r4, %r1, 1; shl.b32 %r4, %r4, 1; mov.u32 %r5, 3; shl.b32 %r5, %r5, %r4;\n"
      "bar.warp.sync %r5;\n";
  EXPECT_EQ(problems_of(kOwn + pairs + kReadNext, warp), "");
  SCBF_EXPECT_SAYS(problems_of(kOwn + pairs + "ld.global.u64 %rd9, [%rd1];", warp), kRace);
  // All write one word in one instruction.
  SCBF_EXPECT_SAYS(problems_of("st.global.u64 [%rd1], 1;", warp),
                   "a race: a write of global memory");
}

TEST(PtxChecks, RacesOfWarps) {
  const SmallRun block{.threads = 64};
  const std::string other =
      "xor.b32 %r3, %r1, 32; mul.wide.u32 %rd3, %r3, 8; add.s64 %rd3, %rd3, %rd1;\n"
      "ld.global.u64 %rd9, [%rd3];\n";
  SCBF_EXPECT_SAYS(problems_of(kOwn + "bar.warp.sync -1;\n" + other, block), "a race");
  EXPECT_EQ(problems_of(kOwn + "bar.sync 0;\n" + other, block), "");
}

TEST(PtxChecks, RacesInSharedMemory) {
  const SmallRun block{.threads = 32};
  const std::string write =
      "shl.b32 %r4, %r1, 3; mov.u32 %r5, words; add.u32 %r5, %r5, %r4; st.shared.u64 [%r5], 1;\n";
  SCBF_EXPECT_SAYS(problems_of(write + "ld.shared.u64 %rd9, [words];", block),
                   "a race: a read of shared memory");
  EXPECT_EQ(problems_of(write + "bar.sync 0; ld.shared.u64 %rd9, [words];", block), "");
  // Each block has its own.
  EXPECT_EQ(problems_of("st.shared.u64 [words], 1;", {.blocks = 8}), "");
}

TEST(PtxChecks, RacesOfBlocks) {
  const SmallRun blocks{.blocks = 2};
  SCBF_EXPECT_SAYS(
      problems_of("st.global.u64 [%rd1], 1;", blocks),
      "a race: a write of global memory, and the write of line 17 by thread 0 of block");
  EXPECT_EQ(problems_of("ld.global.u64 %rd9, [%rd1];", blocks), "");
  EXPECT_EQ(problems_of("atom.global.add.u64 %rd9, [%rd1], 1; ld.volatile.global.u64 %rd9, [%rd1];",
                        blocks),
            "");
  SCBF_EXPECT_SAYS(
      problems_of("atom.global.add.u64 %rd9, [%rd1], 1;\nld.global.u64 %rd9, [%rd1];", blocks),
      "a race");
  // A value that is loaded as a whole, though perhaps an old one.
  EXPECT_EQ(
      problems_of("atom.global.add.u64 %rd9, [%rd1], 1; ld.relaxed.cta.global.u64 %rd9, [%rd1];",
                  blocks),
      "");
  SCBF_EXPECT_SAYS(
      problems_of("ld.relaxed.cta.global.u64 %rd9, [%rd1]; st.global.u64 [%rd1], 1;", blocks),
      "a race");
  // Neighbouring bytes are no race.
  EXPECT_EQ(problems_of("cvt.u64.u32 %rd3, %r2; add.u64 %rd3, %rd3, %rd1; st.global.u8 [%rd3], 1;",
                        {.blocks = 8}),
            "");
  EXPECT_EQ(problems_of("st.global.u64 [%rd1], 1;", {.blocks = 2, .settings = {.races = false}}),
            "");
}

TEST(PtxChecks, WhatIsReadThroughTheReadOnlyCacheMustNotChange) {
  SCBF_EXPECT_SAYS(problems_of("ld.global.nc.u64 %rd9, [%rd1];\nst.global.u64 [%rd1], 1;"),
                   "what is read through the read-only cache is written");
  EXPECT_EQ(problems_of("ld.global.u64 %rd9, [%rd1]; st.global.u64 [%rd1], 1;"), "");
  // Nor after a barrier, which orders other accesses.
  SCBF_EXPECT_SAYS(
      problems_of("ld.global.nc.u64 %rd9, [%rd1]; bar.sync 0; st.global.u64 [%rd1], 1;"),
      "what is read through the read-only cache is written");
}

/// Block 0 writes word 1 and then releases word 0; block 1 waits for word 0 and reads word 1.
std::string message(const std::string& release, const std::string& acquire) {
  return "setp.eq.s32 %p1, %r2, 1; @%p1 bra READER;\n"
         "st.global.u64 [%rd1+8], 7; bar.sync 0;\n" +
         release +
         " ret;\n"
         "READER: ld.global.u64 %rd8, [%rd1+16];\n"
         "LOOP: " +
         acquire +
         " setp.eq.s64 %p2, %rd3, 0; @%p2 bra LOOP; bar.sync 0;\n"
         "ld.global.u64 %rd9, [%rd1+8]; st.global.u64 [%rd1+24], %rd9;";
}
const std::string kRelease = "atom.add.release.gpu.u64 %rd4, [%rd1], 1;";
const std::string kRelaxed = "atom.global.add.u64 %rd4, [%rd1], 1;";
const std::string kAcquire = "ld.acquire.gpu.u64 %rd3, [%rd1];";
const std::string kVolatile = "ld.volatile.global.u64 %rd3, [%rd1];";

TEST(PtxChecks, ReleaseAndAcquireOrderBlocks) {
  const SmallRun grid{.blocks = 2, .cooperative = true};
  EXPECT_EQ(problems_of(message(kRelease, kAcquire), grid), "");
  SCBF_EXPECT_SAYS(problems_of(message(kRelaxed, kAcquire), grid), "a race: a read");
  SCBF_EXPECT_SAYS(problems_of(message(kRelease, kVolatile), grid), "a race: a read");
}

TEST(PtxChecks, LoadsFromTheCacheMayBeStale) {
  // Block 1 has read word 1 before: then it may still see 0.
  const auto seen = [](const std::string& load, const std::string& acquire) {
    std::string instructions = message(kRelease, acquire);
    const auto put = [&](const std::string& what, const std::string& by) {
      instructions.replace(instructions.find(what), what.size(), by);
    };
    put("ld.global.u64 %rd8, [%rd1+16];", load + " %rd8, [%rd1+8];");
    put("ld.global.u64 %rd9", load + " %rd9");
    std::uint64_t stale = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      SmallRun run{.blocks = 2, .cooperative = true, .settings = {.seed = seed, .races = false}};
      run(instructions);
      EXPECT_TRUE(run.memory[3] == 7 || run.memory[3] == 0);
      stale += run.memory[3] == 0;
    }
    return stale;
  };
  for (const char* load : {"ld.global.u64", "ld.relaxed.cta.global.u64"}) {
    EXPECT_GT(seen(load, kVolatile), 10u) << load;
    EXPECT_EQ(seen(load, kAcquire), 0u) << load;
  }
  for (const char* load : {"ld.volatile.global.u64", "ld.relaxed.gpu.global.u64"}) {
    EXPECT_EQ(seen(load, kVolatile), 0u) << load;
  }
}

}  // namespace
