#!/bin/sh
# A base image (Debian, Java, Python) made from Debian packages, for machines that reach a package registry but no
# image registry: base-image.sh IMAGE. Needs root, debootstrap and a Docker engine.
set -eu
image=$1

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=openjdk-21-jre-headless,ca-certificates,python3,python3-venv,tini \
    trixie "$root/system" >"$root/log" 2>&1 || {
    tail -n 30 "$root/log" >&2
    exit 3
}
rm -rf "$root"/system/var/cache/apt/archives/*.deb "$root"/system/var/lib/apt/lists/*
# The image trusts what this machine trusts: its package registries may sit behind a certificate of their own.
cp -r /usr/local/share/ca-certificates/. "$root/system/usr/local/share/ca-certificates/"
tar -C "$root/system" --exclude='./proc/*' --exclude='./sys/*' -c . | docker import - "$image-system" >/dev/null

mkdir "$root/build"
cat >"$root/build/Dockerfile" <<DOCKERFILE
FROM $image-system
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \\
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
# Once more for Java's own store: the packages' scripts ran without /proc.
RUN update-ca-certificates --fresh >/dev/null
DOCKERFILE
DOCKER_BUILDKIT=0 docker build --quiet --tag "$image" "$root/build" >/dev/null 2>"$root/log" || {
    cat "$root/log" >&2
    exit 3
}
