#!/bin/sh
# Checks for Java 17 or newer where Spark searches for it: JAVA_HOME, then PATH; `java.sh jdk` also checks the compiler.
# If Java is missing, the script prints the command that installs it; on Debian, the script installs it if run by root.
set -eu
cd "$(dirname "$0")/.."
kit=${1:-jre}

major() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    # "1.8.0_402" is Java 8; "17.0.15" is Java 17, and "25" is Java 25. The macOS stub prints no version.
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

enough() {
    have=$(major)
    [ "${have:-0}" -ge 17 ] || return 1
    [ "$kit" = jre ] || "${JAVA_HOME:+$JAVA_HOME/bin/}javac" -version >/dev/null 2>&1
}

! enough || exit 0

system=$(sed -n 's/^ID\(_LIKE\)\{0,1\}=//p' /etc/os-release 2>/dev/null | tr '"\n' '  ')
case " $system $(uname -s) " in
*" debian "* | *" ubuntu "*)
    if [ "$(id -u)" = 0 ] && [ -z "${JAVA_HOME:-}" ]; then
        echo "Installing Java 17 or newer (Kafka and Spark run on it)" >&2
        sh scripts/apt.sh "openjdk-17-$kit-headless|openjdk-21-$kit-headless|openjdk-25-$kit-headless"
        ! enough || exit 0
    fi
    how="sudo apt-get install openjdk-17-$kit-headless   (Debian 13: openjdk-21-$kit-headless)" ;;
*" fedora "* | *" rhel "*)
    how="sudo dnf install java-21-openjdk-headless"
    [ "$kit" = jre ] || how="sudo dnf install java-21-openjdk-devel" ;;
*" alpine "*) how="sudo apk add bash openjdk17-$kit" ;;
*" arch "*) how="sudo pacman -S $kit-openjdk" ;;
*" suse "* | *" opensuse "*)
    how="sudo zypper install java-17-openjdk-headless"
    [ "$kit" = jre ] || how="sudo zypper install java-17-openjdk-devel" ;;
*" Darwin "*)
    # shellcheck disable=SC2016 # for the reader's shell
    how='brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"' ;;
*) how="install any OpenJDK 17 or newer and put it on PATH" ;;
esac

where="the java on PATH"
[ -z "${JAVA_HOME:-}" ] || where="JAVA_HOME=$JAVA_HOME"
what="Java 17 or newer"
if [ "${have:-0}" -ge 17 ]; then
    what="the Java compiler" found="has no javac"
elif [ -n "$have" ]; then
    found="is Java $have"
elif [ -n "${JAVA_HOME:-}" ]; then
    found="has none"
else
    where="PATH" found="has none"
fi
printf 'error: Kafka and Spark need %s, but %s %s:\n  %s\n' "$what" "$where" "$found" "$how" >&2
exit 3
