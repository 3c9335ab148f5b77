# shellcheck shell=bash
# A host of sixteen chips and one of sixty-four, in a folder on tmpfs so that no disk is measured; containers that ask and one that does
# not; a lease that waits for its bind. For the scripts here, which source it from the project's root; `build` leads into the folder.
#
#   none claim bind status exec_only empty   the commands that are measured, as arrays
#   again                                    what is done before each of them, so that none runs on warmer caches than the others

# shellcheck disable=SC2034 # For who sources it.
[ "$(id -u)" = 0 ] || { echo "$0 needs root: it makes device nodes" >&2; exit 1; }
unset RUST_BACKTRACE NEURON_HOST_ROOT NEURON_SETTINGS
root=$PWD
work=$(mktemp -d -p /dev/shm)
sleeper=
trap '[ -z "$sleeper" ] || kill "$sleeper"; rm -rf "$work"' EXIT

need() {
    local tool
    for tool; do
        type -P "$tool" >/dev/null || { echo "$0 needs $tool" >&2; exit 1; }
    done
}
need jq

# build: the programs, and all that they are run with, into the folder.
build() {
    local built
    cargo build --release --locked --bins --examples --quiet
    built=$(cargo metadata --format-version 1 --no-deps --locked | jq -r .target_directory)
    built=$built/$(rustc -vV | sed -n 's/^host: //p')/release
    install -m 755 "$built/neuron-ctk" "$built"/examples/{exec-only,empty,storm} "$work"
    ln -s neuron-ctk "$work/neuron-container-runtime"
    ln -s neuron-ctk "$work/neuron-container-hook"
    cd "$work" || exit
    hosts
    containers
}

settings() { # HOST RUNTIME
    printf 'runtimes = ["%s"]\nhost-root = "%s"\n' "$work/$2" "$work/$1" >"$1.toml"
    chmod 644 "$1.toml"
}

hosts() {
    ./neuron-ctk simulate trn1.32xlarge sixteen >/dev/null
    ./neuron-ctk simulate trn1.32xlarge --chips 64 sixtyfour >/dev/null
    settings sixteen empty
    settings sixtyfour storm
    mkdir -p {sixteen,sixtyfour}/run/neuron-container-runtime
}

containers() {
    local spec=$root/tests/data/specs/docker26-plain.json bundle chip nodes=()
    mkdir plain ask
    cp "$spec" plain/config.json
    jq -c '.annotations = {"aws.amazon.com/neuron": "4"}' "$spec" >four.json
    jq -c '.annotations = {"aws.amazon.com/neuron": "1"}' "$spec" >ask.json
    for bundle in $(seq 0 127); do mkdir "bundle-$bundle"; done

    # A claimed lease of a process that lives, and a container's root with its nodes, for the hook to bind.
    sleep 100000 &
    sleeper=$!
    major=$(cut -d: -f1 sixteen/sys/class/neuron_device/neuron0/dev)
    mkdir -p rootfs/dev
    for chip in 0 1 2 3; do
        mknod "rootfs/dev/neuron$chip" c "$major" "$chip"
        nodes+=(--node "$chip=/dev/neuron$chip=$major:$chip")
    done
    lease l '[0, 1, 2, 3]' | ledger >claimed.json
    for chip in $(seq 0 63); do lease "l$chip" "[$chip]"; done | ledger >full.json
    cp full.json sixtyfour/run/neuron-container-runtime/ledger.json
    jq -nc --argjson pid "$sleeper" '{ociVersion: "1.0.2", id: "c", status: "creating", pid: $pid, bundle: "/"}' >state.json

    exec_only=(./exec-only ./empty create --bundle plain c)
    empty=(./empty)
    bind=(./neuron-container-hook createRuntime --lease l "${nodes[@]}" --rootfs "$work/rootfs"
        --state-dir "$work/sixteen/run/neuron-container-runtime" --log-file "$work/sixteen/var/log/log" --host-root "$work/sixteen")
    none=(./neuron-container-runtime create --bundle plain c)
    claim=(./neuron-container-runtime create --bundle ask c)
    status=(./neuron-ctk --settings "$work/sixtyfour.toml" status)
    again='cp four.json ask/config.json; cp claimed.json sixteen/run/neuron-container-runtime/ledger.json'
}

lease() { # ID CHIPS
    jq -nc --arg id "$1" --argjson chips "$2" --argjson pid "$sleeper" --argjson start "$(awk '{ print $22 }' "/proc/$sleeper/stat")" \
        --argjson pidns "$(readlink /proc/self/ns/pid | tr -dc 0-9)" \
        '{id: $id, container: "c", root: "", chips: $chips, mode: "exclusive", state: "claimed",
          holder: {pid: $pid, start: $start, pidns: $pidns}, since: "2026-11-30T10:00:00Z", request: "any:4", env: []}'
}

ledger() {
    jq -sc --arg boot "$(cat /proc/sys/kernel/random/boot_id)" '{version: 1, boot_id: $boot, leases: .}'
}
