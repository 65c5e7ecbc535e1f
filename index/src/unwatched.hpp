// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_THREAD__)  // g++
#define SCBF_THREAD_SANITIZER
#elif defined(__has_feature)  // clang
#if __has_feature(thread_sanitizer)
#define SCBF_THREAD_SANITIZER
#endif
#endif

#ifdef SCBF_THREAD_SANITIZER
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace scbf::index {

/// Makes the thread sanitizer ignore memory accesses during its lifetime. RocksDB is not built with
/// the sanitizer, which therefore does not see its synchronisation.
struct Unwatched {
#ifdef SCBF_THREAD_SANITIZER
  Unwatched() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unwatched() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

}  // namespace scbf::index
