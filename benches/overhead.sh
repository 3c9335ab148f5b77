#!/usr/bin/env bash
# What this tool costs, as ratios of medians in one run to programs of the same build that do nothing but the unavoidable.
#
# In rounds, each with all commands: a machine that is slow for a while is so for all of them. The median round counts.
#
# As root. Needs hyperfine 1.19 or newer (cargo install hyperfine), jq and time. RUNS sets the runs of each command in a round (50),
# ROUNDS the rounds (15).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=SCRIPTDIR/stage.sh
. benches/stage.sh
need hyperfine time
build
for round in $(seq "${ROUNDS:-15}"); do
    NEURON_SETTINGS=$work/sixteen.toml hyperfine --shell=none --warmup 5 --runs "${RUNS:-50}" --export-json "times-$round.json" \
        --style none --input state.json --prepare "sh -c '$again'" \
        -n exec-only "${exec_only[*]}" \
        -n 'no request' "${none[*]}" \
        -n claim "${claim[*]}" \
        -n empty "${empty[*]}" \
        -n bind "${bind[*]}" \
        -n status "${status[*]}" >/dev/null 2>hyperfine.log || { cat hyperfine.log >&2; exit 1; }
done

rm sixtyfour/run/neuron-container-runtime/ledger.json
storm=$(for _ in 1 2 3 4 5 6 7 8 9; do NEURON_SETTINGS=$work/sixtyfour.toml ./storm ./neuron-container-runtime "$work" 64; done |
    awk '{ print $2 / ($1 / 2) }' | sort -n | sed -n 5p)

sh -c "$again"
memory=$(NEURON_SETTINGS=$work/sixteen.toml command time -f %M "${claim[@]}" 2>&1)

jq -rs --argjson storm "$storm" --argjson memory "$memory" --argjson size "$(stat -c %s neuron-ctk)" '
    map(.results | map({(.command): .median}) | add) as $rounds
    | def ratio(of; to): $rounds | map(of / to) | sort | .[length / 2 | floor];
      [["no request", ratio(.["no request"]; .["exec-only"]), 1.1, "x exec-only"],
       ["claim of 4 of 16 chips", ratio(.claim; .["exec-only"]), 1.6, "x exec-only"],
       ["bind hook", ratio(.bind; .empty), 1.35, "x an empty program"],
       ["status, 64 chips, 64 leases", ratio(.status; .["exec-only"]), 3, "x exec-only"],
       ["64 claims at once", $storm, 1.2, "x (64 single / 2 cores)"],
       ["peak memory of a claim", $memory / 1024, 2.5, "MiB"],
       ["release binary", $size / 1e6, 3, "MB"]]
    | .[] | [.[0], (.[1] * 100 | round / 100), "(at most \(.[2]))", .[3]] | @tsv' times-*.json | column -t -s "$(printf '\t')"
