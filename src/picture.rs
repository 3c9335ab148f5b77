//! The chips of a host as NeuronLink connects them, in letters and lines.
//!
//! Pure. At most 80 columns wide for every host; colours only where asked for.

use std::fmt::Write as _;

use crate::chip::{Chip, ChipId, Inventory};
use crate::topology::{Links, is_torus};

/// What stands beside a chip's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Free.
    Free,
    /// Held by the holder of this position in the legend.
    Holder(usize),
    /// Shared by more than one, each with cores of its own.
    Shared,
    /// Held by more than one.
    Conflict,
    /// Not to be had, though nobody holds it.
    Out,
}

/// Are colours wanted?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// ANSI colours.
    Colour,
    /// Letters only.
    Plain,
}

/// Colours that can be told apart on dark and on light ground: green, magenta, cyan, yellow, blue, red.
const COLOURS: [u8; 6] = [32, 35, 36, 33, 34, 31];
/// Chips in a row of a ring or line.
const ACROSS: usize = 8;

/// The letter of a holder: A to Z, then a to z, then again.
#[must_use]
pub fn letter(holder: usize) -> char {
    const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char::from(LETTERS[holder % LETTERS.len()])
}

/// Text in a holder's colour.
#[must_use]
pub fn painted(text: &str, holder: usize, paint: Paint) -> String {
    match paint {
        Paint::Plain => text.to_owned(),
        Paint::Colour => format!("\u{1b}[1;{}m{text}\u{1b}[0m", COLOURS[holder % COLOURS.len()]),
    }
}

/// Draws the chips; each line ends with a newline.
#[must_use]
pub fn draw(inventory: &Inventory, mark: &dyn Fn(ChipId) -> Mark, paint: Paint) -> String {
    let cells: Vec<String> = inventory.chips.iter().map(|chip| cell(chip.id, mark(chip.id), paint)).collect();
    if is_torus(&inventory.chips) {
        return torus(&cells);
    }
    match connection(&inventory.chips) {
        Some(Links::Ring) => ring(&cells),
        Some(Links::Line) => rows(&cells, " ── "),
        _ => rows(&cells, "    "),
    }
}

/// ` 4 A`, four columns.
fn cell(id: ChipId, mark: Mark, paint: Paint) -> String {
    let number = format!("{:>2}", id.index());
    match mark {
        Mark::Free => format!("{number} ·"),
        Mark::Holder(holder) => painted(&format!("{number} {}", letter(holder)), holder, paint),
        Mark::Shared => format!("{number} +"),
        Mark::Conflict => format!("{number} #"),
        Mark::Out => format!("{number} x"),
    }
}

/// Ring or line, where the links of all chips say so.
fn connection(chips: &[Chip]) -> Option<Links> {
    let count = u32::try_from(chips.len()).ok()?;
    [Links::Ring, Links::Line].into_iter().find(|links| {
        count > 1 && chips.iter().all(|chip| chip.linked == Some(links.set(chip.id, count)))
    })
}

/// Four rows and four columns; the dotted ends meet on the other side.
fn torus(cells: &[String]) -> String {
    let mut out = String::new();
    let between = |out: &mut String, line: char| {
        let _ = writeln!(out, "      {line}       {line}       {line}       {line}");
    };
    between(&mut out, '┊');
    for (row, chips) in cells.chunks(4).enumerate() {
        if row > 0 {
            between(&mut out, '│');
        }
        let _ = writeln!(out, "  ┈ {} ┈", chips.join(" ── "));
    }
    between(&mut out, '┊');
    out
}

/// Two rows, the second one backwards; a long ring in rows that go on in the next.
fn ring(cells: &[String]) -> String {
    if cells.len() > 2 * ACROSS {
        return rows(cells, " ── ") + "  the last is connected with the first\n";
    }
    let (there, back) = cells.split_at(cells.len().div_ceil(2));
    let back: Vec<&str> = back.iter().rev().map(String::as_str).collect();
    // An odd ring has one more in its first row.
    let gap = if there.len() > back.len() { "────────" } else { "" };
    format!("  ╭─ {} ─╮\n  ╰─ {} ─{gap}╯\n", there.join(" ── "), back.join(" ── "))
}

fn rows(cells: &[String], link: &str) -> String {
    let count = cells.chunks(ACROSS).len();
    let mut out = String::new();
    for (row, chips) in cells.chunks(ACROSS).enumerate() {
        let (before, after) = (if row > 0 { link.trim_start() } else { "   " }, if row + 1 < count { link.trim_end() } else { "" });
        let _ = writeln!(out, "  {}", format!("{before:<3}{}{after}", chips.join(link)).trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{DeviceNumber, Health};

    fn host(links: Links, count: u32) -> Inventory {
        let chip = |minor| {
            let id = ChipId::new(minor).unwrap();
            Chip {
                id,
                number: DeviceNumber { major: 240, minor },
                cores: None,
                linked: Some(links.set(id, count)),
                architecture: None,
                health: Health::Ready,
                node: None,
            }
        };
        Inventory { chips: (0..count).map(chip).collect(), instance_type: None, driver_version: None }
    }

    fn drawn(links: Links, count: u32) -> String {
        let mark = |id: ChipId| match id.index() {
            0 | 1 => Mark::Holder(0),
            2 => Mark::Out,
            3 => Mark::Conflict,
            _ => Mark::Free,
        };
        "\n".to_owned() + &draw(&host(links, count), &mark, Paint::Plain)
    }

    #[test]
    fn a_torus_is_four_rows_whose_ends_meet() {
        assert_eq!(
            drawn(Links::Torus4x4, 16),
            "
      ┊       ┊       ┊       ┊
  ┈  0 A ──  1 A ──  2 x ──  3 # ┈
      │       │       │       │
  ┈  4 · ──  5 · ──  6 · ──  7 · ┈
      │       │       │       │
  ┈  8 · ──  9 · ── 10 · ── 11 · ┈
      │       │       │       │
  ┈ 12 · ── 13 · ── 14 · ── 15 · ┈
      ┊       ┊       ┊       ┊
"
        );
    }

    #[test]
    fn a_ring_goes_there_and_back() {
        assert_eq!(
            drawn(Links::Ring, 4),
            "
  ╭─  0 A ──  1 A ─╮
  ╰─  3 # ──  2 x ─╯
"
        );
        assert_eq!(
            drawn(Links::Ring, 5),
            "
  ╭─  0 A ──  1 A ──  2 x ─╮
  ╰─  4 · ──  3 # ─────────╯
"
        );
    }

    #[test]
    fn a_line_and_single_chips_are_rows() {
        assert_eq!(drawn(Links::Line, 3), "\n      0 A ──  1 A ──  2 x\n");
        assert_eq!(drawn(Links::None, 1), "\n      0 A\n");
    }

    #[test]
    fn no_host_is_wider_than_80_columns() {
        for links in [Links::Ring, Links::Line, Links::None] {
            for count in 1..=64 {
                for line in drawn(links, count).lines() {
                    assert!(line.chars().count() <= 80, "{line}");
                }
            }
        }
    }

    #[test]
    fn colour_is_only_where_it_was_asked_for() {
        assert_eq!(painted("x", 1, Paint::Plain), "x");
        assert_eq!(painted("x", 1, Paint::Colour), "\u{1b}[1;35mx\u{1b}[0m");
        assert_eq!((letter(0), letter(25), letter(26), letter(52)), ('A', 'Z', 'a', 'A'));
    }
}
