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

# The folder of the CUDA compiler that install-deps --cuda brings. It outlives build/, which is
# deleted more often.
cuda_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cuda

# Leaves the path of the CUDA compiler in $nvcc, empty where there is none, and exports $CUDACXX for
# CMake. A $CUDACXX that is set already decides. What install-deps brought comes before PATH: it was
# brought because PATH had no compiler that is new enough.
find_nvcc() {
  nvcc=$(if [[ -n ${CUDACXX-} ]]; then
    command -v "$CUDACXX" || command -v "${CUDACXX%% *}"  # options may follow
  else
    command -v "$cuda_folder/bin/nvcc" || command -v nvcc || command -v /usr/local/cuda/bin/nvcc
  fi) || true
  export CUDACXX=${CUDACXX:-$nvcc}
}

# say_what_is_missing GROUP…: for --no-install; names what is missing and why, if anything is. Whatever
# install-deps says is a reason, but for what it finds.
say_what_is_missing() {
  local missing
  command -v dpkg-query >/dev/null || return 0
  missing=$(scripts/install-deps "$@" --dry-run |
    grep -vE '^(packages: all|CUDA compiler: CUDA [0-9.]+ is there|CUDA compiler: pip will|libraries for arm64: (they are|this machine))') || return 0
  say "$missing"
  say "to install them: scripts/install-deps $*"
}

# Every build of these scripts uses ccache where it is there, and as many jobs as there are cores.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
fi
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL-$(nproc)}
