//! Tables by hand, and the property that no two containers share a core, over every instance type.

use proptest::prelude::*;

use super::*;
use crate::chip::{Chip, DeviceNumber, HostNode};
use crate::grant::{Naming, Wishes, lnc, terms};
use crate::lease::{Holder, Lease, Ledger, Mode, State};
use crate::topology::{InstanceType, instance_type, instance_types};

fn host(row: &InstanceType, driver: &str) -> Inventory {
    let chip = |minor| {
        let id = ChipId::new(minor).unwrap();
        Chip {
            id,
            number: DeviceNumber { major: 240, minor },
            cores: Some(row.cores),
            linked: Some(row.links.set(id, row.chips)),
            architecture: Some(row.architecture.clone()),
            health: Health::Ready,
            node: Some(HostNode { mode: 0o666, uid: 0, gid: 0 }),
        }
    };
    Inventory { chips: (0..row.chips).map(chip).collect(), instance_type: None, driver_version: Some(driver.to_owned()) }
}

fn kind(name: &str) -> Inventory {
    host(&instance_type(name).unwrap(), "2.24.7.0")
}

/// Who holds what: first core, cores, LNC.
fn sharing(inventory: &Inventory, shares: &[(u32, u32, u32)]) -> Vec<Held> {
    let of_chip = inventory.chips[0].cores.unwrap();
    let held = |(number, (first, len, lnc)): (usize, &(u32, u32, u32))| Held {
        chips: (first / of_chip..=(first + len - 1) / of_chip).filter_map(ChipId::new).collect(),
        container: format!("c{number}"),
        pid: 4121,
        since: "10:02 UTC".into(),
        share: Some(Share { cores: CoreRun::new(*first, *len).unwrap(), lnc: *lnc }),
    };
    shares.iter().enumerate().map(held).collect()
}

fn asked(inventory: &Inventory, held: &[Held], count: u32, lnc: u32) -> Result<(String, String), String> {
    let wanted = Wanted { count, lnc, of_chip: inventory.chips[0].cores.unwrap() };
    let found = select(inventory, held, wanted, &Policy::default());
    found.map(|(choice, share)| (choice.chips.to_string(), share.cores.to_string())).map_err(|shortage| shortage.to_string())
}

/// Chips of 8 cores (trn2), of 4 (inf1) and of 2 (trn1); chip N has the cores from N times that on.
#[test]
fn cores_are_put_where_they_fit_best() {
    let (trn2, inf1, trn1) = (kind("trn2.48xlarge"), kind("inf1.6xlarge"), kind("trn1.32xlarge"));
    for (inventory, shares, count, lnc, chips, cores) in [
        // An empty host: the first core of the chip that a request for one chip gets.
        (&trn1, &[][..], 1, 1, "0", "0"),
        (&trn2, &[], 1, 2, "0", "0-1"),
        (&inf1, &[], 4, 1, "0", "0-3"),
        // The shared chip before a free one.
        (&trn1, &[(0, 1, 1)], 1, 1, "0", "1"),
        (&trn1, &[(1, 1, 1)], 1, 1, "0", "0"),
        // Of two shared chips (1 with three free cores, 2 with one) the one where one core leaves nothing.
        (&inf1, &[(4, 1, 1), (8, 3, 1)], 1, 1, "2", "11"),
        (&inf1, &[(4, 1, 1), (8, 3, 1)], 2, 1, "1", "6-7"),
        // No room there: a free chip, 0.
        (&inf1, &[(4, 2, 1), (8, 3, 1)], 3, 1, "0", "0-2"),
        // Two of 1-7: 2-3 keeps four and a pair whole as 1-2 does, and begins at a multiple of 2.
        (&trn2, &[(0, 1, 1)], 2, 1, "0", "2-3"),
        // Three are no power of two: 1-3 keeps 4-7 whole.
        (&trn2, &[(0, 1, 1)], 3, 1, "0", "1-3"),
        // Logical cores of two begin at even cores.
        (&trn2, &[(0, 2, 2)], 1, 2, "0", "2-3"),
        (&trn2, &[(0, 2, 2)], 2, 2, "0", "4-7"),
        // A chip has one LNC: chip 0 has room, but not for this one. 1 completes the broken pair.
        (&trn2, &[(0, 2, 2)], 1, 1, "1", "8"),
        // More than a chip has: consecutive free chips; the rest of the last may be shared.
        (&trn1, &[], 3, 1, "0-1", "0-2"),
        (&trn1, &[(0, 3, 1)], 1, 1, "1", "3"),
        (&trn1, &[(0, 3, 1)], 8, 1, "4-7", "8-15"),
        (&trn2, &[], 64, 2, "0-15", "0-127"),
    ] {
        let found = asked(inventory, &sharing(inventory, shares), count, lnc);
        assert_eq!(found, Ok((chips.to_owned(), cores.to_owned())), "{shares:?} want {count} of {lnc}");
    }
}

#[test]
fn refusals_say_how_many_cores_there_are() {
    let (trn2, one) = (kind("trn2.3xlarge"), kind("trn1.2xlarge"));
    for (inventory, shares, count, lnc, said) in [
        (&one, &[][..], 3, 1, "asked for 3 NeuronCores, this host has 2: ask for fewer"),
        (&trn2, &[], 5, 2, "asked for 5 NeuronCores, this host has 4: "),
        (&one, &[(0, 1, 1)], 2, 1, "asked for 2 NeuronCores, 1 of 2 is free, at most 1 together on one chip: 0 shared by c0; "),
        (&one, &[(0, 2, 1)], 1, 1, "asked for 1 NeuronCore, 0 of 2 are free, at most 0 together on one chip: 0 shared by c0; "),
        (&trn2, &[(0, 2, 2), (4, 2, 2)], 2, 2, "asked for 2 NeuronCores, 2 of 4 are free, at most 1 together on one chip: "),
        (
            &trn2,
            &[(0, 2, 2)],
            1,
            1,
            "asked for 1 NeuronCore of LNC 1, no chip is free and chip 0 with room is shared by containers of LNC 2: \
             set NEURON_LOGICAL_NC_CONFIG=2 in this container too",
        ),
    ] {
        let found = asked(inventory, &sharing(inventory, shares), count, lnc).unwrap_err();
        assert!(found.starts_with(said), "\n{found}\n{said}");
    }
    let wanted = Wanted { count: 3, lnc: 1, of_chip: 2 };
    let trn1 = kind("trn1.32xlarge");
    let limited = Policy { max_chips: Some(1), ..Policy::default() };
    let said = select(&trn1, &[], wanted, &limited).unwrap_err().to_string();
    assert!(said.starts_with("asked for 3 NeuronCores on 2 Neuron chips, the settings allow 1 "), "{said}");
    let reserved = Policy { reserved: [ChipId::new(0).unwrap()].into_iter().collect(), ..Policy::default() };
    let held = sharing(&trn1, &[(0, 1, 1)]);
    assert_eq!(select(&trn1, &held, Wanted { count: 1, ..wanted }, &reserved).unwrap().0.chips.to_string(), "1", "not on a reserved chip");
}

#[test]
fn whole_chips_are_none_that_are_shared() {
    let trn1 = kind("trn1.32xlarge");
    let held = sharing(&trn1, &[(0, 1, 1)]);
    let policy = Policy::default();
    assert_eq!(select::select(&trn1, &held, crate::request::Want::Any(1), &policy).unwrap().chips.to_string(), "1");
    let said = select::select(&trn1, &held, crate::request::Want::All, &policy).unwrap_err().to_string();
    assert_eq!(said, "asked for all 16 Neuron chips, 15 of 16 are free: 0 shared by c0; neuron-ctk status shows who holds them");
}

#[test]
fn the_ledger_lists_cores_one_by_one() {
    let run = CoreRun::new(6, 2).unwrap();
    assert_eq!(serde_json::to_string(&run).unwrap(), "[6,7]");
    assert_eq!(serde_json::from_str::<CoreRun>("[6,7]").unwrap(), run);
    for junk in ["[]", "[6,8]", "[7,6]", "[6,6]", "6", "[4294967295,4294967296]"] {
        assert!(serde_json::from_str::<CoreRun>(junk).is_err(), "{junk}");
    }
}

/// A container that came, and its words on cores.
#[derive(Debug, Clone)]
struct Wish {
    count: u32,
    lnc: u32,
    goes: usize,
}

proptest! {
    /// I1 for cores, as the containers see it: the host's core is what the driver makes of the container's number.
    #[test]
    fn no_two_containers_share_a_core(
        row in prop::sample::select(instance_types()),
        renumbers: bool,
        wishes in prop::collection::vec((1..=20u32, 1..=2u32, 0..4usize).prop_map(|(count, lnc, goes)| Wish { count, lnc, goes }), 1..60),
    ) {
        let inventory = host(&row, if renumbers { "2.24.7.0" } else { "2.11.0.0" });
        let mut ledger = Ledger::empty("b");
        let mut seen: Vec<(String, Vec<u32>)> = Vec::new();
        for (number, wish) in wishes.iter().enumerate() {
            let value = wish.lnc.to_string();
            let env = |name: &str| (name == "NEURON_LOGICAL_NC_CONFIG").then(|| value.clone());
            let words = Wishes { naming: Naming::Auto, env: &env, host_logical: None };
            let lnc = lnc(&inventory, &words).unwrap().size;
            let wanted = Wanted { count: wish.count, lnc, of_chip: row.cores };
            let Ok((choice, share)) = select(&inventory, &ledger.held(""), wanted, &Policy::default()) else { continue };
            prop_assert_eq!(share.cores.len(), wish.count * lnc);
            let terms = terms(&inventory, choice.chips, Some(share), &words).unwrap();
            let visible = terms.env.iter().find(|(name, _)| name == "NEURON_RT_VISIBLE_CORES").unwrap().1.clone();
            let (first, last) = visible.split_once('-').unwrap_or((&visible, &visible));
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            // The driver adds the cores before the first node (renumbered), or the container counts as the host does.
            let base = if renumbers { choice.chips.first().unwrap().index() * row.cores } else { 0 };
            let cores: Vec<u32> = (base + first * lnc..base + (last + 1) * lnc).collect();
            prop_assert!(cores.iter().all(|core| choice.chips.contains(ChipId::new(core / row.cores).unwrap())));
            for (other, taken) in &seen {
                prop_assert!(!cores.iter().any(|core| taken.contains(core)), "{number} and {other}: {cores:?}");
            }
            let id = number.to_string();
            ledger.claim(Lease {
                id: id.clone(), container: id.clone(), root: String::new(), chips: choice.chips,
                name: None,
                cores: Some(share.cores), lnc: Some(lnc), mode: Mode::Shared, state: State::Claimed,
                holder: Holder { pid: 1, start: 1, pidns: 1 }, cgroup: None, expires: None,
                since: "2026-11-30T10:02:03Z".into(), request: String::new(), env: vec![],
            }).unwrap();
            seen.push((id, cores));
            if wish.goes == 0 {
                let (gone, _) = seen.remove(number % seen.len());
                ledger.reap(|lease| if lease.id == gone { crate::lease::Life::Dead } else { crate::lease::Life::Live });
            }
        }
    }
}
