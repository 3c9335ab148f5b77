# shellcheck shell=bash
# The wrapper is the runtime: codes, output, subcommands and spellings go through.

the_exit_code_of_a_foreground_run_comes_through() {
    bundle code "exit 42" 'ask("1")'
    run code
    equal "exit code" 42 "$RC"
    nothing_is_claimed "the run"
}

stdin_stdout_and_stderr_come_through() {
    bundle echo 'read -r word; echo "out $word"; echo "err $word" >&2' 'ask("1")'
    neuron run --bundle "$CASE/echo" echo <<<hello >"$CASE/echo.out" 2>"$CASE/echo.err"
    equal "stdout" "out hello" "$(cat "$CASE/echo.out")"
    equal "stderr" "err hello" "$(cat "$CASE/echo.err")"
}

the_version_is_the_runtimes() {
    equal "--version" "$("$RUNTIME" --version)" "$("$WORK/bin/neuron-container-runtime" --version)"
}

the_features_are_the_runtimes() {
    "$RUNTIME" features >/dev/null 2>&1 || skip "$("$RUNTIME" --version | head -n 1) has no features"
    equal "features" "$("$RUNTIME" features)" "$("$WORK/bin/neuron-container-runtime" features)"
}

a_containers_whole_life_goes_through_the_wrapper() {
    bundle life "exec sleep 1000" 'ask("2")'
    attempt life neuron create --bundle "$CASE/life" --pid-file "$CASE/pid" life
    succeeds life
    equal "state after create" created "$(neuron state life | jq -r .status)"
    equal "the pid file" "$(cat "$CASE/pid")" "$(lease life .holder.pid)"
    neuron start life
    equal "state after start" running "$(neuron state life | jq -r .status)"
    equal "what exec finds" "$HEX:0 $HEX:1" "$(neuron exec life stat -c %t:%T /dev/neuron0 /dev/neuron1 | xargs)"
    neuron kill life KILL
    within "the container ends" ended "$(cat "$CASE/pid")"
    equal "state after kill" stopped "$(neuron state life | jq -r .status)"
    neuron delete life
    attempt gone neuron state life
    differs "exit code of state after delete" 0 "$RC"
    nothing_is_claimed "the end"
    # The same id again, as after a crash of the engine.
    bundle life "true" 'ask("2")'
    run life
    succeeds life
}

# Other subcommands read nothing: neither settings nor host are there.
other_subcommands_need_nothing_of_ours() {
    mkdir "$CASE/path"
    ln -s "$RUNTIME" "$CASE/path/"
    equal "list" "" "$(NEURON_SETTINGS=/not/there NEURON_HOST_ROOT=/not/there PATH=$CASE/path neuron list -q)"
    [ ! -e "$HOST/run/neuron-container-runtime" ] || give_up "expected no ledger, found one"
}

a_bundle_is_found_in_each_spelling() {
    # The root is named relative to the bundle, as engines of our own kind rarely do but people do.
    bundle b "stat -c %t:%T /dev/neuron0" 'ask("id:7") | .root.path = "../rootfs"'
    local spelling
    for spelling in "--bundle=$CASE/b" "-b $CASE/b" "--bundle ./b/"; do
        # shellcheck disable=SC2086 # Two words.
        cd "$CASE" && attempt b neuron run $spelling b
        succeeds b
        equal "chip with $spelling" "$HEX:7" "$(cat "$CASE/b.out")"
    done
    cd "$CASE/b" && attempt b neuron run b
    succeeds b
    equal "chip in the working directory" "$HEX:7" "$(cat "$CASE/b.out")"
}

a_container_that_asks_for_nothing_is_not_edited() {
    bundle plain "ls /dev"
    cp "$CASE/plain/config.json" "$CASE/before.json"
    run plain
    succeeds plain
    cmp "$CASE/before.json" "$CASE/plain/config.json"
    equal "neuron nodes in it" 0 "$(grep -c neuron "$CASE/plain.out" || true)"
    [ ! -e "$HOST/run/neuron-container-runtime" ] || give_up "expected no ledger, found one"
}
