// SPDX-License-Identifier: Apache-2.0
// BulkInserter: what bulk() of a filter returns.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "calls/batches.hpp"
#include "calls/open_insertion.hpp"

namespace scbf::python {

namespace nb = nanobind;

/// An insertion of many batches, into a filter of either class.
class Bulk {
 public:
  virtual ~Bulk() = default;
  virtual InsertReport insert(nb::handle keys, nb::object progress) = 0;
  virtual InsertReport finish() = 0;
  /// At the end of `with`. After an exception it neither throws nor warns.
  virtual void exit(bool after_exception) = 0;
  virtual InsertReport so_far() = 0;
};

template <class F>
class BulkOf final : public Bulk {
 public:
  /// Throws ReadOnly, and what is wrong with the options.
  BulkOf(nb::object filter, const BatchOptions& options)
      : filter_(std::move(filter)),
        self_(nb::cast<Held<F>&>(filter_)),
        insertion_(std::make_shared<OpenInsertion>(self_.value, options)) {
    const Passage inside(self_.gate, Passage::To::change);
    BulkInserter(self_.value, options);  // refuses a mapped filter here, not at the first insert
  }
  BulkOf(const BulkOf&) = delete;
  BulkOf& operator=(const BulkOf&) = delete;
  ~BulkOf() override { finish_if_free(self_.gate, insertion_.get()); }

  InsertReport insert(nb::handle keys, nb::object progress) override {
    return insert_open(self_, insertion_, keys, std::move(progress), Turn::Then::goes_on);
  }
  InsertReport finish() override {
    InsertReport report;
    bool is_due = false;
    {
      const Turn turn(self_.gate, insertion_, Turn::Then::finish);
      report = insertion_->so_far();
      is_due = self_.planned.is_due(self_.value.keys_inserted());
    }
    if (is_due) warn_if_overfull(self_);
    return report;
  }
  void exit(bool after_exception) override {
    if (after_exception) {
      finish_if_free(self_.gate, insertion_.get());
    } else if (!self_.gate.closed) {
      finish();
    }
  }
  InsertReport so_far() override {
    if (self_.gate.closed) return insertion_->so_far();
    const Passage inside(self_.gate, Passage::To::read, insertion_.get());
    return insertion_->so_far();
  }

 private:
  nb::object filter_;
  Held<F>& self_;
  std::shared_ptr<OpenInsertion> insertion_;
};

}  // namespace scbf::python
