//! Tables by hand from the design's rules, and properties over arbitrary hosts.

use proptest::prelude::*;

use super::*;
use crate::chip::{Chip, DeviceNumber};
use crate::topology::Links;

fn id(index: u32) -> ChipId {
    ChipId::new(index).unwrap()
}

fn set(ids: impl IntoIterator<Item = u32>) -> ChipSet {
    ids.into_iter().map(id).collect()
}

fn host(links: Links, count: u32) -> Inventory {
    let chip = |minor| Chip {
        id: id(minor),
        number: DeviceNumber { major: 240, minor },
        cores: Some(2),
        linked: Some(links.set(id(minor), count)),
        architecture: None,
        health: Health::Ready,
        node: None,
    };
    Inventory { chips: (0..count).map(chip).collect(), instance_type: None, driver_version: None }
}

fn held(chips: ChipSet, container: &str) -> Held {
    Held { chips, container: container.into(), pid: 4121, since: "10:02".into(), share: None }
}

fn policy() -> Policy {
    Policy::default()
}

fn chosen(inventory: &Inventory, busy: &[u32], wanted: u32) -> Option<String> {
    let held = [held(set(busy.iter().copied()), "x")];
    select(inventory, &held, Want::Any(wanted), &policy()).ok().map(|choice| choice.chips.to_string())
}

fn refusal(inventory: &Inventory, held: &[Held], want: Want, policy: &Policy) -> String {
    select(inventory, held, want, policy).unwrap_err().to_string()
}

/// Worked out by hand: the least worth of the blocks touched (a block's size, a quarter of it with a container in it); then the smallest
/// gap; then the lowest id.
#[test]
fn the_best_fit_keeps_large_aligned_blocks_whole() {
    let torus = host(Links::Torus4x4, 16);
    let ring = host(Links::Ring, 16);
    for (inventory, busy, wanted, expected) in [
        // An empty host: any single chip breaks one 8, one 4 and one 2, so the lowest id wins.
        (&torus, &[][..], 1, Some("0")),
        (&torus, &[], 2, Some("0-1")),
        (&torus, &[], 4, Some("0-3")),
        (&torus, &[], 8, Some("0-7")),
        (&torus, &[], 16, Some("0-15")),
        // 0 is taken: 1 completes the broken pair.
        (&torus, &[0], 1, Some("1")),
        // Two: 2-3 touches one whole pair (2), a broken four, eight and sixteen (1, 2, 4), 1-2 the broken pair (1/2) as well.
        (&torus, &[0], 2, Some("2-3")),
        // With 1 taken as well, 2-3 completes the four.
        (&torus, &[0, 1], 2, Some("2-3")),
        // Four: the rest of the broken half, not the whole one.
        (&torus, &[0], 4, Some("4-7")),
        (&torus, &[0], 8, Some("8-15")),
        // 3 and 4 are free but not linked; 8-9 is the first linked pair.
        (&torus, &[0, 1, 2, 5, 6, 7, 10, 11, 12, 13, 14, 15], 2, Some("8-9")),
        (&torus, &[0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], 2, None),
        // Rows only: 1-4 are four free neighbours by number.
        (&torus, &[0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], 4, None),
        (&torus, &[0, 9, 10, 11, 12, 13, 14, 15], 8, None),
        // On a ring every run is linked, and 1-4 will do.
        (&ring, &[0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], 4, Some("1-4")),
        // Gaps 1 (chip 1) and 3 (chips 5-7): both leave the pair 6-7 whole only if chip 1 or 5 is taken; smaller gap wins.
        (&ring, &[0, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15], 1, Some("1")),
        (&ring, &[0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15], 1, Some("5")),
    ] {
        assert_eq!(chosen(inventory, busy, wanted).as_deref(), expected, "{busy:?} want {wanted}");
    }
}

#[test]
fn a_line_has_no_wrap_and_unknown_links_serve_one_chip_only() {
    let mut line = host(Links::Line, 6);
    assert_eq!(chosen(&line, &[0, 1], 4).as_deref(), Some("2-5"));
    for chip in &mut line.chips {
        chip.linked = None;
    }
    // Where no two chips can be given together, there is no block to spoil.
    assert_eq!(chosen(&line, &[], 1).as_deref(), Some("0"));
    assert_eq!(chosen(&line, &[], 2), None);
    // 4-5 touches a pair (2), one half a size on (3-4: 1/2) and such a four (2-5: 1); 0-1 a pair, such a pair and the four 0-3 (4).
    let free = Policy { require_links: false, ..policy() };
    assert_eq!(select(&line, &[], Want::Any(2), &free).unwrap().chips, set([4, 5]));
}

#[test]
fn independent_workers_need_no_links_and_no_rows() {
    let torus = host(Links::Torus4x4, 16);
    let busy = [held(set([0, 1, 2, 5, 6, 7].into_iter().chain(8..16)), "x")];
    let free = Policy { require_links: false, ..policy() };
    assert_eq!(select(&torus, &busy, Want::Any(2), &free).unwrap().chips, set([3, 4]));
}

#[test]
fn all_means_all_but_the_reserved_ones() {
    let torus = host(Links::Torus4x4, 16);
    assert_eq!(select(&torus, &[], Want::All, &policy()).unwrap().chips, set(0..16));
    let reserved = Policy { reserved: set([0]), ..policy() };
    let choice = select(&torus, &[], Want::All, &reserved).unwrap();
    assert_eq!((choice.chips, choice.warnings), (set(1..16), vec![Warning::OddOnTorus(set(1..16))]));
    let middle = Policy { reserved: set([7]), ..policy() };
    assert!(matches!(select(&torus, &[], Want::All, &middle), Err(Shortage::Gap { .. })));
    let every = Policy { reserved: set(0..16), ..policy() };
    assert!(matches!(select(&torus, &[], Want::All, &every), Err(Shortage::NotEnough { free: 0, .. })));
}

#[test]
fn odd_counts_on_a_torus_are_served_with_a_warning_unless_strict() {
    let torus = host(Links::Torus4x4, 16);
    let strict = Policy { strict_counts: true, ..policy() };
    for (want, odd) in [
        (Want::Any(1), false),
        (Want::Any(2), true),
        (Want::Any(4), false),
        (Want::Any(6), true),
        (Want::Any(8), false),
        (Want::Any(16), false),
        (Want::Ids(set(4..8)), false),
        (Want::Ids(set(0..2)), true),
        (Want::Ids(set(1..9)), true),
    ] {
        let warned = select(&torus, &[], want, &policy()).unwrap().warnings;
        assert_eq!(warned.iter().any(|warning| matches!(warning, Warning::OddOnTorus(_))), odd, "{want}");
        assert_eq!(matches!(select(&torus, &[], want, &strict), Err(Shortage::OddOnTorus(_))), odd, "{want}");
    }
    // A ring serves every count.
    assert!(select(&host(Links::Ring, 16), &[], Want::Any(6), &strict).unwrap().warnings.is_empty());
}

#[test]
fn explicit_ids_that_are_not_linked_are_given_with_a_warning() {
    let torus = host(Links::Torus4x4, 16);
    let choice = select(&torus, &[], Want::Ids(set([3, 4])), &policy()).unwrap();
    assert!(choice.warnings.contains(&Warning::Unlinked(set([3, 4]))));
}

#[test]
fn every_refusal_has_its_own_words_and_numbers() {
    let torus = host(Links::Torus4x4, 16);
    let docker = "3f2a9c1b7e44";
    let none = policy();
    let two = [held(set(0..8), docker), held(set(8..14), "train-1")];
    let apart = [held(set((0..16).filter(|id| ![1, 3, 8, 12].contains(id))), "big")];
    let unlinked = [held(set([0, 1, 2, 5, 6, 7].into_iter().chain(8..16)), "x")];
    let mut ill = host(Links::Torus4x4, 16);
    ill.chips[3].health = Health::Unhealthy("resetting (sysfs reset reads 0)".into());
    let reserved = Policy { reserved: set([15]), ..policy() };
    let max = Policy { max_chips: Some(4), ..policy() };
    let strict = Policy { strict_counts: true, ..policy() };
    let mut gap = host(Links::Ring, 4);
    gap.chips.remove(2);
    for (inventory, held, want, policy, expected) in [
        (
            &torus,
            &two[..],
            Want::Any(4),
            &none,
            "asked for 4 Neuron chips, 2 of 16 are free: 0-7 held by 3f2a9c1b7e44, 8-13 held by train-1",
        ),
        (&torus, &two, Want::All, &none, "asked for all 16 Neuron chips, 2 of 16 are free: 0-7 held by"),
        (
            &torus,
            &apart,
            Want::Any(4),
            &none,
            "asked for 4 Neuron chips, 4 free (1, 3, 8, 12) but no 4 consecutive ones: largest run is 1; wait for one of 0,2,4-7,9-11,13-15 held by big",
        ),
        (
            &torus,
            &unlinked,
            Want::Any(2),
            &none,
            "asked for 2 Neuron chips, 2 free (3-4) but no 2 consecutive ones that are connected by NeuronLink; wait for one of",
        ),
        (&torus, &[], Want::Any(17), &none, "asked for 17 Neuron chips, this host has 16: ask for fewer"),
        (&torus, &[], Want::Ids(set([15, 16, 17])), &none, "asked for Neuron chips 15-17, this host has no chip 16-17: its chips are 0-15"),
        (&torus, &two, Want::Ids(set([13, 14])), &none, "asked for Neuron chips 13-14: chip 13 is held by train-1 (pid 4121, since 10:02)"),
        (&ill, &[], Want::Ids(set([3])), &none, "asked for Neuron chip 3: chip 3 is resetting (sysfs reset reads 0)"),
        (&torus, &[], Want::Ids(set([15])), &reserved, "asked for Neuron chip 15: chip 15 is reserved"),
        (&ill, &[], Want::Any(16), &none, "asked for 16 Neuron chips, 15 of 16 are free: 3 resetting (sysfs reset reads 0)"),
        (&torus, &[], Want::Ids(set([0, 2])), &none, "asked for Neuron chips 0,2, these are not consecutive"),
        (&torus, &[], Want::Any(5), &max, "asked for 5 Neuron chips, the settings allow 4 for one container"),
        (&torus, &[], Want::Any(3), &strict, "asked for 3 Neuron chips, a 4x4 torus serves 1, a row of 4"),
        (&gap, &[], Want::Any(3), &none, "asked for 3 Neuron chips, but of this host's chips (0-1,3) no 3 consecutive ones exist"),
        (&Inventory::default(), &[], Want::Any(1), &none, "asked for 1 Neuron chip, this host has none: load the driver"),
        (&Inventory::default(), &[], Want::All, &none, "asked for all Neuron chips, this host has none: load the driver"),
    ] {
        let said = refusal(inventory, held, want, policy);
        assert!(said.starts_with(expected), "\n{said}\n{expected}");
    }
}

fn any_host() -> impl Strategy<Value = Inventory> {
    let links = prop_oneof![
        (1..=64u32).prop_map(|count| (Links::Ring, count)),
        (1..=64u32).prop_map(|count| (Links::Line, count)),
        Just((Links::Torus4x4, 16)),
        (1..=3u32).prop_map(|count| (Links::None, count)),
    ];
    (links, any::<u64>(), any::<u64>()).prop_map(|((links, count), ill, missing)| {
        let mut inventory = host(links, count);
        for (position, chip) in inventory.chips.iter_mut().enumerate() {
            if ill & missing & (1 << position) != 0 {
                chip.health = Health::Unhealthy("invalid".into());
            }
        }
        inventory
    })
}

proptest! {
    /// Never a busy, reserved or unwell chip, never a gap, never an unlinked run; and one answer to one question.
    #[test]
    fn a_choice_is_free_consecutive_linked_and_repeatable(
        inventory in any_host(),
        busy in any::<u64>(),
        more_busy in any::<u64>(),
        reserved in any::<u64>(),
        wanted in 1..=20u32,
    ) {
        let bits = |bits: u64| set((0..64).filter(move |bit| bits & (1 << bit) != 0));
        let held = [held(bits(busy & more_busy), "x")];
        let policy = Policy { reserved: bits(reserved & more_busy & !busy), ..policy() };
        let first = select(&inventory, &held, Want::Any(wanted), &policy);
        prop_assert_eq!(&first, &select(&inventory, &held, Want::Any(wanted), &policy));
        let free = set(inventory.chips.iter().filter(|chip| chip.health == Health::Ready).map(|chip| chip.id.index()))
            .difference(held[0].chips).difference(policy.reserved);
        match first {
            Ok(Choice { chips, .. }) => {
                prop_assert_eq!(chips.len(), wanted);
                prop_assert_eq!(chips.runs().len(), 1);
                prop_assert!(free.contains_all(chips));
                prop_assert_eq!(topology::connected(&inventory.chips, chips), Some(true));
            }
            // A single free chip is never refused: there is nothing that it could lack.
            Err(_) => prop_assert!(wanted > 1 || free.is_empty()),
        }
    }

    /// What was chosen for a count can be had by its ids as well.
    #[test]
    fn a_choice_by_count_can_be_had_by_id(inventory in any_host(), busy in any::<u64>(), wanted in 1..=16u32) {
        let held = [held(set((0..64).filter(|bit| busy & (1 << bit) != 0)), "x")];
        if let Ok(choice) = select(&inventory, &held, Want::Any(wanted), &policy()) {
            let again = select(&inventory, &held, Want::Ids(choice.chips), &policy());
            prop_assert_eq!(again.map(|again| again.chips), Ok(choice.chips));
        }
    }
}
