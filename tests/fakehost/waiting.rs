//! Waiting in line for chips: `aws.amazon.com/neuron.wait`, `AWS_NEURON_WAIT`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::call::{Call, Running};
use crate::host::{FakeHost, listing, wait_until};
use crate::specs::{annotated, asking, env_asking, given, nodes, with_env};

fn waiting(ask: &str, wait: &str) -> Value {
    annotated(&[("aws.amazon.com/neuron", ask), ("aws.amazon.com/neuron.wait", wait)])
}

/// Who waits, in order.
fn queue(host: &FakeHost) -> Vec<String> {
    host.status()["queue"].as_array().unwrap().iter().map(|waiter| waiter["container"].as_str().unwrap().to_owned()).collect()
}

/// Begins to create a container that has to wait, and waits until it does.
fn begins_to_wait(host: &FakeHost, id: &str, spec: &Value) -> Running {
    let before = queue(host);
    let running = host.start(&host.bundle(id, spec), id, "");
    wait_until("its place in the queue", || queue(host).len() > before.len());
    assert_eq!(queue(host), [&before[..], &[id.to_owned()]].concat());
    running
}

fn chips(call: &Call) -> Vec<u64> {
    nodes(&call.config()).into_iter().map(|(_, chip)| chip).collect()
}

#[test]
fn it_gets_the_chips_as_soon_as_their_holder_ends() {
    let host = FakeHost::trn1();
    let first = host.begin("first", &asking("all"));
    for spec in [waiting("2", "60s"), with_env(env_asking("any:2"), &["AWS_NEURON_WAIT=1m"])] {
        let bundle = host.bundle("second", &spec);
        let second = begins_to_wait(&host, "second", &spec);
        assert!(String::from_utf8(host.ctk(&["status"]).stdout).unwrap().contains("\nwaiting, 1: second for any:2, "));
        // Nothing of it is to be seen in its bundle, and the lock is free.
        assert_eq!(bundle.spec(), spec);
        assert!(host.refuses("third", &asking("id:3")).starts_with("asked for Neuron chip 3, but second waits before it for any:2: "));
        let mut second = second;
        if spec["annotations"].get("aws.amazon.com/neuron").is_some() {
            second.kill();
            assert_eq!(queue(&host), [""; 0], "a waiter that is killed is in nobody's way");
            continue;
        }
        first.init().kill();
        assert_eq!(chips(&second.finish().ok()), [0, 1]);
    }
    assert_eq!((queue(&host).len(), host.leases()), (0, vec![("second".to_owned(), vec![0, 1])]));
}

/// `small` would have been served when `half` ended, and then `big` never.
#[test]
fn a_request_for_many_is_not_starved_by_requests_for_one() {
    let host = FakeHost::trn1();
    let halves = [("half", "id:0-7"), ("other", "id:8-15")].map(|(id, ask)| host.begin(id, &asking(ask)));
    let big = begins_to_wait(&host, "big", &waiting("all", "60s"));
    let small = begins_to_wait(&host, "small", &waiting("1", "60s"));
    for half in halves {
        half.init().kill();
    }
    let big = big.finish().ok();
    assert_eq!(host.leases(), [("big".to_owned(), (0..16).collect::<Vec<_>>())]);
    assert_eq!(queue(&host), ["small"]);
    big.init().kill();
    assert_eq!(chips(&small.finish().ok()), [0]);
}

#[test]
fn a_waiter_that_is_killed_holds_nobody_up() {
    let host = FakeHost::trn1();
    let first = host.begin("first", &asking("id:0-7"));
    let mut greedy = begins_to_wait(&host, "greedy", &waiting("all", "60s"));
    let modest = begins_to_wait(&host, "modest", &waiting("1", "60s"));
    greedy.kill();
    // Chip 8 was free all the time.
    assert_eq!(chips(&modest.finish().ok()), [8]);
    assert!(first.init().alive());
}

/// A process that is stopped neither gives up nor ends.
#[test]
fn a_waiter_that_is_stopped_holds_nobody_up_longer_than_it_would_wait() {
    let host = FakeHost::trn1();
    let first = host.begin("first", &asking("id:0-7"));
    let greedy = begins_to_wait(&host, "greedy", &waiting("all", "1s"));
    let stopped = nix::unistd::Pid::from_raw(i32::try_from(greedy.pid()).unwrap());
    nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let began = Instant::now();
    let modest = begins_to_wait(&host, "modest", &waiting("1", "60s"));
    assert_eq!(chips(&modest.finish().ok()), [8]);
    assert!(began.elapsed() < Duration::from_secs(30), "it waited until its own time was up");
    nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGCONT).unwrap();
    assert!(greedy.finish().refusal().starts_with("waited 1s: asked for all 16 Neuron chips"));
    assert!(first.init().alive());
}

/// With `manual-devices = "exclusive"` nodes given by hand are a request, and wait their turn like any other.
#[test]
fn a_request_by_nodes_is_refused_while_others_wait() {
    let host = FakeHost::trn1();
    host.settings("manual-devices = \"exclusive\"");
    let first = host.begin("first", &asking("id:0-7"));
    let patient = begins_to_wait(&host, "patient", &waiting("all", "60s"));
    let spec = given(host.major(), &[("/dev/neuron8", 8)]);
    assert!(host.refuses("hasty", &spec).starts_with("asked for Neuron chip 8, but patient waits before it for all"));
    first.init().kill();
    assert_eq!(chips(&patient.finish().ok()).len(), 16);
}

#[test]
fn they_are_served_in_order_of_arrival() {
    let host = FakeHost::small();
    let mut holder = host.begin("0", &asking("1"));
    let waiters: Vec<_> = (1..6).map(|number| begins_to_wait(&host, &number.to_string(), &waiting("1", "60s"))).collect();
    for (number, waiter) in (1..).zip(waiters) {
        holder.init().kill();
        holder = waiter.finish().ok();
        assert_eq!(host.leases(), [(number.to_string(), vec![0])]);
    }
}

#[test]
fn when_the_time_is_up_it_is_refused_with_the_reason() {
    let host = FakeHost::small();
    host.begin("first", &asking("1"));
    for (settings, wait, cut) in [("", "300ms", ""), ("wait-limit = \"300ms\"", "10m", " (wait-limit)")] {
        host.settings(settings);
        let begun = Instant::now();
        let bundle = host.bundle("c1", &waiting("1", wait));
        let folder = listing(&bundle.folder);
        let call = host.create(&bundle, "c1");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{settings}");
        let refusal = call.refusal();
        assert!(refusal.starts_with(&format!("waited 300ms{cut}: asked for 1 Neuron chip, 0 of 1 are free: 0 held by first")), "{refusal}");
        assert_eq!((queue(&host).len(), listing(&bundle.folder)), (0, folder));
    }
}

/// What no time can bring is refused at once: ten minutes would be noticed.
#[test]
fn nobody_waits_for_what_cannot_come() {
    let host = FakeHost::trn1();
    host.settings("wait-limit = \"10m\"");
    for ask in ["17", "id:0,2", "id:20", "12x"] {
        host.refuses("c1", &waiting(ask, "10m"));
    }
    assert_eq!(
        host.refuses("c1", &waiting("1", "soon")),
        "aws.amazon.com/neuron.wait=\"soon\": is no time span; allowed are spans such as 30s or 1m, 0 for none"
    );
    host.begin("c1", &waiting("all", "0"));
    host.refuses("c2", &waiting("1", "0"));
}

/// The holder of a part is told by the end of its process, too, and cores are waited for as chips are.
#[test]
fn cores_are_waited_for() {
    let host = FakeHost::small();
    let cores = |number: &str| annotated(&[("aws.amazon.com/neuroncore", number), ("aws.amazon.com/neuron.wait", "60s")]);
    let first = host.begin("first", &cores("1"));
    host.begin("second", &cores("1"));
    let third = begins_to_wait(&host, "third", &cores("1"));
    first.init().kill();
    third.finish().ok();
    assert_eq!(host.leases().len(), 2);
}
