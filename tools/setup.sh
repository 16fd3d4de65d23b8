#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what debian/control names as build dependencies and is missing; does nothing where all is there.
#     tools/setup.sh [check|demo|wheel|docs]    'check' takes what the tests need as well, 'demo' what draws its picture,
#                                               'wheel' and 'docs' what makes virtual environments and manual pages
# shellcheck disable=SC2086 # $profile and $more are several words, or none
set -eu
cd "$(dirname "$0")/.."

profile='-P nocheck'
[ "${1-}" != check ] || profile=

more=
[ "${1-}" != demo ] || command -v gnuplot >/dev/null || more=gnuplot-nox
case ${1-} in wheel | docs) python3 -c 'import ensurepip, venv' 2>/dev/null || more=python3-venv ;; esac
[ "${1-}" != docs ] || command -v mandoc >/dev/null || more="$more mandoc"

# dpkg-checkbuilddeps comes with dpkg-dev, which may itself be missing.
if command -v dpkg-checkbuilddeps >/dev/null && missing=$(dpkg-checkbuilddeps $profile 2>&1) && [ -z "$more" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "tools/setup.sh: no apt-get here; please install what debian/control names" >&2
    exit 1
fi
printf '%s\n' "${missing:-Setting up ${more:-the build dependencies}}"

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
install_missing() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get build-dep --yes --no-install-recommends $profile ./ </dev/null
    [ -z "$more" ] ||
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $more </dev/null
}
update_lists() {
    $as_root apt-get update </dev/null
}
ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || update_lists
# Lists that are there may still be too old.
install_missing || { update_lists && install_missing; }
