#!/bin/sh
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
sed 's/apt-get/apt-cache/' "$scratch/apt-get" >"$scratch/apt-cache"
chmod +x "$scratch/apt-get" "$scratch/apt-cache"
# Where it may not install, it says what to install. Nothing is there afterwards in either case, and it has to notice.
if PATH=$scratch scripts/deps.sh test >>"$scratch/asked" 2>&1; then
    echo "deps.sh is content although nothing was installed" && exit 1
fi
asked=$(sed -n "s/.*--no-install-recommends //p" "$scratch/asked" | tr -d "'")
for package in cmake clang libcmocka-dev chromium-headless-shell shellcheck; do
    case " $asked " in
    *" $package "*) ;;
    *) echo "deps.sh does not ask for $package, but for: $asked" && exit 1 ;;
    esac
done
for package in $asked; do
    if ! expr "$package" : '[a-z0-9][a-z0-9+.-]*$' >/dev/null; then
        echo "deps.sh asks for '$package', which is no name of a package" && exit 1
    fi
done
