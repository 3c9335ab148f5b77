# shellcheck shell=bash
# Other processes in a container, which only the wrapper completes: no hook is run for them.

a_session_sees_the_chips_variables_and_may_lock_memory() {
    up first any:2 -- sleep 1000
    equal "what a session sees" "AWS_NEURON_VISIBLE_DEVICES=0,1 NEURON_RT_NUM_CORES=4" "$(inside first 'env | grep NEURON | sort' | xargs)"
    local held
    held=$(inside first 'grep CapEff /proc/self/status' | awk '{ print $2 }')
    equal "CAP_IPC_LOCK of a session" 1 $((0x$held >> 14 & 1))
}
