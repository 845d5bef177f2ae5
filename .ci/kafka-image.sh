#!/bin/sh
# The broker image of kafka/Dockerfile on a base image: kafka-image.sh BASE IMAGE VERSION. Needs `make packages java`.
set -eu
base=$1 image=$2 version=$3
cd "$(dirname "$0")/.."

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp .ci/kafka/* "$context"
mkdir "$context/libs"
.venv/bin/python - "$version" "$context/libs" <<'PYTHON'
import shutil
import sys

from streaming.kafka.jars import fetch, kafka_coordinates

version, target = sys.argv[1:]
for jar in fetch([*kafka_coordinates(version), f"org.apache.kafka:kafka-tools:{version}"]):
    shutil.copy(jar, target)
PYTHON
DOCKER_BUILDKIT=0 docker build --quiet --build-arg "BASE_IMAGE=$base" --tag "$image" "$context" >/dev/null 2>"$context/log" || {
    cat "$context/log" >&2
    exit 3
}
