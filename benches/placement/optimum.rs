//! The best that a policy without foresight can do, exactly.
//!
//! Both the time between two containers and their lives are exponentially distributed, so what matters of a host is which runs are held:
//! a Markov decision process. It is solved by value iteration for the least refusals, in the long run, where enough chips were free but in
//! no run. The policy knows the rates, but no container's end; it serves whatever it can serve, as the program does; it only chooses the
//! run. Whole chips only: with cores there are too many states.

use std::collections::HashMap;

use neuron_container_runtime::chip::{ChipId, ChipSet};
use neuron_container_runtime::topology::{InstanceType, Links};

use crate::play::{Place, Room, host};
use crate::policies::possible;
use crate::stream::{Ask, Stream};

/// Chips that are held (low half), and those of them with which a run begins (high half).
type State = u32;

/// What every state costs, relative to an empty host.
pub(crate) struct Optimum {
    links: Links,
    chips: u32,
    number: HashMap<State, u32>,
    cost: Vec<f64>,
}

/// Where it can go on from a state.
struct Ways {
    /// For each size what a refusal costs, and the states that a grant leads to.
    comes: Vec<(f64, Vec<u32>)>,
    /// For each container the state that its end leads to.
    ends: Vec<u32>,
}

impl Optimum {
    /// Solves what this stream is a sample of.
    pub(crate) fn new(stream: &Stream<'_>) -> Self {
        let kind = stream.kind;
        let mut this = Self { links: kind.links, chips: kind.chips, number: HashMap::from([(0, 0)]), cost: Vec::new() };
        let rates = stream.rates();
        let runs: Vec<Vec<State>> = rates.iter().map(|(size, _)| runs(kind, *size)).collect();
        let mut states = vec![0];
        let mut ways = Vec::new();
        while let Some(state) = states.get(ways.len()).copied() {
            let mut to = |next: State, this: &mut Self| {
                let next = this.same_as(next);
                *this.number.entry(next).or_insert_with(|| {
                    states.push(next);
                    u32::try_from(states.len() - 1).unwrap_or(u32::MAX)
                })
            };
            let free = kind.chips - (state & 0xffff).count_ones();
            let comes = rates.iter().zip(&runs).map(|((size, _), runs)| {
                let mut next: Vec<u32> =
                    runs.iter().filter(|run| state & **run & 0xffff == 0).map(|run| to(state | run, &mut this)).collect();
                next.sort_unstable();
                next.dedup();
                (if free >= *size { 1.0 } else { 0.0 }, next)
            });
            let comes = comes.collect();
            let ends = held(state).into_iter().map(|run| to(state & !run, &mut this)).collect();
            ways.push(Ways { comes, ends });
        }
        this.iterate(&ways, &rates);
        this
    }

    fn iterate(&mut self, ways: &[Ways], rates: &[(u32, f64)]) {
        let most = f64::from(self.chips);
        let all = most + rates.iter().map(|(_, rate)| rate).sum::<f64>();
        let mut cost = vec![0.0; ways.len()];
        // Far more rounds than any of these hosts needs.
        for _ in 0..10_000 {
            let before = cost.clone();
            for (state, way) in ways.iter().enumerate() {
                let come = way.comes.iter().zip(rates).map(|((refusal, next), (_, rate))| {
                    let best = next.iter().map(|next| before[*next as usize]).fold(f64::INFINITY, f64::min);
                    rate * if best.is_finite() { best } else { before[state] + refusal }
                });
                let end = way.ends.iter().map(|next| before[*next as usize]).sum::<f64>();
                cost[state] = (come.sum::<f64>() + end + (most - way.ends.len() as f64) * before[state]) / all;
            }
            let steps = cost.iter().zip(&before).map(|(after, before)| after - before);
            let (least, largest) = steps.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), step| (low.min(step), high.max(step)));
            if largest - least < 1e-3 * largest {
                break;
            }
        }
        self.cost = cost;
    }

    /// Where the cheapest state follows; nowhere for cores.
    pub(crate) fn place(&self, room: &Room<'_>, ask: Ask) -> Option<Place> {
        let Ask::Chips(size) = ask else { return None };
        let state = room.held.iter().fold(0, |state, held| state | bits(held.chips));
        let cost =
            |run: ChipSet| self.number.get(&self.same_as(state | bits(run))).map_or(f64::INFINITY, |number| self.cost[*number as usize]);
        let runs = possible(room, size)?.into_iter().map(|candidate| candidate.run);
        Some((runs.min_by(|one, other| cost(*one).total_cmp(&cost(*other)))?, None))
    }

    /// The state that stands for all that are equal but for names: mirror images, rows and halves of a torus in another order.
    fn same_as(&self, state: State) -> State {
        if self.links != Links::Torus4x4 {
            return state.min(mirrored(state, self.chips));
        }
        if state == 0x1_ffff {
            return state;
        }
        let mut halves = [0, 8].map(|shift| {
            let half = part(state, shift, 8);
            if half == 0x1_00ff {
                return half;
            }
            let mut rows = [0, 4].map(|shift| {
                let row = part(half, shift, 4);
                row.min(mirrored(row, 4))
            });
            rows.sort_unstable();
            rows[0] | rows[1] << 4
        });
        halves.sort_unstable();
        halves[0] | halves[1] << 8
    }
}

/// `chips` chips from `first` on, as if they were a host.
fn part(state: State, first: u32, chips: u32) -> State {
    let mask = (1 << chips) - 1;
    (state >> first) & (mask | mask << 16)
}

fn bits(run: ChipSet) -> State {
    let chips = run.iter().fold(0, |bits, id| bits | 1 << id.index());
    chips | run.first().map_or(0, |first| 1 << (16 + first.index()))
}

/// The runs that so many chips could be given as on an empty host.
fn runs(kind: &InstanceType, size: u32) -> Vec<State> {
    let room = Room { inventory: &host(kind), held: &[], of_chip: kind.cores, lnc: 1 };
    possible(&room, size).unwrap_or_default().into_iter().map(|candidate| bits(candidate.run)).collect()
}

/// The runs that are held.
fn held(state: State) -> Vec<State> {
    let (chips, firsts) = (state & 0xffff, state >> 16);
    let begins = (0..16).filter(|chip| firsts & (1 << chip) != 0);
    begins
        .map(|first| {
            let len =
                (1..=16 - first).find(|len| first + len == 16 || chips & (1 << (first + len)) == 0 || firsts & (1 << (first + len)) != 0);
            bits(ChipId::new(first).and_then(|first| ChipSet::run(first, len?)).unwrap_or(ChipSet::EMPTY))
        })
        .collect()
}

fn mirrored(state: State, chips: u32) -> State {
    held(state).into_iter().fold(0, |mirrored, run| {
        let (first, len) = ((run & 0xffff).trailing_zeros(), (run & 0xffff).count_ones());
        mirrored | bits(ChipId::new(chips - first - len).and_then(|first| ChipSet::run(first, len)).unwrap_or(ChipSet::EMPTY))
    })
}
