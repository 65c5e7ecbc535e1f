// SPDX-License-Identifier: Apache-2.0
// The interpreter of PTX: what its instructions do, on small kernels written by hand.
#include <gtest/gtest.h>

#include <map>

#include "small_kernels.hpp"

namespace {

using namespace scbf_test;

/// Runs instructions that leave a value in %rd9.
std::uint64_t value_of(std::string_view instructions) {
  return result_of(std::string(instructions) + "\nst.global.u64 [%rd2], %rd9;");
}
/// The same for %r9, of which only 32 bits may be there.
std::uint64_t value32_of(std::string_view instructions) {
  return value_of(std::string(instructions) + "\ncvt.u64.u32 %rd9, %r9;");
}

TEST(PtxInstructions, Arithmetic64) {
  const std::map<std::string, std::uint64_t> cases = {
      {"add.s64 %rd9, -1, 3;", 2},
      {"sub.s64 %rd9, 1, 3;", ~1ull},
      {"mul.lo.s64 %rd9, 0x100000001, 0x100000001;", 0x200000001},
      {"mul.hi.u64 %rd9, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF;", ~1ull},
      {"mul.hi.s64 %rd9, -1, 5;", ~0ull},
      {"div.u64 %rd9, -1, 2;", ~0ull >> 1},
      {"div.s64 %rd9, -7, 2;", static_cast<std::uint64_t>(-3)},
      {"rem.u64 %rd9, 17, 5;", 2},
      {"min.u64 %rd9, -1, 3;", 3},
      {"min.s64 %rd9, -1, 3;", ~0ull},
      {"max.u64 %rd9, -1, 3;", ~0ull},
      {"max.s64 %rd9, -1, 3;", 3},
      {"and.b64 %rd9, 12, 10;", 8},
      {"or.b64 %rd9, 12, 10;", 14},
      {"xor.b64 %rd9, 12, 10;", 6},
      {"not.b64 %rd9, 0;", ~0ull},
      {"neg.s64 %rd9, 5;", static_cast<std::uint64_t>(-5)},
      {"shl.b64 %rd9, 3, 63;", 1ull << 63},
      {"shl.b64 %rd9, 3, 64;", 0},
      {"shr.u64 %rd9, -1, 63;", 1},
      {"shr.u64 %rd9, -1, 64;", 0},
      {"shr.s64 %rd9, -8, 2;", static_cast<std::uint64_t>(-2)},
      {"shr.s64 %rd9, -8, 99;", ~0ull},
      {"bfi.b64 %rd9, 0xABC, 0xFFFF, 4, 8;", 0xFBCF},
      {"bfi.b64 %rd9, 1, 2, 32, 32;", 0x1'0000'0002},
      {"mad.wide.u32 %rd9, 0xFFFFFFFF, 0xFFFFFFFF, 1;", 0xFFFF'FFFE'0000'0002},
      {"mul.wide.u32 %rd9, 0xFFFFFFFF, 2;", 0x1'FFFF'FFFE},
      {"mul.wide.s32 %rd9, -3, 2;", static_cast<std::uint64_t>(-6)},
      {"mov.u64 %rd3, 5; mov.u64 %rd9, %rd3;", 5},
      {"mov.b64 %rd9, {%r1, %r1}; mov.u32 %r3, 7; mov.u32 %r4, 9; mov.b64 %rd9, {%r3, %r4};",
       0x9'0000'0007},
      {"cvt.u64.u32 %rd9, -1;", 0xFFFF'FFFF},
      {"cvt.s64.s32 %rd9, -1;", ~0ull},
      {"setp.lt.s64 %p1, -1, 0; selp.u64 %rd9, 4, 5, %p1;", 4},
      {"setp.lt.u64 %p1, -1, 0; selp.u64 %rd9, 4, 5, %p1;", 5},
      {"setp.eq.s64 %p1, 2, 2; not.pred %p2, %p1; selp.b64 %rd9, 4, 5, %p2;", 5},
      {"mov.pred %p1, -1; not.pred %p2, %p1; selp.b64 %rd9, 4, 5, %p2;", 5},
      {"mov.pred %p1, 0; not.pred %p2, %p1; selp.b64 %rd9, 4, 5, %p2;", 4},
      {"setp.ne.s64 %p1, 2, 2; setp.le.u64 %p2, 2, 2; or.pred %p3, %p1, %p2;"
       "and.pred %p4, %p1, %p2; xor.pred %p5, %p3, %p4; selp.b64 %rd9, 4, 5, %p5;",
       4},
      {"setp.gt.s32 %p1, 1, 2; mov.u64 %rd9, 1; @%p1 mov.u64 %rd9, 2; @!%p1 add.u64 %rd9, %rd9, 8;",
       9}};
  for (const auto& [instructions, want] : cases)
    EXPECT_EQ(value_of(instructions), want) << instructions;
}

TEST(PtxInstructions, Arithmetic32) {
  const std::map<std::string, std::uint32_t> cases = {
      {"add.s32 %r9, -1, 3;", 2},
      {"mul.lo.s32 %r9, 0x10001, 0x10001;", 0x20001},
      {"mad.lo.s32 %r9, 7, 6, -2;", 40},
      {"shr.s32 %r9, 0x80000000, 31;", ~0u},
      {"shr.u32 %r9, 0x80000000, 31;", 1},
      {"brev.b32 %r9, 1;", 1u << 31},
      {"clz.b32 %r9, 0;", 32},
      {"clz.b32 %r9, 1;", 31},
      {"popc.b32 %r9, 0xF0F;", 8},
      {"popc.b64 %r9, -1;", 64},
      {"prmt.b32 %r9, 0x44332211, 0x88776655, 0x7410;", 0x88552211},
      {"prmt.b32 %r9, 0x80, 0, 0x8888;", ~0u},
      {"bmsk.clamp.b32 %r9, 4, 8;", 0xFF0},
      {"bmsk.clamp.b32 %r9, 30, 8;", 0xC000'0000},
      {"bmsk.clamp.b32 %r9, 0, 32;", 0xFFFF'FFFF},
      {"bmsk.clamp.b32 %r9, 32, 1;", 0},
      {"cvt.u32.u64 %r9, 0x100000002;", 2},
      {"cvt.u16.u32 %rs1, 0x12345; cvt.u32.u16 %r9, %rs1;", 0x2345},
      {"mov.u16 %rs1, 1; mov.u16 %rs2, 2; mov.b32 %r9, {%rs1, %rs2};", 0x20001},
      {"mov.b64 {%r9, %r10}, 0x200000003; add.u32 %r9, %r9, %r10;", 5},
      {"min.s32 %r9, -5, 2;", static_cast<std::uint32_t>(-5)}};
  for (const auto& [instructions, want] : cases)
    EXPECT_EQ(value32_of(instructions), want) << instructions;
}

TEST(PtxInstructions, MemoryInAllSizes) {
  EXPECT_EQ(value_of("st.global.u64 [%rd1+64], 0x1122334455667788;\n"
                     "ld.global.u8 %rd9, [%rd1+65];"),
            0x77u);
  EXPECT_EQ(value_of("st.global.u8 [%rd1+64], 0xFF; ld.global.s8 %rd9, [%rd1+64];"), ~0ull);
  EXPECT_EQ(value_of("st.global.v2.u32 [%rd1+64], {1, 2}; ld.global.u64 %rd9, [%rd1+64];"),
            0x2'0000'0001u);
  EXPECT_EQ(
      value_of(
          "st.shared.u64 [words+8], 5; mov.u32 %r3, words; ld.shared.v2.u32 {%r4, %r5}, [%r3+8];\n"
          "cvt.u64.u32 %rd9, %r4;"),
      5u);
  EXPECT_EQ(value_of("{ .reg .b64 %rd9a; mov.u64 %rd9a, 3; mov.u64 %rd9, %rd9a; }"), 3u);
}

TEST(PtxInstructions, Atomics) {
  const std::map<std::string, std::uint64_t> cases = {
      {"atom.global.add.u64 %rd9, [%rd1+64], 5;", 0x70C},
      {"atom.global.cas.b64 %rd9, [%rd1+64], 7, 5;", 0x705},
      {"atom.global.cas.b64 %rd9, [%rd1+64], 8, 5;", 0x707},
      {"atom.global.min.u64 %rd9, [%rd1+64], 5;", 0x705},
      {"atom.global.min.s64 %rd9, [%rd1+64], -1;", 0x6FF},
      {"atom.global.max.u64 %rd9, [%rd1+64], 9;", 0x709},
      {"atom.global.or.b64 %rd9, [%rd1+64], 8;", 0x70F},
      {"atom.global.and.b64 %rd9, [%rd1+64], 6;", 0x706},
      {"atom.global.xor.b64 %rd9, [%rd1+64], 1;", 0x706},
      {"atom.global.exch.b64 %rd9, [%rd1+64], 1;", 0x701}};
  for (const auto& [instruction, want] : cases) {  // the value before, and the one after
    EXPECT_EQ(
        value_of(
            "st.global.u64 [%rd1+64], 7;\n" + instruction +
            "\nshl.b64 %rd9, %rd9, 8; ld.global.u64 %rd8, [%rd1+64]; add.u64 %rd9, %rd9, %rd8;"),
        want)
        << instruction;
  }
  // Of a whole grid.
  EXPECT_EQ(result_of("atom.global.add.u64 %rd9, [%rd1], 1;", {.blocks = 5, .threads = 100}), 500u);
  EXPECT_EQ(result_of("LOOP: ld.volatile.global.u64 %rd3, [%rd1]; add.u64 %rd4, %rd3, 1;\n"
                      "atom.global.cas.b64 %rd5, [%rd1], %rd3, %rd4; setp.ne.s64 %p1, %rd5, %rd3; "
                      "@%p1 bra LOOP;",
                      {.blocks = 3, .threads = 96}),
            288u);
}

/// The word of each thread afterwards.
std::vector<std::uint64_t> words_of(std::string_view instructions, unsigned threads) {
  SmallRun run{.threads = threads};
  EXPECT_EQ(run(std::string(instructions) + "\ncvt.u64.u32 %rd9, %r9; st.global.u64 [%rd2], %rd9;"),
            std::vector<std::string>());
  run.memory.resize(threads);
  return run.memory;
}

TEST(PtxInstructions, LanesPartAndMeetAgain) {
  const auto words = words_of(
      "mov.u32 %r9, 0; mov.u32 %r3, 0;\n"
      "LOOP: setp.ge.u32 %p1, %r3, %r1; @%p1 bra OUT;\n"  // as often as the thread's number says
      "and.b32 %r4, %r3, 1; setp.eq.s32 %p2, %r4, 0; @%p2 bra EVEN;\n"
      "add.u32 %r9, %r9, 100; bra.uni NEXT;\n"
      "EVEN: add.u32 %r9, %r9, 1;\n"
      "NEXT: add.u32 %r3, %r3, 1; bra.uni LOOP;\nOUT:",
      70);
  for (std::uint64_t t = 0; t < words.size(); ++t) EXPECT_EQ(words[t], t / 2 * 100 + (t + 1) / 2);
}

TEST(PtxInstructions, LanesExchangeValues) {
  const auto shuffled = [](const std::string& instruction) {
    return words_of("mul.lo.s32 %r3, %r1, 10;\n" + instruction, 32);
  };
  const auto up = shuffled("shfl.sync.up.b32 %r9, %r3, 3, 0, -1;");
  const auto down = shuffled("shfl.sync.down.b32 %r9, %r3, 3, 31, -1;");
  const auto butterfly = shuffled("shfl.sync.bfly.b32 %r9, %r3, 4, 31, -1;");
  const auto of_eight =
      shuffled("shfl.sync.idx.b32 %r9, %r3, 5, 0x181F, -1;");  // of eight lanes each
  const auto within = shuffled("shfl.sync.up.b32 %r8|%p1, %r3, 3, 0, -1; selp.u32 %r9, 1, 0, %p1;");
  for (std::uint64_t l = 0; l < 32; ++l) {
    EXPECT_EQ(up[l], l < 3 ? 10 * l : 10 * (l - 3));
    EXPECT_EQ(down[l], l > 28 ? 10 * l : 10 * (l + 3));
    EXPECT_EQ(butterfly[l], 10 * (l ^ 4));
    EXPECT_EQ(of_eight[l], 10 * (l / 8 * 8 + 5));
    EXPECT_EQ(within[l], l < 3 ? 0u : 1u);
  }
}

TEST(PtxInstructions, LanesVote) {
  const std::string odd = "and.b32 %r3, %r1, 1; setp.eq.s32 %p1, %r3, 1;\n";
  EXPECT_EQ(words_of(odd + "vote.sync.ballot.b32 %r9, %p1, -1;", 32)[7], 0xAAAA'AAAAu);
  EXPECT_EQ(words_of(odd + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;", 32)[0], 1u);
  EXPECT_EQ(words_of(odd + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;", 32)[1], 0u);
  // Half of a warp by itself.
  EXPECT_EQ(
      words_of(odd + "mov.u32 %r9, 0; @!%p1 bra OUT; vote.sync.all.pred %p2, %p1, 0xAAAAAAAA;\n"
                     "selp.u32 %r9, 1, 0, %p2; OUT:",
               32)[1],
      1u);
}

TEST(PtxInstructions, LanesAddUp) {
  EXPECT_EQ(words_of("redux.sync.add.u32 %r9, %r1, -1;", 32)[7], 31u * 32 / 2);
  // Negative numbers, and half of a warp by itself.
  const std::string less = "sub.s32 %r3, 10, %r1;\n";
  EXPECT_EQ(words_of(less + "redux.sync.add.s32 %r9, %r3, -1;", 32)[0],
            static_cast<std::uint32_t>(320 - 31 * 32 / 2));
  EXPECT_EQ(
      words_of("mov.u32 %r9, 5; and.b32 %r3, %r1, 1; setp.eq.s32 %p1, %r3, 1; @!%p1 bra OUT;\n"
               "redux.sync.add.u32 %r9, %r1, 0xAAAAAAAA; OUT:",
               32),
      words_of("and.b32 %r3, %r1, 1; setp.eq.s32 %p1, %r3, 1; selp.b32 %r9, 256, 5, %p1;", 32));
}

TEST(PtxInstructions, BarriersReduce) {
  const std::string first = "setp.eq.s32 %p1, %r1, 0;\n";
  const std::string out = "selp.u32 %r9, 1, 0, %p2;";
  EXPECT_EQ(words_of(first + "bar.red.or.pred %p2, 0, %p1;\n" + out, 70)[69], 1u);
  EXPECT_EQ(words_of(first + "bar.red.and.pred %p2, 0, %p1;\n" + out, 70)[0], 0u);
}

TEST(PtxInstructions, SpecialRegisters) {
  EXPECT_EQ(words_of("mov.u32 %r9, %laneid;", 70)[69], 5u);
  EXPECT_EQ(words_of("mov.u32 %r9, %lanemask_le;", 32)[31], 0xFFFF'FFFFu);
  EXPECT_EQ(words_of("mov.u32 %r9, %lanemask_ge;", 32)[4], 0xFFFF'FFF0u);
  EXPECT_EQ(words_of("mov.u32 %r9, %ntid.x;", 70)[3], 70u);
  EXPECT_EQ(result_of("setp.ne.u32 %p1, %r2, 3; @%p1 bra OUT; mov.u32 %r9, %nctaid.x;\n"
                      "cvt.u64.u32 %rd9, %r9; st.global.u64 [%rd1], %rd9; OUT:",
                      {.blocks = 4}),
            4u);
}

TEST(PtxInstructions, AreCounted) {
  SmallRun run{.blocks = 2, .threads = 33};
  run("nanosleep.u32 1;");
  EXPECT_EQ(run.instructions_executed, 2u * 33 * 7);  // five before, one after
}

TEST(PtxInstructions, WhatIsNotKnownIsRefused) {
  const auto refused = [](std::string_view instructions) -> std::string {
    try {
      ptx::parse(kernel_of(instructions));
      return "nothing";
    } catch (const ptx::NotUnderstood& error) {
      return error.what();
    }
  };
  SCBF_EXPECT_SAYS(refused("sin.approx.f32 %r3, %r4;"),
                   "the instruction is not understood: sin.approx.f32");
  SCBF_EXPECT_SAYS(refused("ld.global.cv.u32 %r3, [%rd1];"), "the modifier cv is not understood");
  SCBF_EXPECT_SAYS(refused("add.sat.s32 %r3, %r4, %r5;"), "add.sat.s32");
  SCBF_EXPECT_SAYS(refused("setp.eq.s32 %p1|%p2, 1, 2;"), "where ',' must stand");
  SCBF_EXPECT_SAYS(refused("mov.u32 %r3, %clock;"), "an operand is not understood: %clock");
  SCBF_EXPECT_SAYS(refused("mov.u32 %r20, 1;"), "%r20");
  SCBF_EXPECT_SAYS(refused("bra NOWHERE;"), "the label NOWHERE");
  SCBF_EXPECT_SAYS(refused("mov.u32 %r3, 1"), "PTX line 18: where ';' must stand");
  EXPECT_EQ(refused("mov.u32 %r3, 1;"), "nothing");
}

}  // namespace
