#!/bin/sh
# make_venv.sh PYTHON DIR: a virtual environment with pip, also on a bare Debian, whose python3
# comes without ensurepip: then root may install it, and others are told what to install.
set -eu
python=$1 directory=$2

[ -x "$directory/bin/pip" ] && exit 0
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "python$version cannot make virtual environments here." >&2
        echo "As root: apt-get install python$version-venv" >&2
        exit 1
    fi
    echo "installing python$version-venv" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >/dev/null
fi
echo "making the virtual environment $directory" >&2
"$python" -m venv "$directory"
