#!/bin/sh
# Prints the path of a tool, `helm` or `kustomize`. A tool that is not on PATH is built once from its Go module into the
# cache; with --cached the script fails instead: scripts/go_tool.sh helm [--cached]
set -eu
case $1 in
helm) package=helm.sh/helm/v3/cmd/helm@v3.22.0 ;;
kustomize) package=sigs.k8s.io/kustomize/kustomize/v5@v5.7.1 ;; # the newest for Go 1.26
*) echo "error: no tool $1" >&2; exit 2 ;;
esac
if command -v "$1"; then exit 0; fi
folder=${REBALANCE_MONITOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kafka-rebalance-monitor}/$1-${package##*@}
if [ ! -x "$folder/$1" ]; then
    [ "${2:-}" != --cached ] || exit 3
    command -v go >/dev/null || { echo "error: neither $1 nor go is installed" >&2; exit 3; }
    echo "building $1 (once; helm takes two minutes)" >&2
    rm -rf "$folder.part"
    GOBIN="$folder.part" go install -trimpath -ldflags=-s "$package" >&2
    mv "$folder.part" "$folder"
fi
echo "$folder/$1"
