// SPDX-License-Identifier: Apache-2.0
#include "quoted_records.hpp"

#include <csv.h>

#include <new>
#include <utility>

namespace scbf::cli {

namespace {

constexpr std::size_t kFieldGrowth =
    64 << 10;  // libcsv's default of 128 bytes makes long fields quadratic

int never(unsigned char) { return 0; }

}  // namespace

QuotedRecords::QuotedRecords(char separator) : parser_(std::make_unique<csv_parser>()) {
  // CSV_REPALL_NL: libcsv reports empty lines too, so take_record sees every line end.
  csv_init(parser_.get(), CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL);
  csv_set_blk_size(parser_.get(), kFieldGrowth);
  csv_set_space_func(parser_.get(), never);
  csv_set_delim(parser_.get(), static_cast<unsigned char>(separator));
}

QuotedRecords::~QuotedRecords() { csv_free(parser_.get()); }

bool QuotedRecords::parse(std::string_view bytes, std::uint64_t line) {
  if (!within_) {
    current_.line = line;
    bytes_ = 0;
  }
  line_ = line;
  bytes_ += bytes.size();
  ended_by_ = 0;
  const std::size_t parsed =
      csv_parse(parser_.get(), bytes.data(), bytes.size(), take_field, take_record, this);
  rethrow();
  // The only line feed is the last byte, so a record that it ends is the last one, too.
  within_ = ended_by_ != '\n';
  if (parsed == bytes.size()) return true;
  if (csv_error(parser_.get()) == CSV_ENOMEM) throw std::bad_alloc();
  return false;
}

bool QuotedRecords::finish() {
  within_ = false;
  const bool ok = csv_fini(parser_.get(), take_field, take_record, this) == 0;
  rethrow();
  return ok;
}

QuotedRecords::Found QuotedRecords::take() {
  Found first = std::move(found_.front());
  found_.pop_front();
  return first;
}

void QuotedRecords::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

void QuotedRecords::take_field(void* bytes, std::size_t length, void* self) noexcept {
  auto& records = *static_cast<QuotedRecords*>(self);
  try {
    records.current_.fields.emplace_back(static_cast<const char*>(bytes), length);
  } catch (...) {
    records.failure_ = std::current_exception();
  }
}

void QuotedRecords::take_record(int end, void* self) noexcept {
  auto& records = *static_cast<QuotedRecords*>(self);
  std::vector<std::string>& fields = records.current_.fields;
  try {
    if (!fields.empty()) {  // else the line is empty
      records.found_.push_back({std::exchange(fields, {}), records.current_.line});
    }
  } catch (...) {
    records.failure_ = std::current_exception();
  }
  records.current_.line = records.line_ + (end == '\n' ? 1 : 0);
  records.bytes_ = 0;
  records.ended_by_ = end;
}

}  // namespace scbf::cli
