#!/bin/sh
# Spark 4 needs Java 17 or newer: use the one that is there, or install it where that is ours to do.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${major:-0}" -ge 17 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Java 17 for Spark ..."
    apt-get update -qq && apt-get install -qq -y openjdk-17-jre-headless >/dev/null && exit 0
fi
echo "Spark needs Java 17 or newer: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless) or point JAVA_HOME at it." >&2
exit 1
