#!/bin/sh
# Checks for Java 17 or newer, where Spark looks for it: JAVA_HOME, then PATH. Says what to install; on Debian, root installs it.
set -eu
cd "$(dirname "$0")/.."

major() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    # "1.8.0_402" is 8; "17.0.15" and "25" are what they say. The macOS stub prints no version and fails.
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

have=$(major)
[ "${have:-0}" -lt 17 ] || exit 0

id=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") || id=$(uname -s)
case " $id " in
*" debian "* | *" ubuntu "*)
    if [ "$(id -u)" = 0 ] && [ -z "${JAVA_HOME:-}" ]; then
        echo "Installing Java 17 or newer (Kafka and Spark run on it)" >&2
        sh scripts/apt.sh 'openjdk-17-jre-headless|openjdk-21-jre-headless|openjdk-25-jre-headless'
        have=$(major)
        [ "${have:-0}" -lt 17 ] || exit 0
    fi
    how='sudo apt-get install openjdk-17-jre-headless   (Debian 13: openjdk-21-jre-headless)' ;;
*" fedora "* | *" rhel "*) how='sudo dnf install java-21-openjdk-headless' ;;
*" alpine "*) how='sudo apk add openjdk17-jre-headless bash' ;;
*" arch "*) how='sudo pacman -S jre17-openjdk-headless' ;;
*" suse "*) how='sudo zypper install java-17-openjdk-headless' ;;
*) case $(uname -s) in
    Darwin) how='brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"' ;;
    *) how='install any OpenJDK 17 or newer and put java on PATH' ;;
    esac ;;
esac

if [ -n "${JAVA_HOME:-}" ]; then
    what="JAVA_HOME=$JAVA_HOME holds $([ -n "$have" ] && echo "Java $have" || echo 'no Java')"
elif [ -n "$have" ]; then
    what="the java on PATH is Java $have"
else
    what="Java was not found"
fi
printf 'error: %s; Kafka and Spark need Java 17 or newer:\n  %s\n' "$what" "$how" >&2
exit 3
