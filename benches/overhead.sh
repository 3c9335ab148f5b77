#!/usr/bin/env bash
# What this tool costs, as ratios of medians in one run to programs of the same build that do nothing but the unavoidable.
#
# In rounds, each with all commands: a machine that is slow for a while is so for all of them. The median round counts.
#
# As root: device nodes are made. Needs hyperfine 1.19 or newer (cargo install hyperfine), jq and time. RUNS sets the runs of each command in a round (50), ROUNDS the rounds (15).
set -euo pipefail
unset RUST_BACKTRACE NEURON_HOST_ROOT
cd "$(dirname "$0")/.."
runs=${RUNS:-50}
rounds=${ROUNDS:-15}
for tool in hyperfine jq time; do
    type -P "$tool" >/dev/null || { echo "overhead.sh needs $tool" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "overhead.sh needs root: it makes device nodes" >&2; exit 1; }

cargo build --release --locked --bins --examples --quiet
built=$(cargo metadata --format-version 1 --no-deps --locked | jq -r .target_directory)
built=$built/$(rustc -vV | sed -n 's/^host: //p')/release

# On tmpfs, so that no disk is measured.
work=$(mktemp -d -p /dev/shm)
sleeper=
trap '[ -z "$sleeper" ] || kill "$sleeper"; rm -rf "$work"' EXIT
install -m 755 "$built/neuron-ctk" "$built"/examples/{exec-only,empty,storm} "$work"
spec=$PWD/tests/data/specs/docker26-plain.json
cd "$work"
ln -s neuron-ctk neuron-container-runtime
ln -s neuron-ctk neuron-container-hook

settings() { # HOST RUNTIME
    printf 'runtimes = ["%s"]\nhost-root = "%s"\n' "$work/$2" "$work/$1" >"$1.toml"
    chmod 644 "$1.toml"
}
./neuron-ctk simulate trn1.32xlarge sixteen >/dev/null
./neuron-ctk simulate trn1.32xlarge --chips 64 sixtyfour >/dev/null
settings sixteen empty
settings sixtyfour storm

mkdir plain ask
cp "$spec" plain/config.json
jq -c '.annotations = {"aws.amazon.com/neuron": "4"}' "$spec" >four.json
jq -c '.annotations = {"aws.amazon.com/neuron": "1"}' "$spec" >ask.json
for bundle in $(seq 0 63); do mkdir "bundle-$bundle"; done

# A claimed lease of a process that lives, and a container's root with its nodes, for the hook to bind.
sleep 100000 &
sleeper=$!
start=$(awk '{ print $22 }' "/proc/$sleeper/stat")
pidns=$(readlink /proc/self/ns/pid | tr -dc 0-9)
major=$(cut -d: -f1 sixteen/sys/class/neuron_device/neuron0/dev)
mkdir -p rootfs/dev
nodes=()
for chip in 0 1 2 3; do
    mknod "rootfs/dev/neuron$chip" c "$major" "$chip"
    nodes+=(--node "$chip=/dev/neuron$chip=$major:$chip")
done
lease() { # ID CHIPS
    jq -nc --arg id "$1" --argjson chips "$2" --argjson pid "$sleeper" --argjson start "$start" --argjson pidns "$pidns" \
        '{id: $id, container: "c", root: "", chips: $chips, mode: "exclusive", state: "claimed",
          holder: {pid: $pid, start: $start, pidns: $pidns}, since: "2026-11-30T10:00:00Z", request: "any:4", env: []}'
}
ledger() { jq -sc --arg boot "$(cat /proc/sys/kernel/random/boot_id)" '{version: 1, boot_id: $boot, leases: .}'; }
mkdir -p {sixteen,sixtyfour}/run/neuron-container-runtime
lease l '[0, 1, 2, 3]' | ledger >claimed.json
for chip in $(seq 0 63); do lease "l$chip" "[$chip]"; done | ledger >full.json
jq -nc --argjson pid "$sleeper" '{ociVersion: "1.0.2", id: "c", status: "creating", pid: $pid, bundle: "/"}' >state.json

hook=(./neuron-container-hook createRuntime --lease l "${nodes[@]}" --rootfs "$work/rootfs" --state-dir "$work/sixteen/run/neuron-container-runtime" --log-file "$work/sixteen/var/log/log" --host-root "$work/sixteen")
cp full.json sixtyfour/run/neuron-container-runtime/ledger.json
# The same preparation before each, so that none runs on warmer caches than the others.
prepare='cp four.json ask/config.json; cp claimed.json sixteen/run/neuron-container-runtime/ledger.json'
for round in $(seq "$rounds"); do
    NEURON_SETTINGS=$work/sixteen.toml hyperfine --shell=none --warmup 5 --runs "$runs" --export-json "times-$round.json" --style none \
        --input state.json --prepare "sh -c '$prepare'" \
        -n exec-only './exec-only ./empty create --bundle plain c' \
        -n 'no request' './neuron-container-runtime create --bundle plain c' \
        -n claim './neuron-container-runtime create --bundle ask c' \
        -n empty './empty' \
        -n bind "${hook[*]}" \
        -n status "./neuron-ctk --settings $work/sixtyfour.toml status" >/dev/null 2>hyperfine.log || { cat hyperfine.log >&2; exit 1; }
done

rm sixtyfour/run/neuron-container-runtime/ledger.json
storm=$(for _ in 1 2 3 4 5 6 7 8 9; do NEURON_SETTINGS=$work/sixtyfour.toml ./storm ./neuron-container-runtime "$work" 64; done |
    awk '{ print $2 / ($1 / 2) }' | sort -n | sed -n 5p)

cp four.json ask/config.json
memory=$(NEURON_SETTINGS=$work/sixteen.toml command time -f %M ./neuron-container-runtime create --bundle ask c 2>&1)

jq -rs --argjson storm "$storm" --argjson memory "$memory" --argjson size "$(stat -c %s neuron-ctk)" '
    map(.results | map({(.command): .median}) | add) as $rounds
    | def ratio(of; to): $rounds | map(of / to) | sort | .[length / 2 | floor];
      [["no request", ratio(.["no request"]; .["exec-only"]), 1.2, "x exec-only"],
       ["claim of 4 of 16 chips", ratio(.claim; .["exec-only"]), 2.0, "x exec-only"],
       ["bind hook", ratio(.bind; .empty), 1.5, "x an empty program"],
       ["status, 64 chips, 64 leases", ratio(.status; .["exec-only"]), 6, "x exec-only"],
       ["64 claims at once", $storm, 1.3, "x (64 single / 2 cores)"],
       ["peak memory of a claim", $memory / 1024, 3, "MiB"],
       ["release binary", $size / 1e6, 3, "MB"]]
    | .[] | [.[0], (.[1] * 100 | round / 100), "(at most \(.[2]))", .[3]] | @tsv' times-*.json | column -t -s "$(printf '\t')"
