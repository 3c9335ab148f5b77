#!/bin/sh
# Installs neuron-ctk and its two links, and enters the runtime `neuron` into the engines of this host; --uninstall undoes it.
# What is written into which file is neuron-ctk's business; this copies, links and calls it.
set -eu

usage() {
    cat <<'END'
usage: ./install.sh [--dry-run] [ENGINE...]       install, for these engines or for each one that is found
       ./install.sh [--dry-run] --uninstall       leave /etc and PREFIX as they were

ENGINE is docker, containerd, crio or podman. Chips and their driver need not be there. Twice is once.

  PREFIX    where bin/neuron-ctk goes; /usr/local unless it is set
  DESTDIR   a folder that stands for /, for packagers: files only, no engine is configured

Example: ./install.sh docker && docker run --rm --runtime neuron -e AWS_NEURON_VISIBLE_DEVICES=any:1 IMAGE
END
}

stop() {
    echo "install.sh: $*" >&2
    exit 1
}

wrong() {
    echo "install.sh: $*; ./install.sh --help shows what there is" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
bin=${PREFIX:-/usr/local}/bin
etc=/etc/neuron-container-runtime
root=${DESTDIR:-}
known='docker containerd crio podman'
links='neuron-container-runtime neuron-container-hook'
dry='' undo='' engines=''
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

for argument; do
    case $argument in
        --help | -h) usage && exit ;;
        --dry-run) dry=yes ;;
        --uninstall) undo=yes ;;
        docker | containerd | crio | podman) engines="$engines $argument" ;;
        *) wrong "$argument is neither an option nor an engine" ;;
    esac
done
[ -z "$undo" ] || [ -z "$engines" ] || wrong "--uninstall is for every engine at once; for one: neuron-ctk configure$engines --remove"
case $bin in
    /*) ;;
    *) wrong "PREFIX must be absolute, engines need the whole path: $bin" ;;
esac
[ -n "$root$dry" ] || [ "$(id -u)" = 0 ] || stop "must be run by root: it writes to $bin and /etc"

# Does it, or says what would be done.
run() {
    if [ -n "$dry" ]; then
        echo "would run: $*"
    else
        "$@"
    fi
}

built=''
trap '[ -z "$built" ] || rm -rf "$built"' EXIT

# The binary that is beside this script, or one that is built.
binary() {
    binary=$here/neuron-ctk
    [ ! -x "$binary" ] || return 0
    command -v cargo >/dev/null || stop "no neuron-ctk is beside this script and cargo is not there to build it: install Rust, or put a built neuron-ctk here"
    if [ -n "$dry" ]; then
        echo "would build neuron-ctk with cargo"
        return
    fi
    built=$(mktemp -d)
    (cd "$here" && cargo install --quiet --locked --no-track --path . --root "$built")
    binary=$built/bin/neuron-ctk
}

install_files() {
    run mkdir -p "$root$bin"
    if ! cmp -s "$binary" "$root$bin/neuron-ctk"; then
        # Renamed into its place: containers may be starting through the old one.
        run install -m 755 "$binary" "$root$bin/.neuron-ctk.new"
        run mv -f "$root$bin/.neuron-ctk.new" "$root$bin/neuron-ctk"
        [ -n "$dry" ] || echo "$root$bin/neuron-ctk: installed"
    fi
    for link in $links; do
        [ "$(readlink "$root$bin/$link" || true)" != neuron-ctk ] || continue
        run ln -sf neuron-ctk "$root$bin/$link"
        [ -n "$dry" ] || echo "$root$bin/$link: linked"
    done
    if [ ! -e "$root$etc/config.toml" ]; then
        run install -d -m 755 "$root$etc"
        run install -m 644 "$here/data/config.toml" "$root$etc/config.toml"
        [ -n "$dry" ] || echo "$root$etc/config.toml: made, with every key at its default"
    fi
}

program() {
    case $1 in
        docker) echo dockerd ;;
        *) echo "$1" ;;
    esac
}

configure_engines() {
    failed=''
    if [ -z "$engines" ]; then
        for engine in $known; do
            ! command -v "$(program "$engine")" >/dev/null || engines="$engines $engine"
        done
    fi
    [ -n "$engines" ] || echo "no engine was found; after one is installed: neuron-ctk configure ENGINE"
    for engine in $engines; do
        echo "== $engine"
        run "$bin/neuron-ctk" configure "$engine" || failed="$failed $engine"
    done
    [ -z "$failed" ] || stop "not configured:$failed; what is said above is to be mended, then: neuron-ctk configure ENGINE"
}

uninstall() {
    if [ -z "$root" ] && [ -x "$bin/neuron-ctk" ]; then
        for engine in $known; do
            run "$bin/neuron-ctk" configure "$engine" --remove || stop "$engine is still configured, so nothing is removed"
        done
    fi
    if [ -n "$dry" ]; then
        echo "would remove: $root$etc/config.toml if it is as it was installed, $root$bin/neuron-ctk and its links"
        return
    fi
    if cmp -s "$here/data/config.toml" "$root$etc/config.toml"; then
        rm "$root$etc/config.toml"
        rmdir "$root$etc" 2>/dev/null || true
    elif [ -e "$root$etc/config.toml" ]; then
        echo "$root$etc/config.toml: kept, for it was changed"
    fi
    for link in $links; do
        [ "$(readlink "$root$bin/$link" || true)" != neuron-ctk ] || rm "$root$bin/$link"
    done
    rm -f "$root$bin/neuron-ctk"
    echo "removed; /run/neuron-container-runtime and the log stay, for containers with chips may be running"
}

if [ -n "$undo" ]; then
    uninstall
    exit
fi
binary
install_files
if [ -n "$root" ]; then
    echo "no engine is configured under DESTDIR; on the host: neuron-ctk configure ENGINE"
    exit
fi
configure_engines
[ -n "$dry" ] || echo "next: neuron-ctk status shows the chips of this host"
