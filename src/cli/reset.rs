//! `reset`: has the driver reset chips, while nobody else can be granted them.

use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;

use crate::chip::{ChipId, ChipSet, Health};
use crate::host::Host;
use crate::reset::{begin, health, hold, holdable};
use crate::settings::Settings;

/// How often the chips are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long the driver may take to begin.
const LONGEST_BEGIN: Duration = Duration::from_secs(5);

/// Have the driver reset chips that nobody holds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk reset 3\n  neuron-ctk reset 0-3,8 --limit 5m\n\n\
Takes a lease on the chips first, so that no container is granted them meanwhile; chips that somebody holds or has open are refused. It may cure a\n\
chip whose sysfs `reset` reads 2. It is no wiping: nobody promises that a chip's memory is empty afterwards.\n\n\
Exit codes: 0 all are ready, 1 not within the limit, 3 somebody has one of them, or it is not there. As root.")]
pub(super) struct Reset {
    /// Ids of chips, such as 0-3,8
    #[arg(required = true, value_name = "CHIP", value_parser = ids)]
    chips: Vec<ChipSet>,
    /// The longest to wait until they are ready
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

fn ids(text: &str) -> Result<ChipSet, String> {
    crate::request::parse_ids(text).map_err(|fault| format!("{fault}; ids are wanted, such as 0-3,8"))
}

impl Reset {
    /// Resets, and waits.
    pub(super) fn run(&self, host: &Host, settings: &Settings, out: &mut dyn Write) -> Result<()> {
        let chips = self.chips.iter().fold(ChipSet::EMPTY, |all, some| all.union(*some));
        if self.dry_run {
            holdable(host, settings, chips)?;
            writeln!(out, "would reset {}: nobody holds {}", chips.named("chip"), if chips.len() == 1 { "it" } else { "them" })?;
            return Ok(());
        }
        // Until this process ends.
        hold(host, settings, chips, "neuron-ctk reset")?;
        if host.simulated() {
            let _ = writeln!(
                io::stderr(),
                "no driver is behind a simulated host: to play it, write 0 and then 1 into the chip's sysfs file reset"
            );
        }
        let begun = Instant::now();
        for chip in chips.iter() {
            begin(host, chip)?;
        }
        let mut progress = Progress::new(chips);
        let mut waiting = chips;
        let mut began = ChipSet::EMPTY;
        loop {
            for chip in waiting.iter() {
                match health(host, chip)? {
                    Health::Ready if began.contains(chip) => {
                        waiting = without(waiting, chip);
                        progress.clear();
                        writeln!(out, "chip {chip} is ready, after {:.1} s", begun.elapsed().as_secs_f32())?;
                    }
                    Health::Ready => ensure!(
                        begun.elapsed() < LONGEST_BEGIN.min(self.limit),
                        "the driver did not begin to reset chip {chip}: it does so only where no process has it open; neuron-ctk status shows who has"
                    ),
                    _ => {
                        began.insert(chip);
                    }
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if begun.elapsed() >= self.limit {
                bail!(
                    "{} not ready after {}: neuron-ctk status shows how it is, dmesg what the driver says; load the driver anew if it stays so",
                    waiting.named("chip"),
                    humantime::format_duration(self.limit)
                );
            }
            progress.show(waiting, begun.elapsed());
            sleep(LOOK_AGAIN);
        }
    }
}

fn without(chips: ChipSet, chip: ChipId) -> ChipSet {
    chips.difference([chip].into_iter().collect())
}

/// A line that is written over, on a terminal.
struct Progress {
    shown: bool,
    second: u64,
}

impl Progress {
    fn new(chips: ChipSet) -> Self {
        let mut progress = Self { shown: io::stderr().is_terminal(), second: u64::MAX };
        progress.show(chips, Duration::ZERO);
        progress
    }

    fn show(&mut self, waiting: ChipSet, since: Duration) {
        if self.shown && since.as_secs() != self.second {
            self.second = since.as_secs();
            let _ = write!(io::stderr(), "\r\u{1b}[Kresetting {}, {} s", waiting.named("chip"), since.as_secs());
        }
    }

    fn clear(&mut self) {
        if self.shown {
            self.second = u64::MAX;
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
