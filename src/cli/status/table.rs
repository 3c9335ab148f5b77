//! The table and the picture of `status`, for people.

use std::fmt::Write as _;
use std::time::SystemTime;

use comfy_table::{ContentArrangement, Table, presets};

use super::{ChipReport, Report, State};
use crate::chip::{ChipId, ChipSet, Inventory};
use crate::picture::{Mark, Paint, draw, letter, painted};
use crate::words::{count, short_container};

/// The widest that names and requests are shown, so that a row fits 80 columns.
const LONGEST_NAME: usize = 22;

/// A stretch of chips that share state and holders.
struct Row<'a> {
    chips: ChipSet,
    cores: Option<u32>,
    chip: &'a ChipReport,
    /// Positions of the holders among the leases.
    holders: Vec<usize>,
}

/// The whole page.
pub(in crate::cli) fn page(report: &Report, inventory: &Inventory, topology: bool, paint: Paint) -> String {
    let kind = report.instance_type.as_deref().unwrap_or("this host");
    let driver = report.driver_version.as_deref().map_or_else(String::new, |version| format!(", driver {version}"));
    let chips = u32::try_from(report.registered).unwrap_or(u32::MAX);
    if chips == 0 {
        return format!("{kind}{driver}: no Neuron chips. Is the driver (aws-neuronx-dkms) loaded?\n");
    }
    let mut page = format!("{kind}{driver}: {}, {} free\n\n", count(chips, "Neuron chip"), report.remaining);
    if topology {
        page.push_str(&picture(report, inventory, paint));
        page.push('\n');
    }
    let rows = rows(report);
    for (line, row) in lines(report, &rows, topology).iter().zip(std::iter::once(None).chain(rows.iter().map(Some))) {
        let holder = row.and_then(|row| row.holders.first());
        page.push_str(&holder.map_or_else(|| line.clone(), |holder| painted(line, *holder, paint)));
        page.push('\n');
    }
    for chip in &report.chips {
        if let Some(fault) = &chip.fault {
            let _ = writeln!(page, "\nchip {} is {}", chip.id, crate::words::one_line(fault));
        }
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
            _ => Mark::Conflict,
        },
        None => Mark::Out,
    };
    draw(inventory, &mark, paint)
}

/// Which leases a chip is in, by position.
fn holders(report: &Report, chip: &ChipReport) -> Vec<usize> {
    let Some(id) = ChipId::new(chip.id) else { return Vec::new() };
    report.leases.iter().enumerate().filter(|(_, lease)| lease.chips.contains(id)).map(|(position, _)| position).collect()
}

fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for chip in &report.chips {
        let Some(id) = ChipId::new(chip.id) else { continue };
        let holders = holders(report, chip);
        match rows.last_mut() {
            Some(row) if row.chip.state == chip.state && row.holders == holders && row.chip.fault == chip.fault => {
                row.chips.insert(id);
                row.cores = row.cores.zip(chip.cores).map(|(sum, cores)| sum + cores);
            }
            _ => rows.push(Row { chips: [id].into_iter().collect(), cores: chip.cores, chip, holders }),
        }
    }
    rows
}

/// The header and a line for each row.
fn lines(report: &Report, rows: &[Row<'_>], letters: bool) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let all = ["", "CHIPS", "CORES", "STATE", "CONTAINER", "AGE", "REQUEST"];
    let shown = if letters { &all[..] } else { &all[1..] };
    table.set_header(shown.iter().copied());
    for row in rows {
        let leases: Vec<_> = row.holders.iter().filter_map(|position| report.leases.get(*position)).collect();
        let joined =
            |part: &dyn Fn(&super::LeaseReport) -> String| short(&leases.iter().map(|lease| part(lease)).collect::<Vec<_>>().join(" and "));
        let letter = match row.holders.as_slice() {
            [holder] => letter(*holder).to_string(),
            [] => String::new(),
            // More than one holder is a conflict, and each is named.
            _ => "#".to_owned(),
        };
        let conflict = if leases.len() > 1 { ", conflict" } else { "" };
        let cells = [
            letter,
            row.chips.to_string(),
            row.cores.map_or_else(|| "?".to_owned(), |cores| cores.to_string()),
            format!("{}{conflict}", row.chip.state.word()),
            joined(&|lease| short_container(&lease.container)),
            joined(&|lease| age(&lease.since)),
            joined(&|lease| lease.request.clone()),
        ];
        table.add_row(if letters { &cells[..] } else { &cells[1..] });
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table.lines().map(|line| line.trim_end().to_owned()).collect()
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
