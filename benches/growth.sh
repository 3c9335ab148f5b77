#!/usr/bin/env bash
# How the time of a claim grows with what the host has: docs/growth.svg and the table of docs/growth.md, to stdout.
#
# Each point is a median, as a ratio to the exec-only beside it in the same round, the median of the rounds. Fails where the last stretch of a
# curve is more than twice as steep as all before it: a straight line is as steep, a square of such points three times.
#
# As root. Needs hyperfine 1.19 or newer (cargo install hyperfine), jq and gnuplot. RUNS sets the runs of each command in a round (30), ROUNDS
# the rounds (7).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=SCRIPTDIR/stage.sh
. benches/stage.sh
need hyperfine gnuplot
build
runs=${RUNS:-30} rounds=${ROUNDS:-7}
crowd=()
trap 'crowd_of 0; kill "$sleeper"; rm -rf "$work"' EXIT

crowd_of() { # N: so many processes that sleep, and their numbers in $crowd
    [ ${#crowd[@]} = 0 ] || kill "${crowd[@]}"
    # Without a name it would wait for the sleeper of the stage, too.
    [ ${#crowd[@]} = 0 ] || wait "${crowd[@]}" 2>/dev/null || true
    crowd=()
    while [ ${#crowd[@]} -lt "$1" ]; do
        sleep 100000 &
        crowd+=($!)
    done
}

# point CURVE X: one of a curve's points, by `claim` as it is set up now, `again` before each.
point() {
    local round
    for round in $(seq "$rounds"); do
        hyperfine --shell=none --warmup 3 --runs "$runs" --style none --prepare "sh -c '$again'" --export-json "times-$round.json" \
            -n exec-only "${exec_only[*]}" -n claim "${claim[*]}" >/dev/null 2>hyperfine.log || { cat hyperfine.log >&2; exit 1; }
    done
    jq -rs --arg x "$2" 'map(.results | .[1].median / .[0].median) | sort | [$x, .[length / 2 | floor]] | @tsv' times-*.json >>"$1.tsv"
    printf '%s\r' "$1: $2      " >&2
}

ledger_of() { # N: leases of the crowd's first N, more than none, on chip 0, which each was given by hand.
    printf '/proc/%s/stat\n' "${crowd[@]:0:$1}" | xargs cat | awk '{ print $1, $22 }' |
        jq -cR --argjson pidns "$(readlink /proc/self/ns/pid | tr -dc 0-9)" \
            'split(" ") | {id: "lease-\(.[0])", container: "c", root: "", chips: [0], mode: "adopted", state: "claimed",
                holder: {pid: .[0] | tonumber, start: .[1] | tonumber, pidns: $pidns}, since: "2026-11-30T10:00:00Z", request: "devices", env: []}' |
        ledger
}

# One chip of 1 to 64.
state=run/neuron-container-runtime
again='cp ask.json ask/config.json; rm -f host/run/neuron-container-runtime/ledger.json'
for chips in 1 2 4 8 16 32 64; do
    ./neuron-ctk simulate trn1.32xlarge --chips "$chips" host >/dev/null
    settings host empty
    mkdir -p "host/$state"
    NEURON_SETTINGS=$work/host.toml point chips "$chips"
    rm -r host
done

export NEURON_SETTINGS=$work/sixteen.toml
again="cp four.json ask/config.json; cp some.json sixteen/$state/ledger.json"
crowd_of 512
for leases in 1 64 128 256 512; do
    ledger_of "$leases" >some.json
    point leases "$leases"
done

ledger </dev/null >some.json
for processes in 100 625 1250 2500 5000; do
    crowd_of "$processes"
    point processes-unused "$processes"
    # Somebody has a chip open, says the driver; so it is looked for among all processes.
    echo 1 >sixteen/sys/module/neuron/refcnt
    point processes-used "$processes"
    echo 0 >sixteen/sys/module/neuron/refcnt
done
crowd_of 0

again="cp large.json ask/config.json; cp some.json sixteen/$state/ledger.json"
for kilobytes in 10 125 250 500 1000; do
    jq -c --argjson size "$((kilobytes * 1000))" '(. | tojson | length) as $is
        | .mounts += [range(($size - $is) / 100 | floor) | {destination: "/mount/\(1000000 + .)", type: "bind", source: "/some/where",
            options: ["rbind", "ro", "p"]}]' four.json >large.json
    point config "$(($(stat -c %s large.json) / 1000))"
done

# A core each, on 64 chips: the median of five storms.
jq -c '.annotations = {"aws.amazon.com/neuroncore": "1"}' "$root/tests/data/specs/docker26-plain.json" >ask.json
export NEURON_SETTINGS=$work/sixtyfour.toml
for claims in 1 8 16 32 64 128; do
    for _ in 1 2 3 4 5; do
        rm -f "sixtyfour/$state/ledger.json"
        ./storm ./neuron-container-runtime "$work" "$claims"
    done | jq -rs --arg x "$claims" -R 'split("\n") | map(select(. != "") | split(" ") | map(tonumber))
        | def middle(of): map(of) | sort | .[length / 2 | floor];
          [$x, middle(.[1]), middle(.[2]), middle(.[3]), middle(.[0])] | @tsv' >>at-once.tsv
    printf '%s\r' "at once: $claims      " >&2
done

gnuplot <<'END'
set terminal svg size 900,880 font "sans-serif,13" background "white"
set output "growth.svg"
set multiplot layout 3,2
set style data linespoints
set linetype 1 pointtype 7 linecolor rgb "#1f6feb"
set linetype 2 pointtype 5 linecolor rgb "#d1640a"
set linetype 3 pointtype 9 linecolor rgb "#8250df"
set grid
set xrange [0:*]
set yrange [0:*]
set key left top
set ylabel "× exec-only"
set xlabel "chips of the host"
plot "chips.tsv" title "one chip"
set xlabel "leases in the ledger"
plot "leases.tsv" title "4 of 16 chips"
set xlabel "processes of the host"
set key right bottom
plot "processes-unused.tsv" title "no chip is open", "processes-used.tsv" title "one is, so who?"
set key left top
set xlabel "kB of config.json"
plot "config.tsv" title "4 of 16 chips"
set ylabel "milliseconds"
set xlabel "claims at once, on two cores"
plot "at-once.tsv" using 1:5 title "one after another, all", "at-once.tsv" using 1:2 title "at once, all"
plot "at-once.tsv" using 1:3 title "at once, the one in the middle", "at-once.tsv" using 1:4 title "the longest"
END
install -m 644 growth.svg "$root/docs/growth.svg"

# How steep the last stretch is, in parts of how steep it was before.
steep=0
for curve in chips leases processes-unused processes-used config at-once; do
    awk -v curve="$curve" '{ x[NR] = $1; y[NR] = $2 }
        END {
            if (NR < 3) exit 2
            rise = (y[NR] - y[NR - 1]) / (x[NR] - x[NR - 1]); before = (y[NR - 1] - y[1]) / (x[NR - 1] - x[1])
            flat = y[NR] < 1.2 * y[1]
            for (i = 1; i <= NR; i++) points = points (i > 1 ? ", " : "") x[i] ": " sprintf("%.3g", y[i])
            printf "| %s | %s | %s |\n", curve, points, flat ? "flat" : sprintf("%.2f", rise / before)
            exit !flat && rise > 2 * before
        }' "$curve.tsv" || steep=1
done
exit "$steep"
