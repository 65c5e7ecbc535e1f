// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "errors.hpp"
#include "outside.hpp"
#include "scbf/backend.hpp"
#include "scbf/version.hpp"

namespace nb = nanobind;

namespace {

/// A dict for each backend: name, description, target, available, reason.
nb::list backends() {
  nb::list all;
  for (const scbf::Backend* backend : scbf::backends()) {
    const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
    const std::string reason = backend->unavailable_reason();
    nb::dict entry;
    entry["name"] = text(backend->name());
    entry["description"] = text(backend->description());
    entry["target"] = text(backend->target());
    entry["available"] = reason.empty();
    entry["reason"] = text(reason);
    all.append(entry);
  }
  return all;
}

}  // namespace

NB_MODULE(_scbf, module) {
  module.doc() = "The extension module of scbf; see the package.";
  module.attr("__version__") = SCBF_VERSION;
#ifdef SCBF_PYTHON_INDEX
  module.attr("has_index") = true;
#else
  module.attr("has_index") = false;
#endif
#ifdef SCBF_PYTHON_CUDA
  module.attr("has_cuda") = true;
#else
  module.attr("has_cuda") = false;
#endif
  nb::set_leak_warnings(false);  // other packages may keep objects of this one to the end
  scbf::python::register_errors();
  scbf::python::watch_the_end();
  scbf::python::add_hashes(module);
  scbf::python::add_sizing(module);
  scbf::python::add_reports(module);
  scbf::python::add_bulk(module);
  scbf::python::add_filters(module);
  scbf::python::add_readers(module);
  scbf::python::add_banks(module);
  scbf::python::add_files(module);
#ifdef SCBF_PYTHON_INDEX
  scbf::python::add_index(module);
#endif
#ifdef SCBF_PYTHON_CUDA
  scbf::python::add_device(module);
#endif
  module.def("backends", backends, nb::sig("def backends() -> list[dict[str, str | bool]]"),
             R"(All backends, whether they can run here or not.

Returns:
    a list of dicts with ``name``, ``description``, ``target`` (the instruction set or device),
    ``available``, and ``reason`` (why not; empty if it is available).

>>> import scbf
>>> [b["name"] for b in scbf.backends() if b["available"]][:2]
['scalar', 'simd'])");
  module.def("release_scratch", scbf::release_scratch,
             "Gives back to the system the temporary memory that is kept from one large batch to "
             "the next, at most 1 GiB.");
}
