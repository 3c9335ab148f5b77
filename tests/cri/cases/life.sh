# shellcheck shell=bash
# How long a pod's containers hold their chips.

# holds WHEN: the first pod's container has all sixteen, and another's request fails.
_holds() {
    equal "free chips $1" 0 "$(remaining)"
    pod asks neuron=1
    create asks main 'exec sleep 1000'
    start asks main
    refused asks main "asked for 1 Neuron chip, 0 of 16 are free: 0-15 held by default/first/main"
    cri remove-pod "${ID[asks]}"
}

_is_free_again() {
    nobody_has_chips "$1"
    pod next neuron=16
    up next main
}

a_container_killed_by_its_pid_gives_its_chips_back() {
    pod first neuron=16
    up first main
    _holds "while it runs"
    kill_and_wait "$(pid first main)"
    _is_free_again "after kill -9"
}

a_stopped_container_gives_its_chips_back() {
    pod first neuron=16
    up first main
    equal "free chips while it runs" 0 "$(remaining)"
    cri stop "${ID[first/main]}"
    _is_free_again "after StopContainer"
}

a_stopped_pod_gives_its_chips_back() {
    pod first neuron=16
    up first main
    equal "free chips while it runs" 0 "$(remaining)"
    cri stop-pod "${ID[first]}"
    nobody_has_chips "after StopPodSandbox"
    cri remove-pod "${ID[first]}"
    _is_free_again "after RemovePodSandbox"
}

chips_stay_held_when_containerd_is_killed_and_comes_back() {
    pod first neuron=16
    up first main
    local init
    init=$(pid first main)
    kill_and_wait "$DAEMON"
    equal "free chips without containerd" 0 "$(remaining)"
    start_engine
    equal "state under the new containerd" running "$(state first main)"
    equal "pid under the new containerd" "$init" "$(pid first main)"
    _holds "under the new containerd"
    equal "nodes" 16 "$(nodes first main | wc -w)"
    cri stop-pod "${ID[first]}"
    _is_free_again "after the new containerd stopped the pod"
}

# Nobody is left to call "delete".
chips_stay_held_when_containerd_and_its_shim_are_killed_until_the_container_ends() {
    pod first neuron=16
    up first main
    local init shim
    init=$(pid first main)
    shim=$(_parent_of "$init")
    kill_and_wait "$DAEMON"
    kill_and_wait "$shim"
    ! ended "$init" || give_up "the container: expected to live on, has ended"
    equal "free chips without containerd and shim" 0 "$(remaining)"
    kill_and_wait "$init"
    nobody_has_chips "after the container's end"
}

_parent_of() {
    awk '$1 == "PPid:" { print $2 }' "/proc/$1/status"
}

# shareProcessNamespace: the sandbox's process is the first one there, so that a container's children outlive its init. The shim
# would end them soon; here it is stopped, as a busy host's may be late.
a_child_that_outlives_the_init_of_a_shared_pid_namespace_keeps_the_chips() {
    pod first neuron=16 '.share_processes = true'
    create first main 'sleep 1000 & echo $! >/tmp/child; exec sleep 1000'
    start first main
    succeeds first.main
    local init shim child
    init=$(pid first main)
    within "the child is there" _has_child "$init"
    child=$(_children_of "$init")
    equal "its parent's pid in the pod, which is not 1" 0 "$([ "$(awk '$1 == "NSpid:" { print $NF }' "/proc/$init/status")" != 1 ]; echo $?)"
    shim=$(_parent_of "$init")
    kill -STOP "$shim"
    kill_and_wait "$init"
    ! ended "$child" || give_up "the child: expected to outlive the init, has ended"
    _holds "while the child lives"
    kill -CONT "$shim"
    within "the shim ends the child" ended "$child"
    within "the cgroup is empty" _all_are_free
    _is_free_again "after the child's end"
}

_children_of() {
    xargs <"/proc/$1/task/$1/children"
}

_has_child() {
    [ -n "$(_children_of "$1")" ]
}

_all_are_free() {
    [ "$(remaining)" = 16 ]
}

# In a pid namespace of its own the kernel ends them all with the init, and nobody has to wait.
a_container_of_its_own_pid_namespace_takes_its_children_along() {
    pod first neuron=16
    create first main 'sleep 1000 & exec sleep 1000'
    start first main
    succeeds first.main
    local init shim child
    init=$(pid first main)
    within "the child is there" _has_child "$init"
    child=$(_children_of "$init")
    shim=$(_parent_of "$init")
    kill -STOP "$shim"
    equal "free chips while it runs" 0 "$(remaining)"
    kill_and_wait "$init"
    nobody_has_chips "after the init's end, which the shim has not seen"
    ended "$child" || give_up "the child: expected to end with the init, lives on"
    kill -CONT "$shim"
}
