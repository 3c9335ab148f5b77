//! Chips that break after they were chosen, or under a container that holds them.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use crate::host::{FakeHost, Fault};
use crate::specs::{asking, given};

/// What happens, what stops a container for it, what is shown of it.
const FAULTS: [(Fault, &str, &str); 4] = [
    (
        ("it resets", |host| host.put(&host.path("sys/class/neuron_device/neuron4/reset"), "0\n")),
        "chip 4 is resetting",
        "chip 4 is resetting",
    ),
    (
        ("it is invalid", |host| host.put(&host.path("sys/class/neuron_device/neuron4/reset"), "2\n")),
        "chip 4 is invalid",
        "chip 4 is invalid",
    ),
    (
        ("it is gone", |host| fs::remove_file(host.path("sys/class/neuron_device/neuron4")).unwrap()),
        "chip 4 is gone from this host",
        "chip 4 of c1 is gone from this host",
    ),
    (
        ("what its link leads to is gone", |host| {
            fs::remove_dir_all(host.path("sys/class/neuron_device/neuron4").canonicalize().unwrap()).unwrap();
        }),
        "chip 4 is gone from this host",
        "neuron4 leads nowhere",
    ),
];

#[test]
fn a_chip_that_breaks_between_claim_and_bind_stops_the_container() {
    for ((fault, cause), said, _) in FAULTS {
        let host = FakeHost::trn1();
        let running = host.start(&host.bundle("c1", &asking("id:4-5")), "c1", "hold-before-hook").wait_for_hold();
        cause(&host);
        let call = running.release();
        assert_eq!((call.code, call.hook(0, "code").as_deref()), (Some(1), Some("1")), "{fault}");
        let message = call.hook(0, "stderr").unwrap();
        assert!(message.starts_with(&format!("error: {said}")), "{message}");
        assert_eq!(host.leases(), [], "{fault}");
    }
}

#[test]
fn a_container_with_chips_given_by_hand_starts_all_the_same() {
    for ((fault, cause), said, _) in FAULTS {
        let host = FakeHost::trn1();
        let spec = given(host.major(), &[("/dev/neuron4", 4)]);
        let running = host.start(&host.bundle("c1", &spec), "c1", "hold-before-hook").wait_for_hold();
        cause(&host);
        running.release().ok();
        assert!(host.log().contains(" WARN ") && host.log().contains(said), "{fault}: {}", host.log());
    }
}

#[test]
fn a_chip_that_breaks_under_a_container_is_shown_and_granted_to_nobody() {
    for ((fault, cause), _, shown) in FAULTS {
        let host = FakeHost::trn1();
        let call = host.begin("c1", &asking("id:4-5"));
        cause(&host);
        let page = String::from_utf8(host.ctk(&["status"]).stdout).unwrap();
        assert!(page.contains(shown), "{fault}: {page}");
        host.refuses("c2", &asking("id:4"));
        // Its neighbour stays the container's; and when that ends, only the broken one is lost.
        assert!(host.refuses("c2", &asking("id:5")).contains("held by c1"));
        call.init().kill();
        host.begin("c2", &asking("id:5"));
        host.refuses("c3", &asking("id:4"));
    }
}

/// Another file in the place of the nodes' numbers, as after the driver was loaded again with another major.
#[test]
fn a_reloaded_driver_gives_nothing_of_a_container_that_runs() {
    let host = FakeHost::trn1();
    host.begin("c1", &asking("id:4-5"));
    for chip in 0..16 {
        host.put(&host.path(&format!("sys/class/neuron_device/neuron{chip}/dev")), &format!("{}:{chip}\n", host.major() + 1));
    }
    assert!(host.refuses("c2", &asking("id:4")).contains("chip 4 is "));
    if host.real_nodes() {
        // /dev has still the old ones, so that nothing can be opened.
        assert_eq!(host.chips_in("missing").len(), 16);
    }
}

/// A fifo waits for a writer, as a driver in trouble may wait for its hardware.
#[test]
fn a_file_of_the_driver_that_never_answers_hangs_nobody() {
    let host = FakeHost::small();
    let reset = host.path("sys/class/neuron_device/neuron0/reset");
    fs::remove_file(&reset).unwrap();
    nix::unistd::mkfifo(&reset, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let bundle = host.bundle("c1", &asking("1"));
    let (mut command, _) = host.wrapper(&["create".as_ref(), "--bundle".as_ref(), bundle.folder.as_os_str(), "c1".as_ref()], "");
    assert_eq!(command.status().unwrap().signal(), Some(nix::libc::SIGALRM));
    assert!(!host.ledger().exists());
}
