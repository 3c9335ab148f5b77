# shellcheck shell=bash
# Podman alone, by whichever way the spec is prepared.

a_container_is_claimed_for_once_whoever_prepares_it() {
    up first any:2 -- sleep 1000
    equal "leases" 1 "$(status | jq '.leases | length')"
    equal "free chips" 14 "$(remaining)"
}
