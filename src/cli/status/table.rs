//! The table and the picture of `status`, for people.

use std::fmt::Write as _;
use std::time::SystemTime;

use comfy_table::{ContentArrangement, Table, presets};

use super::{ChipReport, LeaseReport, Report, State};
use crate::chip::{ChipId, ChipSet, Health, Inventory};
use crate::cores::CoreRun;
use crate::picture::{Mark, Paint, draw, letter, painted};
use crate::words::count;

/// The widest that names and requests are shown on a terminal, so that a row fits 80 columns.
const LONGEST_NAME: usize = 18;

/// How a page is laid out.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Layout {
    /// With the picture of the chips.
    pub(in crate::cli) topology: bool,
    /// With colours.
    pub(in crate::cli) paint: Paint,
    /// Names and requests cut, so that a line fits a terminal; whole for other readers.
    pub(in crate::cli) cut: bool,
}

/// A stretch of chips that share state and holders.
struct Stretch<'a> {
    chips: ChipSet,
    cores: Option<u32>,
    chip: &'a ChipReport,
    /// Positions of the holders among the leases.
    holders: Vec<usize>,
}

/// The whole page.
pub(in crate::cli) fn page(report: &Report, inventory: &Inventory, layout: Layout) -> String {
    let kind = report.instance_type.as_deref().unwrap_or("this host");
    let driver = report.driver_version.as_deref().map_or_else(String::new, |version| format!(", driver {version}"));
    let chips = u32::try_from(report.registered).unwrap_or(u32::MAX);
    if chips == 0 {
        return format!("{kind}{driver}: no Neuron chips. Is the driver (aws-neuronx-dkms) loaded?\n");
    }
    let mut page = format!("{kind}{driver}: {}, {} free\n\n", count(chips, "Neuron chip"), report.remaining);
    if layout.topology {
        page.push_str(&picture(report, inventory, layout.paint));
        page.push('\n');
    }
    for (line, holder) in table(report, layout) {
        page.push_str(&holder.map_or_else(|| line.clone(), |holder| painted(&line, holder, layout.paint)));
        page.push('\n');
    }
    for (place, waiter) in report.queue.iter().enumerate() {
        let (name, wants, waits) = (waiter.called(), &waiter.request, age(&waiter.since));
        let _ = writeln!(page, "{}waiting, {}: {name} for {wants}, {waits}", if place == 0 { "\n" } else { "" }, place + 1);
    }
    for chip in &report.chips {
        if let Some(fault) = &chip.fault {
            let _ = writeln!(page, "\nchip {} is {}", chip.id, crate::words::one_line(fault));
        }
    }
    for lease in &report.leases {
        let gone = lease.chips.difference(inventory.ids());
        if !gone.is_empty() {
            let (which, name) = (gone.named("chip"), lease.called());
            let _ = writeln!(page, "\n{which} of {name} is gone from this host: was the driver unloaded? Its other chips stay held");
        }
    }
    let shown = |chip: &ChipReport| holders(report, chip);
    if layout.topology && report.chips.iter().any(|chip| shown(chip).len() > 1 && !conflict(report, &shown(chip))) {
        page.push_str("\n+ shared: each container has cores of its own\n");
    }
    if report.chips.iter().any(|chip| conflict(report, &shown(chip))) {
        page.push_str("\n# a conflict: more than one container has this chip\n");
    }
    if inventory.chips.iter().any(|chip| matches!(chip.health, Health::Unknown(_))) {
        page.push_str("\nWhether the chips are ready could not be read; only root can.\n");
    }
    page
}

/// The chips as they are linked, each with its holder's letter.
pub(in crate::cli) fn picture(report: &Report, inventory: &Inventory, paint: Paint) -> String {
    let mark = |id: ChipId| match report.chips.iter().find(|chip| chip.id == id.index()) {
        Some(chip) if chip.state == State::Free => Mark::Free,
        Some(chip) => match holders(report, chip).as_slice() {
            [] => Mark::Out,
            [holder] => Mark::Holder(*holder),
            several if conflict(report, several) => Mark::Conflict,
            _ => Mark::Shared,
        },
        None => Mark::Out,
    };
    draw(inventory, &mark, paint)
}

/// Which leases a chip is in, by position.
pub(super) fn holders(report: &Report, chip: &ChipReport) -> Vec<usize> {
    let Some(id) = ChipId::new(chip.id) else { return Vec::new() };
    report.leases.iter().enumerate().filter(|(_, lease)| lease.chips.contains(id)).map(|(position, _)| position).collect()
}

/// Do these leases contradict each other?
pub(super) fn conflict(report: &Report, holders: &[usize]) -> bool {
    holders.len() > 1 && !holders.iter().all(|holder| report.leases.get(*holder).is_some_and(LeaseReport::is_shared))
}

fn stretches(report: &Report) -> Vec<Stretch<'_>> {
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for chip in &report.chips {
        let Some(id) = ChipId::new(chip.id) else { continue };
        let holders = holders(report, chip);
        match stretches.last_mut() {
            Some(last) if last.chip.state == chip.state && last.holders == holders && last.chip.fault == chip.fault => {
                last.chips.insert(id);
                last.cores = last.cores.zip(chip.cores).map(|(sum, cores)| sum + cores);
            }
            _ => stretches.push(Stretch { chips: [id].into_iter().collect(), cores: chip.cores, chip, holders }),
        }
    }
    stretches
}

/// The header and a line for each stretch of chips and each of its holders, with the holder.
fn table(report: &Report, layout: Layout) -> Vec<(String, Option<usize>)> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    // Letters are those of the picture.
    let first = usize::from(!layout.topology);
    table.set_header(["", "CHIPS", "CORES", "STATE", "CONTAINER", "AGE", "REQUEST"].into_iter().skip(first));
    let mut painted_as = vec![None];
    for stretch in &stretches(report) {
        let (chips, state) = (stretch.chips.to_string(), stretch.chip.state);
        let number = |cores: Option<u32>| cores.map_or_else(|| "?".to_owned(), |cores| cores.to_string());
        let leases: Vec<_> = stretch.holders.iter().filter_map(|holder| Some((*holder, report.leases.get(*holder)?))).collect();
        for (holder, lease) in &leases {
            let state = match state {
                // Of a conflict each holder's own way.
                State::Held | State::Shared | State::Adopted => lease.state_of_chips(),
                wrong => wrong,
            };
            let state = if conflict(report, &stretch.holders) { format!("{} #", state.word()) } else { state.word().to_owned() };
            let cores = match stretch.part(lease) {
                Some(run) => format!("{} ({run})", run.len()),
                None => number(stretch.cores),
            };
            let short = |text: &str| if layout.cut { short(text) } else { text.to_owned() };
            let (name, request) = (short(&lease.called()), short(&lease.request));
            let cells = [letter(*holder).to_string(), chips.clone(), cores, state, name, age(&lease.since), request];
            table.add_row(cells.into_iter().skip(first));
            painted_as.push(Some(*holder));
        }
        let given: u32 = leases.iter().filter_map(|(_, lease)| Some(stretch.part(lease)?.len())).sum();
        let (rest, word) = match state {
            State::Shared => (stretch.cores.map(|all| all.saturating_sub(given)).filter(|rest| *rest > 0), "shared, free"),
            _ => (stretch.cores, state.word()),
        };
        if leases.is_empty() || state == State::Shared && rest.is_some() {
            table.add_row(["", &chips, &number(rest), word].into_iter().skip(first));
            painted_as.push(None);
        }
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table.lines().map(|line| line.trim_end().to_owned()).zip(painted_as).collect()
}

impl Stretch<'_> {
    /// The cores that a lease has of these chips, where it shares them.
    fn part(&self, lease: &LeaseReport) -> Option<CoreRun> {
        let (cores, of_chip) = (lease.cores?, self.chip.cores?);
        let first = self.chips.first()?.index() * of_chip;
        let from = cores.first().max(first);
        let to = (cores.first() + cores.len()).min(first + self.chips.len() * of_chip);
        CoreRun::new(from, to.checked_sub(from)?)
    }
}

/// Cut to what a column may take.
fn short(text: &str) -> String {
    if text.chars().count() <= LONGEST_NAME {
        return text.to_owned();
    }
    text.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

/// How long ago: `12s`, `5m`, `3h`, `4d`.
fn age(since: &str) -> String {
    let seconds = humantime::parse_rfc3339(since).ok().and_then(|since| Some(SystemTime::now().duration_since(since).ok()?.as_secs()));
    match seconds {
        None => "?".to_owned(),
        Some(seconds @ 0..60) => format!("{seconds}s"),
        Some(seconds @ 60..3600) => format!("{}m", seconds / 60),
        Some(seconds @ 3600..172_800) => format!("{}h", seconds / 3600),
        Some(seconds) => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ago = |seconds| {
            let then = SystemTime::now() - std::time::Duration::from_secs(seconds);
            age(&humantime::format_rfc3339_seconds(then).to_string())
        };
        // Five seconds of room for a slow machine, and none where a unit changes.
        assert_eq!((ago(65), ago(7300), ago(200_000)), ("1m".to_owned(), "2h".to_owned(), "2d".to_owned()));
        assert!(ago(3).ends_with('s'));
        assert_eq!(age("soon"), "?");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("train-1"), "train-1");
        assert_eq!(short(&"x".repeat(40)).chars().count(), LONGEST_NAME);
    }
}
