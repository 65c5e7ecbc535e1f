// SPDX-License-Identifier: Apache-2.0
// How large an object is to be: the arguments of the constructors.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>

#include "held.hpp"
#include "outside.hpp"
#include "scbf/filter.hpp"
#include "scbf/sizing.hpp"

namespace scbf::python {

namespace nb = nanobind;

struct Shape {
  std::optional<std::uint64_t> capacity;
  std::optional<double> fpr;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::string_view> layout;
  std::optional<Geometry> geometry;
  std::optional<Growth> growth;
  Cell cell = Cell::counter;
};

/// A growth, and the plan if it was chosen by one.
struct Size {
  Growth growth;
  std::optional<Plan> plan = {};
};

inline Size size_of(const Shape& shape) {
  const bool planned = shape.capacity || shape.fpr || shape.memory_bytes || shape.layout;
  if (int{planned} + int{shape.geometry.has_value()} + int{shape.growth.has_value()} != 1) {
    throw InvalidArgument(
        "give two of capacity, fpr and memory_bytes, such as capacity=1_000_000, fpr=0.01; or a "
        "geometry; or, where filters can grow, a growth");
  }
  if (shape.growth) return {*shape.growth};
  if (shape.geometry) return {Growth::one(*shape.geometry)};
  PlanRequest request{.capacity = shape.capacity,
                      .fpr = shape.fpr,
                      .memory_bytes = shape.memory_bytes,
                      .cell = shape.cell};
  if (shape.layout) request.layout = layout_from_string(*shape.layout);
  const Plan chosen = plan(request);
  return {Growth::one(chosen.geometry), chosen};
}

/// A whole number from `least` to 2^64 - 1; as a float, too, such as 1e6. Throws InvalidArgument.
inline std::uint64_t whole_number(nb::handle value, const char* what, std::uint64_t least) {
  std::uint64_t number = 0;
  double real = 0;
  if (PyFloat_Check(value.ptr())) {
    real = nb::cast<double>(value);
    if (real >= static_cast<double>(least) && real < 0x1p64 && real == std::floor(real)) {
      return static_cast<std::uint64_t>(real);
    }
  } else if (!PyBool_Check(value.ptr()) && nb::try_cast(value, number) && number >= least) {
    return number;
  }
  throw InvalidArgument(fmt::format("{} {}: must be a whole number from {} to 2**64 - 1", what,
                                    nb::str(nb::object(nb::borrow(value))).c_str(), least));
}

inline std::optional<std::uint64_t> whole_number_or_none(nb::handle value, const char* what) {
  return value.is_none() ? std::nullopt : std::optional(whole_number(value, what, 1));
}

/// A capacity.
inline std::optional<std::uint64_t> distinct_keys_or_none(nb::handle value) {
  if (PyLong_CheckExact(value.ptr()) && PyObject_Not(value.ptr()) == 1) {
    throw InvalidArgument(
        "capacity 0: must be a whole number from 1 to 2**64 - 1; for a column that may be empty, "
        "give max(1, len(keys))");
  }
  return whole_number_or_none(value, "capacity");
}

/// The capacity of what can also be made from a growth or a geometry, which C++ takes in its place.
inline std::optional<std::uint64_t> capacity_or_none(nb::handle value) {
  if (nb::isinstance<Growth>(value)) throw InvalidArgument("a growth: pass it as growth=…");
  if (nb::isinstance<Geometry>(value)) throw InvalidArgument("a geometry: pass it as geometry=…");
  return distinct_keys_or_none(value);
}

/// Calls make() without the GIL. If there is no memory, says for how much.
template <class Make>
void made_or_no_memory(const Growth& growth, Make make) {
  try {
    Outside others_may_run;
    make();
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError,
                    fmt::format("no memory for {} bytes ({}); a smaller capacity or memory_bytes, "
                                "or a higher fpr, takes less",
                                growth.first_geometry().bytes(), growth.first_geometry().describe())
                        .c_str());
    throw nb::python_error();
  }
}

template <class F>
void construct(Held<F>* self, const nb::object& capacity, std::optional<double> fpr,
               const nb::object& memory_bytes, std::optional<std::string_view> layout,
               std::optional<Geometry> geometry, std::optional<Growth> growth,
               const nb::object& seed, std::string_view backend) {
  const Size size =
      size_of({capacity_or_none(capacity), fpr, whole_number_or_none(memory_bytes, "memory_bytes"),
               layout, geometry, growth, std::is_same_v<F, Filter> ? Cell::counter : Cell::bit});
  const FilterOptions options{.seed = whole_number(seed, "seed", 0), .backend = backend};
  made_or_no_memory(size.growth, [&] { std::construct_at(self, F(size.growth, options)); });
  if (size.plan) self->planned.set(size.plan->capacity, size.plan->fpr);
  self->kinds.begin_empty();
}

}  // namespace scbf::python
