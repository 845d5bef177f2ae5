#!/bin/sh
# Installs the Debian packages that are missing, without prompts: apt.sh PACKAGE|ALTERNATIVE …
# The package lists are updated once if a package is missing. Output appears only if a command fails.
set -eu
export DEBIAN_FRONTEND=noninteractive

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
known() { [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p')" ]; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() {
    "$@" >"$log" 2>&1 </dev/null && return
    cat "$log" >&2
    printf 'error: %s failed\n' "$*" >&2
    exit 3
}

missing=
updated=
for wanted in "$@"; do
    found=
    for name in $(echo "$wanted" | tr '|' ' '); do
        if installed "$name"; then found=yes; break; fi
    done
    [ -z "$found" ] || continue
    if [ -z "$updated" ]; then
        run apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 update
        updated=yes
    fi
    for name in $(echo "$wanted" | tr '|' ' '); do
        if known "$name"; then found=$name; break; fi
    done
    [ -n "$found" ] || { printf 'error: no Debian package %s\n' "$wanted" >&2; exit 3; }
    missing="$missing $found"
done
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # a list of package names
run apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends $missing
