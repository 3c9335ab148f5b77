//! Whatever dies, and whenever: no chip is in two containers, none is lost, the ledger is whole.
//!
//! `NEURON_STORM=20000` makes the first part that many calls (400 otherwise), and the others hit every system call (each fifteenth
//! otherwise). The others need strace.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use crate::call::{Init, Running};
use crate::host::{FakeHost, skipped};
use crate::specs::{asking, nodes, our_hooks};

/// How many calls the tester wants, where it is said.
fn wanted() -> Option<u32> {
    std::env::var("NEURON_STORM").ok()?.parse().ok()
}

/// Numbers that look random and are the same in each run (xorshift).
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A call of the wrapper, and after how long it is to be killed.
struct Shot {
    command: Command,
    record: PathBuf,
    id: String,
    killed_after: Option<Duration>,
    lives: bool,
}

/// The containers that nobody has ended yet: chip to container.
type Held = Mutex<BTreeMap<u64, (String, Init)>>;

/// Notes that a container holds chips; fails where another does.
fn holds(held: &Held, id: &str, init: Init, chips: &[u64]) {
    let mut held = held.lock().unwrap();
    for chip in chips {
        if let Some((other, _)) = held.get(chip) {
            panic!("chip {chip} is {id}'s and {other}'s");
        }
        held.insert(*chip, (id.to_owned(), init));
    }
}

/// Ends a container; from before its end on nobody counts on it.
fn end(held: &Held, id: &str, init: Init) {
    held.lock().unwrap().retain(|_, (holder, _)| holder != id);
    init.kill();
}

/// The chips of the lease that a process holds, by the ledger itself.
fn bound(ledger: &Path, pid: i32) -> Option<Vec<u64>> {
    let ledger: Value = serde_json::from_str(&fs::read_to_string(ledger).ok()?).expect("a ledger that parses at any time");
    let lease = ledger["leases"].as_array()?.iter().find(|lease| lease["state"] == "bound" && lease["holder"]["pid"] == pid)?;
    lease["chips"].as_array()?.iter().map(Value::as_u64).collect()
}

fn fire(shot: Shot, held: &Held, ledger: &Path) {
    let Shot { mut command, record, id, killed_after, lives } = shot;
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    if let Some(after) = killed_after {
        sleep(after);
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    let Some(init) = Init::read(&record) else { return };
    let chips = if status.success() {
        let spec: Value = serde_json::from_str(&fs::read_to_string(record.join("config.json")).unwrap()).unwrap();
        Some(nodes(&spec).into_iter().map(|(_, chip)| chip).collect())
    } else {
        // The hook may have bound the lease before its runtime was killed.
        bound(ledger, init.pid).filter(|_| init.alive())
    };
    match chips {
        Some(chips) => {
            holds(held, &id, init, &chips);
            if !lives {
                end(held, &id, init);
            }
        }
        None => init.kill(),
    }
}

#[test]
fn no_chip_is_given_twice_while_wrappers_hooks_and_containers_are_killed() {
    let host = FakeHost::trn1();
    let mut dice = Dice(0x5eed);
    let shots: Vec<Shot> = (0..wanted().unwrap_or(400))
        .map(|number| {
            let id = format!("c{number}");
            let bundle = host.bundle(&id, &asking(["1", "2", "4", "8", "id:3"][usize::try_from(dice.up_to(5)).unwrap()]));
            let (mut command, record) = host.wrapper(&[], "");
            command.args(["create", "--bundle"]).arg(&bundle.folder).arg(&id);
            let killed_after = (dice.up_to(2) == 0).then(|| Duration::from_micros(dice.up_to(12_000)));
            Shot { command, record, id, killed_after, lives: dice.up_to(4) == 0 }
        })
        .collect();
    let (shots, held, ledger) = (Mutex::new(shots.into_iter()), Held::default(), host.ledger());
    scope(|scope| {
        for worker in 0..4_u64 {
            let (shots, held, ledger) = (&shots, &held, &ledger);
            scope.spawn(move || {
                let mut dice = Dice(worker + 1);
                loop {
                    let Some(shot) = shots.lock().unwrap().next() else { break };
                    fire(shot, held, ledger);
                    // Those that live on are ended by and by, or nobody would get chips any more.
                    let oldest = held.lock().unwrap().values().next().cloned().filter(|_| dice.up_to(2) == 0);
                    if let Some((id, init)) = oldest {
                        end(held, &id, init);
                    }
                }
            });
        }
    });
    for (id, init) in held.lock().unwrap().values().cloned().collect::<Vec<_>>() {
        end(&Held::default(), &id, init);
    }
    assert_eq!(host.leases(), []);
    host.begin("last", &asking("all"));
}

/// A system call of a recorded run: its name, and which of that name it is.
type Point = (String, u32);

/// The system calls of a run until it executes something else, in order.
fn points(trace: &Path) -> Vec<Point> {
    let text = fs::read_to_string(trace).unwrap();
    let mut counts = BTreeMap::new();
    let mut points = Vec::new();
    for line in text.lines().skip(1) {
        let Some((name, _)) = line.split_once('(') else { continue };
        if name == "execve" {
            break;
        }
        let count = counts.entry(name.to_owned()).or_insert(0);
        *count += 1;
        points.push((name.to_owned(), *count));
    }
    assert!(points.len() > 50, "{text}");
    points
}

/// Those that are tried: all where the tester wants it, else each fifteenth.
fn chosen(points: Vec<Point>) -> Vec<Point> {
    points.into_iter().step_by(if wanted().is_some() { 1 } else { 15 }).collect()
}

fn strace_is_there() -> bool {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !there {
        skipped("strace is not installed");
    }
    there
}

/// The wrapper under strace, which may do something to it.
fn traced(host: &FakeHost, bundle: &Path, strace: &[&str]) -> Running {
    let (wrapper, record) = host.wrapper(&["create".as_ref(), "--bundle".as_ref(), bundle.as_os_str(), "c1".as_ref()], "");
    let mut command = Command::new("strace");
    command.arg("-qq").args(strace).arg(wrapper.get_program()).args(wrapper.get_args()).current_dir(host.folder());
    command.env_clear().envs(wrapper.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Running::start(command, record)
}

#[test]
fn a_wrapper_that_is_killed_before_any_system_call_leaves_nothing_behind() {
    if !strace_is_there() {
        return;
    }
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("4"));
    // The first run makes folders that the others find.
    host.create(&bundle, "c1").ok().init().kill();
    let trace = host.folder().join("trace");
    traced(&host, &bundle.folder, &["-o", trace.to_str().unwrap()]).finish().ok().init().kill();
    let all = chosen(points(&trace));
    for (name, count) in all {
        let inject = format!("inject={name}:signal=KILL:when={count}");
        let mut running = traced(&host, &bundle.folder, &["-o", "/dev/null", "-e", &format!("trace={name}"), "-e", &inject]);
        // strace ends as the traced process did.
        assert_eq!(running.wait_for_end().signal(), Some(nix::libc::SIGKILL), "{name} {count}");
        assert_eq!(host.leases(), [], "{name} {count}");
        // At once, and by the very same bundle.
        host.create(&bundle, "c1").ok().init().kill();
    }
}

#[test]
fn a_system_call_that_fails_gives_an_error_line_or_a_container_and_nothing_between() {
    if !strace_is_there() {
        return;
    }
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("4"));
    // The first run makes folders that the others find.
    host.create(&bundle, "c1").ok().init().kill();
    let trace = host.folder().join("trace");
    traced(&host, &bundle.folder, &["-o", trace.to_str().unwrap()]).finish().ok().init().kill();
    // Without memory, signals or threads no program can say anything; and of close, what it could say is too late for anybody.
    let process = [
        "brk",
        "close",
        "mmap",
        "munmap",
        "mprotect",
        "arch_prctl",
        "set_tid_address",
        "set_robust_list",
        "rseq",
        "prlimit64",
        "rt_sigaction",
        "sigaltstack",
        "poll",
        "sched_getaffinity",
        "gettid",
        "getpid",
        "exit_group",
        "alarm",
        "getrandom",
    ];
    let all = chosen(points(&trace)).into_iter().filter(|(name, _)| !process.contains(&&**name));
    for (number, (name, count)) in all.enumerate() {
        let error = ["EIO", "ENOSPC", "EMFILE", "EINTR", "EACCES"][number % 5];
        let inject = format!("inject={name}:error={error}:when={count}");
        let call = traced(&host, &bundle.folder, &["-o", "/dev/null", "-e", &format!("trace={name}"), "-e", &inject]).finish();
        match call.code {
            Some(0) => assert_eq!(host.leases().len(), 1, "{inject}"),
            Some(1) => {
                assert!(call.stderr.starts_with("error: ") && !call.stderr.contains("fault in this program"), "{inject}: {}", call.stderr);
                assert_eq!(host.leases(), [], "{inject}");
            }
            other => panic!("{inject}: {other:?}: {}", call.stderr),
        }
        call.ended();
        host.create(&bundle, "c1").ok().init().kill();
    }
}

/// The hook is run by hand under strace, and again by the runtime: the container starts with its lease, or not at all.
#[test]
fn a_hook_that_is_killed_before_any_system_call_leaves_a_container_with_its_lease_or_none() {
    if !strace_is_there() {
        return;
    }
    let host = FakeHost::trn1();
    let bundle = host.bundle("b", &asking("4"));
    host.create(&bundle, "c1").ok().init().kill();
    let hook = |strace: &[&str]| {
        let running = host.start(&bundle, "c1", "hold-before-hook").wait_for_hold();
        let spec = bundle.spec();
        let args: Vec<String> =
            our_hooks(&spec)[0]["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
        let mut command = Command::new("strace");
        command.arg("-qq").args(strace).arg(host.bin().join(&args[0])).args(&args[1..]).env_clear().env("PATH", "/bin");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let state = json!({"ociVersion": "1.0.2", "id": "c1", "status": "creating", "pid": running.init().pid, "bundle": "/"});
        // Who is killed early does not read it.
        let _ = child.stdin.take().unwrap().write_all(state.to_string().as_bytes());
        let status = child.wait().unwrap();
        (running, status)
    };
    let trace = host.folder().join("trace");
    let (running, status) = hook(&["-o", trace.to_str().unwrap()]);
    assert!(status.success());
    running.release().ended();
    for (name, count) in chosen(points(&trace)) {
        let inject = format!("inject={name}:signal=KILL:when={count}");
        let (running, status) = hook(&["-o", "/dev/null", "-e", &format!("trace={name}"), "-e", &inject]);
        assert_eq!(status.signal(), Some(nix::libc::SIGKILL), "{inject}");
        let call = running.release();
        let leases = host.status()["leases"].as_array().unwrap().len();
        match call.code {
            Some(0) => assert_eq!((leases, call.init().alive()), (1, true), "{inject}"),
            _ => assert_eq!((leases, call.init().alive()), (0, false), "{inject}: {}", call.stderr),
        }
        call.ended();
    }
}
