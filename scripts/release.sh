#!/bin/sh
# Builds a release, without the upload, in dist/release or FOLDER: wheel, sdist, image with its SBOM, chart, changelog,
# checksums. With --no-image no image is built: scripts/release.sh [--no-image] [FOLDER]
set -eu
cd "$(dirname "$0")/.."
fail() {
    printf 'error: %s\n' "$1" >&2
    exit 3
}
image=yes
[ "${1:-}" != --no-image ] || { image= && shift; }
folder=${1:-dist/release}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' assignors/__init__.py)
for name in version appVersion; do
    grep -q "^$name: $version\$" deploy/helm/Chart.yaml || fail "deploy/helm/Chart.yaml: $name is not $version"
done
rm -rf "$folder"
mkdir -p "$folder"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # the same commit, the same bytes
export SOURCE_DATE_EPOCH

"$(command -v uv || echo .uv/bin/uv)" build --quiet --out-dir "$folder"
rm -f "$folder/.gitignore"
"$(sh scripts/go_tool.sh helm)" package deploy/helm --destination "$folder" >/dev/null 2>&1 || fail "helm package deploy/helm failed"

section=$version
grep -q "^## \[$section\]" CHANGELOG.md || section=Unreleased
awk -v begin="## [$section]" 'index($0, "## ") == 1 { on = index($0, begin) == 1; next } on' CHANGELOG.md >"$folder/CHANGES.md"
[ -s "$folder/CHANGES.md" ] || fail "CHANGELOG.md: no section [$version] or [Unreleased]"

if [ -n "$image" ]; then
    docker build --quiet --file deploy/docker/Dockerfile --tag "kafka-rebalance-monitor:$version" \
        ${BASE_IMAGE:+--build-arg "BASE_IMAGE=$BASE_IMAGE"} ${NATIVE+--build-arg "NATIVE=$NATIVE"} .
    docker run --rm --interactive --entrypoint python "kafka-rebalance-monitor:$version" - /opt/rebalance-monitor \
        <scripts/sbom.py >"$folder/kafka-rebalance-monitor-$version.cdx.json"
fi
(cd "$folder" && sha256sum -- * >SHA256SUMS)

ls -l "$folder"
[ "$section" != Unreleased ] || echo "CHANGES.md is the section [Unreleased]: before the upload rename it to [$version] - $(date +%F)"
cat <<END
Upload, with the registry's name in place of REGISTRY:
  git tag v$version && git push origin v$version
  uv publish $folder/*.whl $folder/*.tar.gz
  docker tag kafka-rebalance-monitor:$version REGISTRY/kafka-rebalance-monitor:$version && docker push REGISTRY/kafka-rebalance-monitor:$version
  helm push $folder/rebalance-monitor-$version.tgz oci://REGISTRY/charts
END
