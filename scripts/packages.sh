#!/bin/sh
# Installs the packages of uv.lock in .venv, and uv itself in .uv where the machine has none. With --no-dev those alone
# that run; what is there beside them stays.
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

without=.venv/without-kernel
if [ "${1-}" = --no-dev ]; then
    set -- --no-dev --inexact
else
    # The native rounds are an extra for machines with Rust: the same answers without it, more slowly.
    set --
    [ -e "$without" ] || ! cargo --version >/dev/null 2>&1 || set -- --group kernel
fi

# Silent when there is nothing to do; uv's own progress when there is.
"$uv" sync --locked "$@" --check --quiet 2>/dev/null && exit 0
[ -d .venv ] || echo "Installing the locked packages into .venv (about 600 MB, once)" >&2
# Compiled now, by all cores: else each of the demo's ten processes compiles what it imports.
"$uv" sync --locked "$@" --compile-bytecode && exit 0
if [ "${1-}" = --group ]; then
    echo "Going on without the package in kernel/: Python answers the same (remove $without to try again)" >&2
    [ -d .venv ] || "$uv" venv --quiet
    : >"$without"
    "$uv" sync --locked --compile-bytecode && exit 0
fi
fail "the packages of uv.lock could not be installed: see uv's message above"
