# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts of this folder share: how they speak, and how they stop. Source it after
# `set -euo pipefail`.

# Numbers and orders that do not depend on the reader's language.
export LC_ALL=C.UTF-8

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

say() { printf '%s\n' "$*"; }
headline() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Every build of these scripts uses ccache where it is there, and as many jobs as there are cores.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
fi
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL-$(nproc)}
