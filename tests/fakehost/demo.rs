//! The demo, with whatever runtime there is; and the pictures.

use std::process::{Command, Stdio};

use crate::host::{FakeHost, wait_until};
use crate::specs::asking;

/// The demo in a folder of its own for temporary files, without a runtime on PATH.
fn demo(host: &FakeHost, args: &[&str]) -> Command {
    let mut command = host.program("neuron-ctk");
    let tmp = host.folder().join("tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    command.arg("demo").args(args).env_remove("NEURON_SETTINGS").env_remove("NEURON_HOST_ROOT");
    command.env("TMPDIR", tmp).env("PATH", host.folder()).stdin(Stdio::null());
    command
}

fn left(host: &FakeHost) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(host.folder().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Sizes by hand: an eighth and a half of the chips; the half is killed and given again; then one by hand.
#[test]
fn the_demo_tells_the_whole_story_on_every_kind_of_host_and_leaves_nothing() {
    for (kind, tells) in [
        (
            "trn1.32xlarge",
            &[
                "web asks for 2 chips",
                "train asks for 8 chips",
                "asked for 16 Neuron chips, 6 of 16 are free",
                "5 free   A web 0-1   B next 8-15   C legacy 2 (adopted)",
            ][..],
        ),
        (
            "inf2.24xlarge",
            &[
                "web asks for 1 chip:",
                "train asks for 3 chips",
                "asked for 6 Neuron chips, 2 of 6 are free",
                "1 free   A web 5   B next 2-4   C legacy 0 (adopted)",
            ],
        ),
        ("inf2.xlarge", &["asked for 1 Neuron chip, 0 of 1 are free", "web is killed with -9", "0 free   A next 0", "No chip is left"]),
    ] {
        let host = FakeHost::trn1();
        let output = demo(&host, &["--fast", kind]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()), "{shown}");
        let flowing = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in tells.iter().chain(&["A stand-in takes the place of runc", "That is all"]) {
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flowing.contains(&words), "{words}\n{shown}");
        }
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.contains('\u{1b}'), "no colours where there is no terminal");
        }
        assert_eq!(left(&host), [] as [std::path::PathBuf; 0]);
    }
}

#[test]
fn the_demo_leaves_nothing_after_ctrl_c_either() {
    let host = FakeHost::trn1();
    let mut child = demo(&host, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stage = || left(&host).first().cloned();
    let pid = || std::fs::read_to_string(stage()?.join("web/pid")).ok()?.parse::<i32>().ok();
    wait_until("the first container runs", || pid().is_some());
    let container = pid().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().try_into().unwrap()), nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(left(&host), [] as [std::path::PathBuf; 0]);
    wait_until("the container is gone", || crate::call::state_of(container).is_none_or(|(state, _)| state == 'Z'));
}

#[test]
fn the_picture_has_the_letters_of_the_table() {
    let host = FakeHost::trn1();
    host.begin("web", &asking("2"));
    host.begin("train", &asking("8"));
    let shown = String::from_utf8(host.ctk(&["status", "--topology"]).stdout).unwrap();
    // A as the first lease, on 0 and 1; the eight are the other half.
    for line in [
        "  ┈  0 A ──  1 A ──  2 · ──  3 · ┈\n",
        "  ┈ 12 B ── 13 B ── 14 B ── 15 B ┈\n",
        "\nA  0-1    4      held   web ",
        "\nB  8-15   16     held   train ",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
}

#[test]
fn watch_looks_again_until_it_is_stopped() {
    let host = FakeHost::small();
    let out = host.folder().join("watched");
    let mut command = host.program("neuron-ctk");
    let mut child = command.args(["status", "--watch"]).stdout(std::fs::File::create(&out).unwrap()).spawn().unwrap();
    let looks = || std::fs::read_to_string(&out).unwrap().matches(" free\n").count();
    wait_until("it has looked twice", || looks() >= 4);
    child.kill().unwrap();
    child.wait().unwrap();
}
