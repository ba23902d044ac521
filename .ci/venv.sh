#!/bin/sh
# Make the virtual environment: venv.sh PYTHON FOLDER. Debian ships python3 without venv; root can add it.
set -e
python=$1 folder=$2
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || {
    echo "keyshift needs Python 3.11 to 3.14: run make with PYTHON=/path/to/it." >&2
    exit 1
}
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -qq -y python3-venv >/dev/null
    else
        echo "Python's venv module is missing: install the package python3-venv." >&2
        exit 1
    fi
fi
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
