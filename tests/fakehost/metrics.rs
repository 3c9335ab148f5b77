//! `neuron-ctk status --prometheus`, and what containers are called.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::host::{FakeHost, skipped, wait_until};
use crate::specs::annotated;

/// Every line by hand, from Prometheus' text format and the state of this host.
#[test]
fn metrics_are_a_page_that_prometheus_reads() {
    let host = FakeHost::new("inf1.6xlarge");
    host.settings("reserved-chips = [3]");
    let pod = [
        ("io.kubernetes.cri.container-type", "container"),
        ("io.kubernetes.cri.sandbox-namespace", "ml"),
        ("io.kubernetes.cri.sandbox-name", "train-0"),
        ("io.kubernetes.cri.container-name", "main"),
        ("aws.amazon.com/neuron", "id:0"),
    ];
    let whole = host.begin("c1", &annotated(&pod));
    // Chip 3 is reserved, so with chip 2 no pair is lost.
    let part = host.begin("c2", &annotated(&[("aws.amazon.com/neuroncore", "3")]));
    let waiting = annotated(&[("aws.amazon.com/neuron", "2"), ("aws.amazon.com/neuron.wait", "60s"), ("nerdctl/name", "late")]);
    let mut waiter = host.start(&host.bundle("c3", &waiting), "c3", "");
    wait_until("its place in the queue", || !host.status()["queue"].as_array().unwrap().is_empty());
    let output = host.ctk(&["status", "--prometheus"]);
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    let page = String::from_utf8(output.stdout).unwrap();
    // All but the times, which are now.
    let now = unix_time();
    let mut samples = Vec::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let timed = name.contains("_time_seconds");
        assert!(!timed || (0..60).contains(&(now - value.parse::<i64>().unwrap())), "{line}");
        samples.push(if timed { name.to_owned() } else { line.to_owned() });
    }
    let (one, two) = (whole.lease(), part.lease());
    let dev = |chip: u32| host.path(&format!("dev/neuron{chip}")).display().to_string();
    let first = format!(r#"{{lease="{one}",container="c1",name="ml/train-0/main",mode="held",request="id:0"}}"#);
    let second = format!(r#"{{lease="{two}",container="c2",name="c2",mode="shared",request="cores:3"}}"#);
    let mut expected = vec![r#"neuron_container_host_info{instance_type="inf1.6xlarge",driver_version="2.24.7.0"} 1"#.to_owned()];
    for (what, each) in [("chips", 1), ("cores", 4)] {
        for (state, chips) in
            [("free", 1), ("held", 1), ("shared", 1), ("adopted", 0), ("unclaimed", 0), ("reserved", 1), ("unhealthy", 0), ("missing", 0)]
        {
            expected.push(format!("neuron_container_{what}{{state=\"{state}\"}} {}", chips * each));
        }
    }
    for (chip, state) in [(0, "held"), (1, "free"), (2, "shared"), (3, "reserved")] {
        expected.push(format!(r#"neuron_container_chip_info{{chip="{chip}",device="{}",state="{state}"}} 1"#, dev(chip)));
    }
    expected.extend([
        format!(r#"neuron_container_chip_lease{{chip="0",lease="{one}",container="c1",name="ml/train-0/main"}} 1"#),
        format!(r#"neuron_container_chip_lease{{chip="2",lease="{two}",container="c2",name="c2"}} 1"#),
        "neuron_container_conflicts 0".to_owned(),
        format!("neuron_container_lease_chips{first} 1"),
        format!("neuron_container_lease_chips{second} 1"),
        format!("neuron_container_lease_cores{first} 4"),
        format!("neuron_container_lease_cores{second} 3"),
        format!("neuron_container_lease_start_time_seconds{first}"),
        format!("neuron_container_lease_start_time_seconds{second}"),
        "neuron_container_waiters 1".to_owned(),
        r#"neuron_container_waiter_start_time_seconds{place="1",container="c3",name="late",request="any:2"}"#.to_owned(),
    ]);
    assert_eq!(samples, expected);
    waiter.kill();
    promtool(&page);
}

/// Prometheus' own word on it, where that is installed (.ci/run does).
fn promtool(page: &str) {
    let begun = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = begun else { return skipped("promtool is not installed") };
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

/// Unix time.
fn unix_time() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

#[test]
fn who_holds_a_chip_is_said_by_the_name_that_people_know() {
    let host = FakeHost::small();
    let id = "3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001";
    host.begin(id, &annotated(&[("aws.amazon.com/neuron", "1"), ("nerdctl/name", "web")]));
    let status = host.status();
    assert_eq!((status["leases"][0]["container"].as_str(), status["leases"][0]["name"].as_str()), (Some(id), Some("web")));
    assert!(String::from_utf8(host.ctk(&["status"]).stdout).unwrap().contains(" held   web "));
    let refusal = host.refuses("second", &annotated(&[("aws.amazon.com/neuron", "1")]));
    assert!(refusal.contains(": 0 held by web; "), "{refusal}");
}
