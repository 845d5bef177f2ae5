#!/bin/sh
# Installs the packages of uv.lock in .venv, and uv itself in .uv if the machine has no uv. With --no-dev only the
# packages that the monitor needs at run time are installed; other packages in .venv are kept.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 3
}

private_uv() {
    command -v python3 >/dev/null || fail "neither uv nor python3 was found: install uv (https://docs.astral.sh/uv) or Python 3.11+"
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian ships python3 without these two modules.
        command -v apt-get >/dev/null || fail "python3 has no venv module: install uv (https://docs.astral.sh/uv) or a complete Python 3.11+"
        [ "$(id -u)" = 0 ] || fail "python3 has no venv module: sudo apt-get install python3-venv"
        echo "Installing python3-venv" >&2
        sh scripts/apt.sh python3-venv
    fi
    echo "Installing uv into .uv" >&2
    python3 -m venv --clear .uv
    .uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8,<1' ||
        fail "uv could not be installed: see pip's message above; is the package index reachable?"
}

if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then
    uv=uv
else
    uv=.uv/bin/uv
    "$uv" --version >/dev/null 2>&1 || private_uv
fi

# The native code in kernel/ is optional and needs Rust; without it, Python computes the same results more slowly.
without=.venv/without-kernel

# Prints a checksum of everything that a build depends on: a failed build is repeated when the checksum has changed.
kernel_as_it_is() {
    {
        cargo --version
        find kernel -path kernel/target -prune -o -type f -print | sort | xargs cat
    } 2>&1 | cksum
}

# A failed build is repeated when its input has changed, and after an hour, as the network may have been unavailable.
wants_kernel() {
    cargo --version >/dev/null 2>&1 || return 1
    [ -e "$without" ] && [ -z "$(find "$without" -mmin +60)" ] && [ "$(cat "$without")" = "$(kernel_as_it_is)" ] || return 0
    echo "kernel/ could not be built: Python decides, more slowly (it is tried again within the hour; now: rm $without)" >&2
    return 1
}

has_kernel() { [ -n "$(find .venv/lib -maxdepth 3 -name 'rebalance_kernel-*' 2>/dev/null)" ]; }

native=
if [ "${1-}" = --no-dev ]; then
    set -- --no-dev --inexact
    # An installed native package is kept by --inexact, so it has to be updated to this release.
    ! has_kernel || native=--group=kernel
else
    set --
    ! wants_kernel || native=--group=kernel
fi

# Prints nothing if all packages are installed, and otherwise uv's progress.
if ! "$uv" sync --locked "$@" ${native:+"$native"} --check --quiet 2>/dev/null; then
    [ -d .venv ] || echo "Installing the locked packages into .venv (about 600 MB, once)" >&2
    # Compile the packages now on all cores: otherwise each of the demo's ten processes compiles its imports.
    if ! "$uv" sync --locked "$@" ${native:+"$native"} --compile-bytecode; then
        [ -n "$native" ] || fail "the packages of uv.lock could not be installed: see uv's message above"
        echo "Going on without the package in kernel/: Python gives the same answers, more slowly (tried again after an hour)" >&2
        native=
        [ -d .venv ] || "$uv" venv --quiet
        "$uv" sync --locked "$@" --compile-bytecode || fail "the packages of uv.lock could not be installed: see uv's message above"
        # --inexact would keep the native package of another release.
        ! has_kernel || "$uv" pip uninstall --quiet rebalance-kernel
        kernel_as_it_is >"$without"
    fi
fi
[ -z "$native" ] || rm -f "$without"
