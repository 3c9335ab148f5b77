# shellcheck shell=bash
# What the cases are made of: a simulated host, bundles, the wrapper, and checks that say what was expected and what was found.
#
# From ../case: FOLDER (this one), ENGINE such as runc-v1, WORK (the folder of the whole run), CASE, HOST, GROUP (the name of all cgroups).

RUNTIME=$(command -v "${ENGINE%-*}")
FLAGS=()
# A command that starts the wrapper, such as one that takes capabilities away.
STARTER=()
STATE=$CASE/state

prepare() {
    hide_run
    prepare_cgroups
    case $ENGINE in crun-*) FLAGS=(--cgroup-manager=cgroupfs) ;; esac
    prepare_host
}

# What is in /run by default, the runtimes' own state and this host's real ledger, is out of reach.
hide_run() {
    mount -t tmpfs -o mode=0755 none /run
}

# Sixteen simulated chips, a root folder for containers, settings that name the runtime under test.
prepare_host() {
    # /tmp may be mounted with nodev.
    mount -t tmpfs -o mode=0755,dev none "$CASE"
    "$WORK/bin/neuron-ctk" simulate trn1.32xlarge "$HOST" >/dev/null
    # The first major for local use that no driver has, as the design says; in hex as stat shows it.
    MAJOR=$(awk '/^Block/ { exit } $1 >= 240 && $1 <= 254 { used[$1] = 1 } END { for (m = 240; m in used; m++); print m }' /proc/devices)
    # shellcheck disable=SC2034 # For the cases.
    HEX=$(printf %x "$MAJOR")
    mkdir -p "$CASE/rootfs"/{bin,proc,sys,dev,scratch}
    chmod 1777 "$CASE/rootfs/scratch"
    touch "$CASE/rootfs/other"
    cp "$(command -v busybox)" "$CASE/rootfs/bin/busybox"
    chroot "$CASE/rootfs" /bin/busybox --install -s /bin
    (cd "$CASE" && "$RUNTIME" spec && mv config.json spec.json)
    settings
    export NEURON_HOST_ROOT=$HOST NEURON_SETTINGS=$CASE/config.toml
}

# settings [LINE…]: a config.toml with these lines, and the runtime under test where they name none.
settings() {
    local lines
    lines=$(printf '%s\n' "$@")
    case $lines in *runtimes*) ;; *) lines="runtimes = [\"$RUNTIME\"]"$'\n'$lines ;; esac
    echo "$lines" >"$CASE/config.toml"
}

# bundle NAME SCRIPT [FILTER]: a bundle that runs the shell script, changed by a jq filter (spec.jq).
bundle() {
    mkdir -p "$CASE/$1"
    jq --arg script "$2" --arg rootfs "$CASE/rootfs" --arg cgroup "/$GROUP/$1" --arg host "$HOST" --argjson neuron "$MAJOR" \
        "$(cat "$FOLDER/spec.jq") base(\$script; \$rootfs; \$cgroup) | ${3:-.}" "$CASE/spec.json" >"$CASE/$1/config.json"
}

# executable NAME: an executable file, from stdin.
executable() {
    cat >"$CASE/$1"
    chmod 755 "$CASE/$1"
}

neuron() {
    "${STARTER[@]}" "$WORK/bin/neuron-container-runtime" --root "$STATE" "${FLAGS[@]}" "$@"
}

# started_by COMMAND…: from now on the wrapper is.
started_by() {
    STARTER=("$@")
}

# run NAME: a container in the foreground.
run() {
    attempt "$1" neuron run --bundle "$CASE/$1" "$1"
}

# up NAME: a container that goes on in the background.
up() {
    attempt "$1" neuron create --bundle "$CASE/$1" "$1"
    succeeds "$1"
    neuron start "$1"
}

# in_background NAME ARGUMENT…: the wrapper, with its pid in WRAPPER; clean_up ends it if the case does not.
in_background() {
    local name=$1
    shift
    # Not by calling neuron: the pid would be a shell's.
    "${STARTER[@]}" "$WORK/bin/neuron-container-runtime" --root "$STATE" "${FLAGS[@]}" "$@" \
        </dev/null >"$CASE/$name.out" 2>"$CASE/$name.err" &
    # shellcheck disable=SC2034 # For the cases.
    WRAPPER=$!
}

init_of() {
    "$RUNTIME" --root "$STATE" "${FLAGS[@]}" state "$1" | jq .pid
}

end_containers() {
    local folder
    for folder in "$STATE"/*/; do
        [ ! -d "$folder" ] || "$RUNTIME" --root "$STATE" "${FLAGS[@]}" delete --force "$(basename "$folder")"
    done
}

# refused NAME PART…: the last attempt was, by us: code 1, nothing on stdout, one line on stderr with all these parts.
refused() {
    local name=$1 said part
    shift
    said=$(cat "$CASE/$name.err")
    equal "exit code of $name, which said [$said]" 1 "$RC"
    equal "stdout of $name" "" "$(cat "$CASE/$name.out")"
    equal "lines of [$said]" 1 "$(wc -l <"$CASE/$name.err")"
    # Not a runtime that tells what the hook said.
    equal "how [$said] begins" "error: " "${said:0:7}"
    for part in "$@"; do
        contains "the refusal of $name" "$part" "$said"
    done
    # Docker makes other exit codes of these.
    case ${said,,} in
    *"no such file or directory"* | *"executable file not found"* | *"permission denied"* | *"is a directory"*)
        give_up "the refusal of $name: expected no phrase of Docker's, found [$said]"
        ;;
    esac
    [ ! -e "$STATE/$name" ] || give_up "$name: expected not to be there, but the runtime has made it"
}
