# shellcheck shell=bash
# What is refused, in which words; and that whoever asks for nothing is never hurt.

# A low-level runtime that tells that it was called.
_telltale() {
    executable telltale <<<"#!/bin/sh
echo \"\$@\" >>$CASE/called
exec $RUNTIME \"\$@\""
    settings "runtimes = [\"$CASE/telltale\"]" "$@"
}

# _stops NAME PART…: running it is refused before any runtime is called, and nothing is left of it.
_stops() {
    rm -f "$CASE/called"
    run "$1"
    refused "$@"
    [ ! -e "$CASE/called" ] || give_up "expected no call of the runtime, found [$(cat "$CASE/called")]"
}

more_than_is_free_is_refused_with_who_has_them() {
    _telltale
    bundle first "exec sleep 1000" 'ask("2")'
    bundle second "true" 'ask("16")'
    up first
    _stops second "asked for 16 Neuron chips, 14 of 16 are free: 0-1 held by first"
    equal "free chips" 14 "$(remaining)"
    bundle third "true" 'ask("id:1-2")'
    _stops third "chip 1 is held by first (pid $(init_of first), since "
}

_refused_with_log() {
    bundle bad "true" 'ask("17")'
    attempt bad neuron --log "$CASE/engine.log" "$@" run --bundle "$CASE/bad" bad
    refused bad "17 Neuron chips" "16"
    equal "lines of the log" 1 "$(wc -l <"$CASE/engine.log")"
    ENTRY=$(cat "$CASE/engine.log")
    SAID=$(sed 's/^error: //' "$CASE/bad.err")
}

# The shim and podman show the message only if the file is one JSON document of just this form.
the_engines_log_gets_one_line_of_json() {
    _refused_with_log --log-format json
    equal "keys" '["level","msg","time"]' "$(jq -c keys <<<"$ENTRY")"
    equal "level" error "$(jq -r .level <<<"$ENTRY")"
    equal "message" "$SAID" "$(jq -r .msg <<<"$ENTRY")"
    local time
    time=$(jq -r .time <<<"$ENTRY")
    [[ $time =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$ ]] ||
        give_up "time: expected RFC 3339, found [$time]"
    local age=$(($(date +%s) - $(date -d "$time" +%s)))
    [[ $age -ge 0 && $age -le 60 ]] || give_up "time: expected now, found $time, $age s ago"
}

the_engines_log_gets_one_line_of_text_where_it_wants_text() {
    _refused_with_log
    contains "the log" "level=error" "$ENTRY"
    contains "the log" "$SAID" "$ENTRY"
}

a_container_that_starts_leaves_nothing_in_the_engines_log() {
    # A count that is served with a warning, which is for our own log.
    bundle good "true" 'ask("3")'
    attempt good neuron --log "$CASE/engine.log" --log-format json run --bundle "$CASE/good" good
    succeeds good
    equal "the engine's log" "" "$(cat "$CASE/engine.log" 2>/dev/null || true)"
}

a_missing_runtime_is_one_clear_line() {
    settings 'runtimes = ["/not/there"]'
    bundle bad "true" 'ask("2")'
    run bad
    refused bad "/not/there" runtimes
    settings
    nothing_is_claimed "the refusal"
}

a_runtime_that_others_can_write_is_one_clear_line() {
    cp "$RUNTIME" "$CASE/loose"
    chmod 777 "$CASE/loose"
    settings "runtimes = [\"$CASE/loose\"]"
    bundle bad "true" 'ask("2")'
    run bad
    refused bad "$CASE/loose" "writable by others"
    settings
    nothing_is_claimed "the refusal"
}

# Settings that are at fault count as their defaults, so the runtime is looked up on PATH.
_only_this_runtime_on_path() {
    mkdir "$CASE/path"
    ln -s "$RUNTIME" "$CASE/path/"
}

broken_settings_refuse_who_asks_and_nobody_else() {
    _only_this_runtime_on_path
    echo 'max-chip = 3' >"$CASE/broken.toml"
    bundle asks "echo started" 'ask("2")'
    bundle plain "echo started"
    NEURON_SETTINGS=$CASE/broken.toml PATH=$CASE/path attempt asks neuron run --bundle "$CASE/asks" asks
    refused asks "$CASE/broken.toml" "line 1" "max-chips"
    NEURON_SETTINGS=$CASE/broken.toml PATH=$CASE/path attempt plain neuron run --bundle "$CASE/plain" plain
    succeeds plain
    equal "what the container says" started "$(cat "$CASE/plain.out")"
    nothing_is_claimed "both"
}

settings_that_others_can_write_are_not_believed() {
    _only_this_runtime_on_path
    cp "$CASE/config.toml" "$CASE/loose.toml"
    chmod 666 "$CASE/loose.toml"
    bundle asks "echo started" 'ask("2")'
    NEURON_SETTINGS=$CASE/loose.toml PATH=$CASE/path attempt asks neuron run --bundle "$CASE/asks" asks
    refused asks "$CASE/loose.toml" "writable by others"
    nothing_is_claimed "the refusal"
}

a_broken_ledger_refuses_who_asks_and_nobody_else() {
    _telltale
    bundle asks "echo started" 'ask("2")'
    bundle plain "echo started"
    run asks
    succeeds asks
    echo '{"version":1,' >"$HOST/run/neuron-container-runtime/ledger.json"
    _stops asks ledger.json
    run plain
    succeeds plain
    equal "what the container says" started "$(cat "$CASE/plain.out")"
    equal "the ledger" '{"version":1,' "$(cat "$HOST/run/neuron-container-runtime/ledger.json")"
}

# I7 with everything wrong at once.
a_container_that_asks_for_nothing_starts_on_a_broken_host() {
    _only_this_runtime_on_path
    echo '[[[' >"$CASE/broken.toml"
    mkdir -p "$HOST/run/neuron-container-runtime"
    echo junk >"$HOST/run/neuron-container-runtime/ledger.json"
    rm -r "${HOST:?}"/{sys,dev}
    bundle plain "echo started"
    cp "$CASE/plain/config.json" "$CASE/before.json"
    NEURON_SETTINGS=$CASE/broken.toml PATH=$CASE/path attempt plain neuron run --bundle "$CASE/plain" plain
    succeeds plain
    equal "what the container says" started "$(cat "$CASE/plain.out")"
    equal "its stderr" "" "$(cat "$CASE/plain.err")"
    cmp "$CASE/before.json" "$CASE/plain/config.json"
}

junk_in_an_annotation_is_quoted_and_what_is_allowed_is_said() {
    _telltale
    bundle junk "true" 'ask("two\n\u001b[31m")'
    _stops junk 'two' 'any:N'
    equal "control characters" "" "$(tr -d '[:print:]\n' <"$CASE/junk.err" | LC_ALL=C tr -d '\200-\377')"
    bundle zero "true" 'ask("0")'
    _stops zero '"0"' 'any:N'
    bundle list "true" 'ask("0,1")'
    _stops list '"0,1"' 'id:'
    bundle far "true" 'ask("id:15-16")'
    _stops far 16
    nothing_is_claimed "the refusals"
}

# runc and crun would let the host's own nodes win.
a_mount_over_the_nodes_is_refused() {
    _telltale
    bundle dev "echo started" 'ask("2") | .mounts |= map(if .destination == "/dev"
        then { destination: "/dev", type: "bind", source: "/dev", options: ["rbind"] } else . end)'
    _stops dev '"/dev"'
    bundle node "echo started" 'ask("2") | bind("\($host)/dev/neuron9"; "/dev/neuron0")'
    _stops node '"/dev/neuron0"'
    nothing_is_claimed "the refusals"
}

a_restore_is_refused_to_who_asks_for_chips() {
    _telltale
    bundle back "true" 'ask("2")'
    attempt back neuron restore --image-path "$CASE" --bundle "$CASE/back" back
    refused back "restored"
    [ ! -e "$CASE/called" ] || give_up "expected no call of the runtime, found [$(cat "$CASE/called")]"
    nothing_is_claimed "the refusal"
}
