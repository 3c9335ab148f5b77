//! What `plan` found out, as data and for people.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::chip::{ChipSet, Inventory};
use crate::claim::{Ask, Claim};
use crate::request::{Want, in_words};
use crate::select::{self, Candidate, Held, Policy};
use crate::words::{count, one_line};

/// What `--json` shows.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) version: u32,
    pub(super) request: Option<Asked>,
    pub(super) registered: u32,
    pub(super) free: ChipSet,
    pub(super) held: Vec<Holding>,
    pub(super) considered: Vec<Possible>,
    pub(super) choice: Option<ChipSet>,
    pub(super) warnings: Vec<String>,
    pub(super) refusal: Option<String>,
    pub(super) command: Option<Vec<String>>,
    pub(super) diff: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Asked {
    want: String,
    from: String,
    #[serde(skip)]
    words: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Holding {
    chips: ChipSet,
    container: String,
    pid: i32,
}

/// A run that could be chosen, what it spoils (the least is taken), and how many aligned blocks of free chips it leaves whole.
#[derive(Debug, Serialize)]
pub(super) struct Possible {
    chips: ChipSet,
    cost: f64,
    leaves: Map<String, Value>,
    gap: u32,
}

impl Asked {
    pub(super) fn new(ask: &Ask, total: u32) -> Self {
        let want = match ask {
            Ask::Grant(request) => request.want,
            Ask::Given { chips, .. } => Want::Ids(*chips),
        };
        let only = if ask.is_adopted() { ", to be recorded as taken" } else { "" };
        Self { want: want.to_string(), from: ask.origin().to_string(), words: in_words(want, total) + only }
    }
}

impl Holding {
    pub(super) fn new(held: &Held) -> Self {
        Self { chips: held.chips, container: held.container.clone(), pid: held.pid }
    }
}

impl Possible {
    fn new(candidate: &Candidate) -> Self {
        let leaves = ["8", "4", "2"].iter().zip(candidate.leaves).map(|(size, blocks)| ((*size).to_owned(), blocks.into()));
        let cost = candidate.cost as f64 / Candidate::UNIT as f64;
        Self { chips: candidate.run, cost, leaves: leaves.collect(), gap: candidate.gap }
    }
}

impl Report {
    /// The host, before anything is asked of it.
    pub(super) fn new(inventory: &Inventory, held: &[Held], policy: &Policy) -> Self {
        let mut holdings: Vec<_> = held.iter().map(Holding::new).collect();
        holdings.sort_by_key(|holding| holding.chips.first());
        Self {
            version: 1,
            registered: inventory.ids().len(),
            free: select::free(inventory, held, policy),
            held: holdings,
            ..Self::default()
        }
    }

    /// Notes what a claim would take.
    pub(super) fn take(&mut self, claim: &Claim) {
        self.choice = Some(claim.lease.chips);
        self.considered = claim.considered.iter().map(Possible::new).collect();
        self.warnings.extend(claim.warnings.iter().cloned());
    }

    /// Shows it to people.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let chips = |set: ChipSet| if set.is_empty() { "none".to_owned() } else { set.to_string() };
        match &self.request {
            None => writeln!(out, "request   none: the container would be passed through unchanged")?,
            Some(asked) => writeln!(out, "request   {} ({}), from {}", asked.words, asked.want, asked.from)?,
        }
        writeln!(out, "free      {} of {}", chips(self.free), count(self.registered, "Neuron chip"))?;
        for held in &self.held {
            writeln!(out, "held      {} by {} (pid {})", held.chips, held.container, held.pid)?;
        }
        if let Some(choice) = self.choice {
            writeln!(out, "choice    {choice}{}", self.why(choice))?;
        }
        for warning in &self.warnings {
            writeln!(out, "note      {}", one_line(warning))?;
        }
        if let Some(command) = self.command.as_ref().filter(|_| self.refusal.is_none()) {
            writeln!(out, "command   {}", command.join(" "))?;
        }
        if !self.diff.is_empty() {
            write!(out, "\n{}", self.diff)?;
        }
        Ok(())
    }

    /// Why this run: how many there were, what it leaves whole, how the best ones are told apart.
    fn why(&self, choice: ChipSet) -> String {
        let Some(chosen) = self.considered.iter().find(|option| option.chips == choice) else { return String::new() };
        let all = self.considered.len();
        if all == 1 {
            return ", the only run that fits".to_owned();
        }
        let blocks = chosen.leaves.iter().filter(|(_, blocks)| **blocks != 0);
        let blocks: Vec<_> = blocks.map(|(size, blocks)| format!("{blocks} of {size}")).collect();
        let blocks = if blocks.is_empty() { "none".to_owned() } else { blocks.join(", ") };
        let equal: Vec<_> = self.considered.iter().filter(|option| option.cost.total_cmp(&chosen.cost).is_eq()).collect();
        let one = if equal.iter().any(|option| option.gap != chosen.gap) { "from the smallest gap" } else { "the lowest" };
        match equal.len() {
            1 => format!(": of {all} possible runs the one that spoils blocks of chips least (left whole: {blocks})"),
            same if same == all => format!(": {one} of {all} possible runs, which spoil blocks of chips alike (left whole: {blocks})"),
            same => format!(": {one} of those {same} out of {all} possible runs that spoil blocks of chips least (left whole: {blocks})"),
        }
    }
}
