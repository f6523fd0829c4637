#!/bin/sh
# Installs the independent tools that judge our readers (see tests/kit/oracles.py):
#   check_urdf   urdfdom's URDF checker, from Debian
#   sdf_dump     our dumper on top of Debian's libsdformat 12
#   Drake        a virtual environment with a Python of 3.12 or later
#   Newton       another one, for its importer of USD
#   glTF         Khronos' validator, from npm
# Everything we build goes to .oracles/ (or $KINEMA_ORACLES). A second run only
# adds what is missing. An oracle that cannot be had is a message and never a
# failure, because the tests that need it skip themselves.
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${KINEMA_ORACLES:-$(cd "$here/../.." && pwd)/.oracles}
packages="liburdfdom-tools libsdformat-dev sdformat-sdf ignition-tools"

say() { printf 'oracles: %s\n' "$*"; }

mkdir -p "$out" || exit 1
# The folder ignores itself, so git never sees it wherever it is put.
echo '*' > "$out/.gitignore"

install_packages() {
    missing=
    for package in $packages; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
        [ "$state" = installed ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        say "not root, so not installed:$missing"
        say "  ask an administrator for: apt-get install$missing"
        return 0
    fi
    say "installing$missing"
    # The lock time-out waits for another apt run instead of failing on it.
    apt="env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
    $apt update || say "apt-get update failed; trying with the lists at hand"
    # One by one, because a release may have dropped only some of them
    # (Debian 13 has no libsdformat 12).
    for package in $missing; do
        $apt install -y --no-install-recommends "$package" ||
            say "apt-get could not install $package"
    done
}

build_sdf_dump() {
    source="$here/sdf_dump.cc"
    # The time stamp makes an edited dumper build anew.
    if [ -x "$out/sdf_dump" ] && [ -z "$(find "$source" -newer "$out/sdf_dump")" ]; then
        return 0
    fi
    if ! command -v pkg-config >/dev/null || ! pkg-config --exists sdformat12; then
        say "no sdformat12 for pkg-config, so sdf_dump is not built"
        return 0
    fi
    compiler=${CXX:-g++}
    if ! command -v "$compiler" >/dev/null; then
        say "no C++ compiler ($compiler), so sdf_dump is not built"
        return 0
    fi
    say "compiling sdf_dump"
    # Built beside its place and moved, so a test never runs half a program.
    # shellcheck disable=SC2046
    if "$compiler" -std=c++17 -O1 -Wall -Wextra -o "$out/sdf_dump.new" "$source" \
        $(pkg-config --cflags --libs sdformat12 | sed 's/-I/-isystem /g'); then
        mv "$out/sdf_dump.new" "$out/sdf_dump"
    else
        rm -f "$out/sdf_dump.new"
        say "sdf_dump does not compile"
    fi
}

find_python() {
    # Each candidate is run: a pyenv shim is on the PATH even for a version
    # that is not switched on, and Debian's Python may lack ensurepip.
    for python in python3.12 python3.13 python3.14 python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
        if "$python" -c 'import ensurepip, sys, venv
sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

# install_python NAME MODULE PACKAGE: a virtual environment with a package in it.
install_python() {
    if "$out/$1/bin/python" -c "import $2" >/dev/null 2>&1; then
        return 0
    fi
    if ! python=$(find_python); then
        say "no Python of 3.12 or later with venv, so $1 is not installed"
        return 0
    fi
    say "installing $1 with $python"
    if ! "$python" -m venv --clear "$out/$1" ||
        ! "$out/$1/bin/python" -m pip install -q --disable-pip-version-check "$3"; then
        # Half an environment would fail the tests instead of skipping them.
        rm -rf "${out:?}/$1"
        say "pip could not install $1"
    fi
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    install_packages
else
    say "not a Debian system, so not installed: $packages"
fi
build_sdf_dump
install_python drake pydrake drake
# newton_usd_schemas comes with the importers only, so it tells whether they are there
install_python newton newton_usd_schemas 'newton[importers]'

install_gltf_validator() {
    [ -d "$out/gltf/node_modules/gltf-validator" ] && return 0
    if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
        say "no npm and node, so the glTF validator is not installed"
        return 0
    fi
    say "installing the glTF validator"
    npm install --silent --no-audit --no-fund --prefix "$out/gltf" gltf-validator >/dev/null 2>&1 || {
        rm -rf "${out:?}/gltf"
        say "npm could not install gltf-validator"
    }
}
install_gltf_validator

report() { printf 'oracles:   %-11s %s\n' "$1" "$2"; }
version_of() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo "version unknown"; }

say "present in $out and on the PATH:"
if command -v check_urdf >/dev/null; then
    report check_urdf "urdfdom $(version_of liburdfdom-tools)"
else
    report check_urdf missing
fi
if [ -x "$out/sdf_dump" ]; then
    report sdf_dump "libsdformat $(pkg-config --modversion sdformat12 2>/dev/null)"
else
    report sdf_dump missing
fi
if ign=$(ign sdf --versions 2>/dev/null) && [ -n "$ign" ]; then
    report "ign sdf" "$ign (for use by hand)"
else
    report "ign sdf" "missing (for use by hand)"
fi
if [ -d "$out/gltf/node_modules/gltf-validator" ]; then
    report gltf "$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$out/gltf/node_modules/gltf-validator/package.json")"
else
    report gltf missing
fi
for name in drake newton; do
    if version=$("$out/$name/bin/python" -c "import importlib.metadata as m
print(m.version('$name'))" 2>/dev/null); then
        report "$name" "$version"
    else
        report "$name" missing
    fi
done
exit 0
