// SPDX-License-Identifier: Apache-2.0
// The exceptions of the library. Every message names the value, the limit and the way out. The
// library throws these, types derived from them (FilterFull, RemovalStopped, KeysAbsent,
// MembersFull, WrongKind, scbf/cuda/errors.hpp), std::bad_alloc, and whatever a source or sink of
// the caller throws. It never prints, exits or aborts. (A mapped file must stay as it is: if it is
// truncated, or a page of it cannot be read, the system ends the process with SIGBUS.)
//
// Moving. An object that owns something and can be moved (Filter, BloomFilter, BulkInserter,
// BulkRemover, Bank, BloomBank, SecondaryIndex, cuda::DeviceFilter) holds nothing once it has been
// moved from. It can then be assigned to, moved from again and destroyed; every other call on it,
// and every call that takes it as an argument, throws InvalidArgument and changes nothing. An
// object moved to itself stays as it is. A Delta that has been moved from has lost its message but
// keeps its numbers, so only calls that need the message throw. Views and plain values (KeyBatch,
// StageView, Growth, Geometry, what `ref` returns, cuda::DeviceKeys) are copied when they are
// moved; structs of results follow their members. Backends, counter stores and replicas cannot be
// moved.
#pragma once

#include "scbf/detail/language.hpp"  // first

#include <stdexcept>
#include <string>

namespace scbf {

/// Base of all exceptions thrown by this library.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is outside its documented range. Nothing was changed.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Two filters cannot be combined (geometry, seed or contents differ). Nothing was changed.
class Incompatible : public Error {
 public:
  using Error::Error;
};

/// A file or stream is not a filter, is damaged, or has an unknown version.
class CorruptFile : public Error {
 public:
  using Error::Error;
};

/// The operating system refused an operation; the message gives path and reason.
class IoError : public Error {
 public:
  using Error::Error;
  IoError(const std::string& message, int error_number, const std::string& path)
      : Error(message), error_number_(error_number), path_(path) {}
  /// An error number as the system's, such as ENOENT; 0 if none fits.
  int error_number() const noexcept { return error_number_; }
  /// The file or directory; empty if there is no error number.
  const std::string& path() const noexcept { return path_; }

 private:
  int error_number_ = 0;
  std::string path_;
};

/// The backend asked for does not exist or cannot run here; the message says why.
class BackendUnavailable : public Error {
 public:
  using Error::Error;
};

/// Direct access to counters was requested, but they are in the memory of a device.
class NotOnHost : public Error {
 public:
  using Error::Error;
};

/// An operation would have changed the counters of a read-only (mapped) filter.
class ReadOnly : public Error {
 public:
  using Error::Error;
};

}  // namespace scbf
