#!/usr/bin/env sh
# The pages' JavaScript: types by tsc, faults by eslint. For development only; without npm there is nothing to do.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
    echo "npm is not installed: the pages' JavaScript is not checked"
    exit 0
fi
if [ ! -x node_modules/.bin/tsc ] && ! npm ci --silent --no-audit --no-fund; then
    echo "npm could not install what checks the pages' JavaScript: it is not checked"
    exit 0
fi
node_modules/.bin/tsc -p .
cd ../..
.ci/scripts/node_modules/.bin/eslint --config .ci/scripts/eslint.config.mjs interface/report/*.mjs
