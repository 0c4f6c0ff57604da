#!/usr/bin/env bash
# Prints the options for cargo that switch on what this machine can build beyond the ordinary: TCP Nice for the running kernel, which
# takes Linux, clang, libelf and zlib. Nothing is printed where they are not there.
set -euo pipefail

if [[ $(uname -s) == Linux ]] && command -v "${CLANG:-clang}" >/dev/null 2>&1 &&
    "${CLANG:-clang}" -fsyntax-only -include libelf.h -include zlib.h -x c /dev/null 2>/dev/null; then
    echo "--features warpline-cli/bpf"
fi
