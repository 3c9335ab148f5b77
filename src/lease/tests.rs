//! The transitions, one by one and in any order.

use proptest::prelude::*;

use super::*;
use crate::chip::ChipId;

fn holder(pid: i32) -> Holder {
    Holder { pid, start: 100, pidns: 4_026_531_836 }
}

fn lease(id: &str, first: u32, len: u32, mode: Mode) -> Lease {
    Lease {
        id: id.into(),
        container: format!("c-{id}"),
        name: None,
        root: "/run/runc".into(),
        chips: ChipSet::run(ChipId::new(first).unwrap(), len).unwrap(),
        cores: None,
        lnc: None,
        mode,
        state: State::Claimed,
        holder: holder(7),
        cgroup: None,
        expires: None,
        since: "2026-11-30T10:02:03Z".into(),
        request: "any:2".into(),
        env: vec!["AWS_NEURON_VISIBLE_DEVICES=4,5".into()],
    }
}

/// The design's format, typed off its table of files.
#[test]
fn the_format_is_pinned() {
    let mut ledger = Ledger::empty("b00t");
    ledger.claim(lease("1", 4, 2, Mode::Exclusive)).unwrap();
    let claimed = r#"{"version":1,"boot_id":"b00t","leases":[{"id":"1","container":"c-1","root":"/run/runc","chips":[4,5],"mode":"exclusive","state":"claimed","holder":{"pid":7,"start":100,"pidns":4026531836},"since":"2026-11-30T10:02:03Z","request":"any:2","env":["AWS_NEURON_VISIBLE_DEVICES=4,5"]}]}"#;
    assert_eq!(String::from_utf8(ledger.to_text().unwrap()).unwrap().trim_end(), claimed);
    ledger.bind("1", "c-1", holder(9), Some("devices:/c-1".into())).unwrap();
    let text = ledger.to_text().unwrap();
    let bound = claimed
        .replace("claimed", "bound")
        .replace("\"pid\":7", "\"pid\":9")
        .replace(",\"since\"", ",\"cgroup\":\"devices:/c-1\",\"since\"");
    assert_eq!(String::from_utf8(text.clone()).unwrap().trim_end(), bound);
    assert_eq!(Ledger::parse(&text, "b00t").unwrap(), ledger);
}

#[test]
fn a_ledger_of_another_boot_is_empty() {
    let mut ledger = Ledger::empty("before");
    ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
    assert_eq!(Ledger::parse(&ledger.to_text().unwrap(), "after").unwrap(), Ledger::empty("after"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for text in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"version":1}"#,
        r#"{"version":1,"boot_id":"b","leases":[{}]}"#,
        "\0\0\0\0",
        r#"{"version":1,"boot_id":"b","leases":[],"more":1}"#,
        r#"{"version":-1,"boot_id":"b","leases":[]}"#,
    ] {
        assert!(matches!(Ledger::parse(text.as_bytes(), "b"), Err(Unreadable::Damaged(_))), "{text}");
    }
    let newer = Ledger::parse(br#"{"version":2,"boot_id":"b","leases":{"new":"shape"}}"#, "b");
    assert!(matches!(newer, Err(Unreadable::Newer(2))));
    // Even of another boot: a newer program may keep more than leases in it.
    assert!(Ledger::parse(br#"{"version":2,"boot_id":"a","leases":[]}"#, "b").is_err());
}

/// A row a case of I3.
#[test]
fn a_holder_is_a_pid_with_a_start_time_that_is_not_dead() {
    let there = |start, state, threads| Seen::There { start, state, threads };
    for (seen, life) in [
        (there(100, 'S', 1), Life::Live),
        (there(100, 'R', 9), Life::Live),
        (there(100, 'D', 1), Life::Live),
        (there(100, 'T', 1), Life::Live),
        (there(100, 'Z', 1), Life::Dead),
        (there(100, 'Z', 0), Life::Dead),
        (there(100, 'Z', 2), Life::Live),
        (there(100, 'X', 2), Life::Dead),
        (there(101, 'S', 1), Life::Dead),
        (Seen::Gone, Life::Dead),
        (Seen::Unreadable, Life::Unknown),
    ] {
        assert_eq!(holder(7).life(seen), life, "{seen:?}");
    }
    for (first, second, both) in [
        (Life::Dead, Life::Live, Life::Live),
        (Life::Dead, Life::Dead, Life::Dead),
        (Life::Dead, Life::Unknown, Life::Unknown),
        (Life::Unknown, Life::Live, Life::Live),
        (Life::Unknown, Life::Dead, Life::Unknown),
        (Life::Live, Life::Dead, Life::Live),
    ] {
        assert_eq!(first.or(|| second), both);
    }
}

#[test]
fn a_lease_is_bound_once_by_its_own_container() {
    let mut ledger = Ledger::empty("b");
    ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
    assert!(matches!(ledger.bind("2", "c-1", holder(9), None), Err(NotBound::Unknown(_))));
    assert!(matches!(ledger.bind("1", "c-2", holder(9), None), Err(NotBound::OtherContainer { .. })));
    assert_eq!(ledger.bind("1", "c-1", holder(9), None).unwrap().holder.pid, 9);
    assert!(matches!(ledger.bind("1", "c-1", holder(10), None), Err(NotBound::Twice { pid: 9, .. })));
    assert_eq!(ledger.lease("1").unwrap().holder.pid, 9);
}

#[test]
fn only_a_lease_that_a_caller_holds_for_this_container_is_taken_over() {
    for (expires, known_as, container, taken) in [
        (Some(9), "c-1", "c-1", true),
        (Some(9), "", "c-1", true),
        (Some(9), "c-1", "c-2", false),
        (None, "c-1", "c-1", false),
    ] {
        let mut ledger = Ledger::empty("b");
        ledger.claim(Lease { expires, container: known_as.into(), ..lease("1", 0, 1, Mode::Exclusive) }).unwrap();
        let before = ledger.clone();
        assert_eq!(ledger.take_over("2", container, holder(9)), None);
        let lease = ledger.take_over("1", container, holder(9)).map(|lease| (lease.container.clone(), lease.holder.pid, lease.expires));
        assert_eq!(lease, taken.then(|| (container.to_owned(), 9, None)));
        assert!(taken || ledger == before);
        // Once, and not when it is bound.
        assert_eq!(ledger.take_over("1", container, holder(10)), None);
    }
    let mut ledger = Ledger::empty("b");
    ledger.claim(Lease { expires: Some(9), container: String::new(), ..lease("1", 0, 1, Mode::Exclusive) }).unwrap();
    let bound = ledger.bind("1", "c-1", holder(9), None).unwrap();
    assert_eq!((&*bound.container, bound.expires), ("c-1", None));
    assert_eq!(ledger.take_over("1", "c-1", holder(10)), None);
}

#[test]
fn what_cannot_be_judged_stays_and_what_is_dead_goes() {
    let mut ledger = Ledger::empty("b");
    for (id, first) in [("live", 0), ("dead", 1), ("unknown", 2)] {
        ledger.claim(lease(id, first, 1, Mode::Exclusive)).unwrap();
    }
    ledger.reap(|lease| match &*lease.id {
        "live" => Life::Live,
        "dead" => Life::Dead,
        _ => Life::Unknown,
    });
    assert_eq!(ledger.leases().iter().map(|lease| &*lease.id).collect::<Vec<_>>(), ["live", "unknown"]);
}

#[test]
fn times_of_today_are_shown_without_the_date() {
    let mut ledger = Ledger::empty("b");
    ledger.claim(lease("1", 0, 1, Mode::Exclusive)).unwrap();
    assert_eq!(ledger.held("2026-11-30")[0].since, "10:02 UTC");
    assert_eq!(ledger.held("2026-12-01")[0].since, "2026-11-30 10:02 UTC");
}

#[derive(Debug, Clone)]
enum Step {
    Claim { first: u32, len: u32, adopted: bool },
    Bind(usize),
    Die(usize),
    Reap,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..16u32, 1..=8u32, prop::bool::weighted(0.2)).prop_map(|(first, len, adopted)| Step::Claim { first, len, adopted }),
        (0..20usize).prop_map(Step::Bind),
        (0..20usize).prop_map(Step::Die),
        Just(Step::Reap),
    ]
}

proptest! {
    /// I1 over any history: no chip is in two live exclusive leases, and a dead holder's chips can be claimed after a reap.
    #[test]
    fn no_history_gives_a_chip_twice(steps in prop::collection::vec(step(), 1..60)) {
        let mut ledger = Ledger::empty("b");
        let mut dead: Vec<String> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let nth = |ledger: &Ledger, n: usize| ledger.leases().get(n).map(|lease| (lease.id.clone(), lease.container.clone()));
            match step {
                Step::Claim { first, len, adopted } => {
                    let mode = if adopted { Mode::Adopted } else { Mode::Exclusive };
                    let lease = lease(&number.to_string(), first, len, mode);
                    let (chips, before) = (lease.chips, ledger.clone());
                    let clash = before.leases().iter().any(|other| !other.chips.intersection(chips).is_empty());
                    prop_assert_eq!(ledger.claim(lease).is_err(), clash && !adopted);
                    if clash && !adopted { prop_assert_eq!(&ledger, &before); }
                }
                Step::Bind(n) => if let Some((id, container)) = nth(&ledger, n) {
                    let _ = ledger.bind(&id, &container, holder(i32::try_from(n).unwrap()), None);
                },
                Step::Die(n) => if let Some((id, _)) = nth(&ledger, n) { dead.push(id) },
                Step::Reap => {
                    ledger.reap(|lease| if dead.contains(&lease.id) { Life::Dead } else { Life::Live });
                    prop_assert!(ledger.leases().iter().all(|lease| !dead.contains(&lease.id)));
                }
            }
            let exclusive: Vec<_> = ledger.leases().iter().filter(|lease| lease.mode == Mode::Exclusive).collect();
            for (position, lease) in exclusive.iter().enumerate() {
                for other in &exclusive[position + 1..] {
                    prop_assert!(lease.chips.intersection(other.chips).is_empty());
                }
            }
            prop_assert_eq!(&Ledger::parse(&ledger.to_text().unwrap(), "b").unwrap(), &ledger);
        }
    }
}
