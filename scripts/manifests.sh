#!/bin/sh
# Renders the chart for kustomize into deploy/kubernetes, or FOLDER: scripts/manifests.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
folder=${1:-deploy/kubernetes}
helm=$(sh scripts/go_tool.sh helm)
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
render() {
    file=$folder/$1/manifests.yaml
    shift
    mkdir -p "${file%/*}"
    echo "# Written by make manifests from deploy/helm: change it there." >"$file"
    # helm warns of the chart's symbolic links.
    "$helm" template rebalance-monitor deploy/helm --namespace rebalance-monitor --kube-version 1.33 \
        --set existingConfigMap=rebalance-monitor "$@" >>"$file" 2>"$errors" || { cat "$errors" >&2; exit 1; }
}
render base --set stream.kind=none
render stream-local --show-only templates/stream-local.yaml
for kind in kubeflow apache; do
    render stream-$kind --set stream.kind=$kind --show-only templates/stream-$kind.yaml --show-only templates/stream-operator.yaml
done
render monitoring --set monitoring.monitors=true --show-only templates/monitoring.yaml
render strimzi --set strimzi.enabled=true --show-only templates/strimzi.yaml
