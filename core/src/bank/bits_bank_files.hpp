// SPDX-License-Identifier: Apache-2.0
// Reads and writes the files of banks of bits (files/rows_format.hpp). bank_files.cpp decides which
// kind of bank a file has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bank/bank_state.hpp"
#include "files/file_input.hpp"
#include "scbf/bank.hpp"

namespace scbf {

/// Reads the bank whose file begins with `first`, which read_fixed_bytes has returned. Throws as
/// BloomBank::load.
std::unique_ptr<BankState> read_bank_of_bits(Input& input, std::vector<std::byte> first,
                                             const BankOptions& options);
/// The same, but maps the rows.
std::unique_ptr<BankState> map_bank_of_bits(FileInput& file, std::vector<std::byte> first,
                                            const BankOptions& options);
/// What the header says; with `verify` the rows are verified, too.
BankFileInfo read_bits_info(Input& input, std::vector<std::byte> first, bool verify);

/// Throws as check_mapped_rows, before anything is written.
void write_bank_of_bits(const BankState& bank, const SaveOptions& options, const ByteSink& sink);

}  // namespace scbf
