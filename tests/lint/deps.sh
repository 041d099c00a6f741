#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/deps.sh asks for packages by their names, all that a step needs, where nothing is there yet: run with a PATH of its own
# and an apt-get that only writes down what it is asked for.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for tool in cat find id sed sh; do
    ln -s "$(command -v $tool)" "$scratch/$tool"
done
cat >"$scratch/apt-get" <<'FAKE'
#!/bin/sh
echo "$@" >>"${0%/*}/asked"
FAKE
cp "$scratch/apt-get" "$scratch/dpkg"
echo "echo Package: \$2" >"$scratch/apt-cache"
echo 'echo riscv64' >"$scratch/uname" # everything of the other architecture is missing, whichever this one is
chmod +x "$scratch"/apt-get "$scratch"/apt-cache "$scratch"/dpkg "$scratch"/uname

# What a step asks for when nothing is there, in $asked, one word after the other.
ask() {
    : >"$scratch/asked"
    # Where it may not install, it says what to install. Nothing is there afterwards in either case, and it has to notice.
    if PATH=$scratch scripts/deps.sh "$1" >>"$scratch/asked" 2>&1; then
        echo "deps.sh $1 is content although nothing was installed" && exit 1
    fi
    asked=$(sed -n "s/.*--no-install-recommends //p" "$scratch/asked" | tr -d "'")
    for package in $asked; do
        if ! echo "$package" | grep -qxE '[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?'; then
            echo "deps.sh $1 asks for '$package', which is no name of a package" && exit 1
        fi
    done
}

wants() {
    for package in "$@"; do
        case " $asked " in
        *" $package "*) ;;
        *) echo "deps.sh does not ask for $package, but for: $asked" && exit 1 ;;
        esac
    done
}

ask test
wants cmake clang abigail-tools libcmocka-dev chromium-headless-shell shellcheck
ask deb
wants debhelper lintian debootstrap
ask cross
wants gcc-x86-64-linux-gnu qemu-user
if [ ! -e /usr/lib/x86_64-linux-gnu/libjansson.so ]; then
    wants libjansson-dev:amd64
    grep -q -- '--add-architecture amd64' "$scratch/asked" || { echo "deps.sh cross does not add the architecture" && exit 1; }
fi
