#!/usr/bin/env bash
# Builds what a release holds for this machine's kind: an archive with the program, its manual pages and completions, its symbols apart, and
# a wheel that holds the Python package and the program. Each with its SHA-256. The wheel's program needs no libraries beside libc, and so cannot
# load TCP Nice into the running kernel.
#
# usage: scripts/release.sh OUT [TARGET]
#
# TARGET is one of Rust's, this machine's by default. The wheel is left out without maturin, and the list of dependencies (SBOM) without
# cargo-cyclonedx; what is left out is said.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?"usage: scripts/release.sh OUT [TARGET]"}
host=$(rustc -vV | sed -n 's/^host: //p')
target=${2:-$host}
version=$(cargo pkgid --locked --package warpline-cli | sed 's/.*[#@]//')
name=warpline-$version-$target
built=${CARGO_TARGET_DIR:-target}
options=(--release --locked)
# Builds for this machine share the directory of all others.
if [[ $target != "$host" ]]; then
    built+=/$target
    options+=(--target "$target")
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
# The place where maturin looks for what goes beside the module.
beside=warpline._warpline.data
# cargo-cyclonedx writes a file beside the manifest of each crate.
trap 'rm -rf "$work" "$beside"; find crates fuzz -name "$name.sbom.json" -exec rm -f {} +' EXIT

have() {
    command -v "$1" >/dev/null 2>&1
}

checksum() {
    if have sha256sum; then (cd "$out" && sha256sum "$1" >"$1.sha256"); else (cd "$out" && shasum -a 256 "$1" >"$1.sha256"); fi
}

cargo build "${options[@]}" --package warpline-cli
mkdir -p "$work/$name"/{bin,share/man/man1,share/completions}
program=$work/$name/bin/warpline
cp "$built/release/warpline" "$program"
# A debugger finds the symbols by the link, in the same directory or below /usr/lib/debug.
if have objcopy && [[ $target == *linux* ]]; then
    objcopy --only-keep-debug "$program" "$work/warpline.debug"
    strip "$program"
    (cd "$work" && objcopy --add-gnu-debuglink=warpline.debug "$program" && tar -czf "$out/$name.debug.tar.gz" warpline.debug)
    checksum "$name.debug.tar.gz"
else
    strip "$program"
fi

# The texts come from a program that runs here.
if [[ $target == "$host" ]]; then
    "$program" man "$work/$name/share/man/man1"
    for shell in bash zsh fish; do "$program" completions $shell >"$work/$name/share/completions/warpline.$shell"; done
else
    echo "$target does not run here: no manual pages and no completions" >&2
    rm -r "$work/$name/share"
fi
cp README.md LICENSE-APACHE LICENSE-MIT "$work/$name/"
# Of what is built into the program.
licences=$work/$name/share/doc/warpline
mkdir -p "$licences"
for licence in third_party/*/LICENSE*; do
    cp "$licence" "$licences/$(basename "$(dirname "$licence")")-$(basename "$licence")"
done
tar -czf "$out/$name.tar.gz" -C "$work" "$name"
checksum "$name.tar.gz"

if have maturin; then
    mkdir -p "$beside/scripts"
    cargo build "${options[@]}" --package warpline-cli --no-default-features --features live
    cp "$built/release/warpline" "$beside/scripts/warpline"
    strip "$beside/scripts/warpline"
    maturin build "${options[@]}" --strip --out "$work/wheel"
    for wheel in "$work"/wheel/*.whl; do
        cp "$wheel" "$out/"
        checksum "$(basename "$wheel")"
    done
else
    echo "maturin is not installed: no wheel" >&2
fi

if cargo cyclonedx --version >/dev/null 2>&1; then
    cargo cyclonedx --format json --target "$target" --manifest-path crates/cli/Cargo.toml --override-filename "$name.sbom"
    mv "crates/cli/$name.sbom.json" "$out/$name.sbom.json"
    checksum "$name.sbom.json"
else
    echo "cargo-cyclonedx is not installed: no list of dependencies" >&2
fi
ls -l "$out"
