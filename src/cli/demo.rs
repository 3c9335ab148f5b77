//! `demo`: the whole story in half a minute, on a host that is not there.
//!
//! Everything is real but the chips: the wrapper and the hook are this executable, the low-level runtime is `runc` where it is installed
//! and the caller is root. Else a stand-in takes its place, and says so. All of it lives in a folder of its own that is removed at the
//! end, after Ctrl-C too.

mod stage;
pub(super) mod standin;

use std::io::Write;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};

use super::status::{self, Report, table};
use crate::picture::{Paint, letter, painted};
use crate::words::count;
use stage::{Asks, Stage};

pub(super) use stage::inside;

/// Tell the whole story on a simulated host
#[derive(Debug, Args)]
#[command(
    after_help = "Example: neuron-ctk demo inf2.48xlarge\n\nAs root with runc installed the containers are real; nothing is left behind."
)]
pub(super) struct Demo {
    /// An EC2 instance type
    #[arg(value_name = "TYPE", default_value = "trn1.32xlarge")]
    kind: String,
    /// Do not wait between the steps
    #[arg(long)]
    fast: bool,
}

impl Demo {
    /// Plays the story.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let row = super::simulate::row_of(&self.kind)?;
        let interrupted = on_interrupt()?;
        let stage = Stage::new(&row)?;
        let pause = Duration::from_secs(if self.fast { 0 } else { 3 });
        let mut story = Story { stage, out, paint: status::paint(), pause, interrupted };
        story.play(row.chips)
    }
}

/// Ctrl-C and the like as a message, so that the stage is cleared whichever way the story ends.
fn on_interrupt() -> Result<Receiver<Signal>> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    // Children start with an empty mask again (std does that), so they end by these signals as ever.
    signals.thread_block().context("signals cannot be waited for")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // Nobody listens any more when the story is over.
            let _ = sender.send(signal);
        }
    });
    Ok(receiver)
}

struct Story<'a> {
    stage: Stage,
    out: &'a mut dyn Write,
    paint: Paint,
    pause: Duration,
    interrupted: Receiver<Signal>,
}

impl Story<'_> {
    fn play(&mut self, chips: u32) -> Result<()> {
        let first = (chips / 8).max(1);
        let second = (chips / 2).max(1);
        self.tell(&format!("A host that is not there: {}", self.stage.describe()))?;
        self.show()?;

        self.starts("web", first)?;
        let largest = if chips > 1 {
            self.starts("train", second)?;
            ("train", second)
        } else {
            ("web", first)
        };
        self.is_refused("big", chips)?;

        self.tell(&format!("{} is killed with -9. Nobody releases anything; its chips are free for the next one that asks", largest.0))?;
        self.stage.kill(largest.0)?;
        self.show()?;
        self.starts("next", largest.1)?;
        self.adopted("legacy")?;

        self.tell("That is all. The containers end, and the folder of this host is removed")
    }

    /// A container asks and gets.
    fn starts(&mut self, name: &str, number: u32) -> Result<()> {
        self.tell(&format!("Container {name} asks for {}: aws.amazon.com/neuron={number}", count(number, "chip")))?;
        match self.stage.start(name, &Asks::Chips(number))? {
            Ok(inside) => self.quote(&format!("inside {name}"), &inside)?,
            Err(refusal) => bail!("{name} was refused: {refusal}"),
        }
        self.show()
    }

    /// A container asks for more than is free, and reads why it does not start.
    fn is_refused(&mut self, name: &str, number: u32) -> Result<()> {
        self.tell(&format!("Container {name} asks for {}, more than are free", count(number, "chip")))?;
        match self.stage.start(name, &Asks::Chips(number))? {
            Ok(_) => bail!("{name} was not refused"),
            Err(refusal) => self.quote("what the engine shows", &refusal)?,
        }
        self.rest()
    }

    /// A container that was given a chip by hand.
    fn adopted(&mut self, name: &str) -> Result<()> {
        let (report, _) = self.report()?;
        let Some(chip) = report.first_free() else {
            return self.tell("No chip is left for a container that names one by hand (--device): it would be recorded too");
        };
        self.tell(&format!(
            "Container {name} names a chip by hand, as people always did: --device /dev/neuron{chip}. It is adopted: nobody else gets it"
        ))?;
        if let Err(refusal) = self.stage.start(name, &Asks::Device(chip))? {
            bail!("{name} was refused: {refusal}");
        }
        self.show()
    }

    fn report(&self) -> Result<(Report, crate::chip::Inventory)> {
        Report::new(self.stage.host(), self.stage.settings())
    }

    /// The chips, each with its holder's letter and colour.
    fn show(&mut self) -> Result<()> {
        let (report, inventory) = self.report()?;
        writeln!(self.out, "\n{}", table::picture(&report, &inventory, self.paint))?;
        let mut legend = vec![format!("  {} free", report.free())];
        for (position, lease) in report.leases().iter().enumerate() {
            let how = if lease.is_adopted() { " (adopted)" } else { "" };
            let entry = format!("{} {} {}{how}", letter(position), lease.called(), lease.chips());
            legend.push(painted(&entry, position, self.paint));
        }
        writeln!(self.out, "{}", legend.join("   "))?;
        self.rest()
    }

    fn tell(&mut self, text: &str) -> Result<()> {
        let text = wrapped(text);
        match self.paint {
            Paint::Colour => writeln!(self.out, "\n\u{1b}[1m{text}\u{1b}[0m")?,
            Paint::Plain => writeln!(self.out, "\n{text}")?,
        }
        Ok(self.out.flush()?)
    }

    fn quote(&mut self, title: &str, text: &str) -> Result<()> {
        for line in wrapped(&format!("{title}: {text}")).lines() {
            writeln!(self.out, "  {line}")?;
        }
        Ok(self.out.flush()?)
    }

    /// Waits, so that people can read; ends the story where somebody has seen enough.
    fn rest(&mut self) -> Result<()> {
        self.out.flush()?;
        let signal = self.interrupted.recv_timeout(self.pause);
        ensure!(matches!(signal, Err(RecvTimeoutError::Timeout)), "interrupted; nothing is left behind");
        Ok(())
    }
}

/// Broken between words so that it fits 80 columns with what stands before it.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 74;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(wrapped("a b"), "a b");
        let long = wrapped(&"word ".repeat(40));
        assert!(long.lines().count() > 2 && long.lines().all(|line| line.len() <= 74));
    }
}
