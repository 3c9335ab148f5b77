//! How often is a container refused though enough chips are free? The program's choice of chips against others, over random streams of
//! containers that come and go.
//!
//! `placement [TYPE…] [LOAD…]` prints docs/placement.md's table, of these instance types and loads only; `placement tried` its table of rules.
//! Each policy sees the same containers at the same times; who is refused goes away. Without TYPE the optimum of 16 chips in a ring is left
//! out: it takes a minute for each load.

mod optimum;
mod play;
mod policies;
mod stream;

use std::error::Error;
use std::io::{Write, stdout};

use neuron_container_runtime::topology::{InstanceType, Links, instance_type, instance_types};

use optimum::Optimum;
use play::{Count, play};
use policies::{TRIED, first_fit, ours};
use stream::{Mix, Stream, lnc};

const VISITS: u32 = 20_000;
const SEED: u64 = 1;
const LOADS: [f64; 4] = [0.5, 0.7, 0.9, 1.0];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["tried"] {
        return tried();
    }
    let mut loads: Vec<f64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let named: Vec<&String> = args.iter().filter(|arg| arg.parse::<f64>().is_err()).collect();
    if loads.is_empty() {
        loads = LOADS.to_vec();
    }
    let kinds = if named.is_empty() {
        instance_types()
    } else {
        named.iter().map(|name| instance_type(name).ok_or(format!("{name} is no instance type"))).collect::<Result<_, _>>()?
    };
    let heads: Vec<_> = loads.iter().map(|load| format!("{:.0} %", load * 100.0)).collect();
    writeln!(stdout(), "| type | asks | {} |\n|---|---{}|", heads.join(" | "), "|---".repeat(loads.len()))?;
    for (names, kind, mix) in rows(&kinds) {
        write!(stdout(), "| {} | {} |", names.join(", "), mix.name())?;
        for load in &loads {
            let stream = Stream { kind: &kind, mix, load: *load, visits: VISITS, seed: SEED };
            write!(stdout(), " {} |", cell(&stream, !named.is_empty()))?;
            stdout().flush()?;
        }
        writeln!(stdout())?;
    }
    Ok(())
}

/// Instance types by what makes a difference to a mix, and the mix. With one chip only cores can be apart.
fn rows(kinds: &[InstanceType]) -> Vec<(Vec<String>, InstanceType, Mix)> {
    let mut rows: Vec<(Vec<String>, InstanceType, Mix)> = Vec::new();
    for kind in kinds {
        for mix in Mix::ALL.into_iter().filter(|mix| kind.chips > 1 || *mix == Mix::Cores) {
            let same = |row: &InstanceType| {
                let cores = (row.cores, lnc(row)) == (kind.cores, lnc(kind));
                (row.chips, row.links) == (kind.chips, kind.links) && (cores || mix != Mix::Cores)
            };
            match rows.iter_mut().find(|(_, row, of)| *of == mix && same(row)) {
                Some((names, ..)) => names.push(kind.name.clone()),
                None => rows.push((vec![kind.name.clone()], kind.clone(), mix)),
            }
        }
    }
    rows
}

/// Refusals though enough was free: ours / first fit / optimum, where that is known.
fn cell(stream: &Stream<'_>, patient: bool) -> String {
    let visits = stream.visits();
    let refused = |count: Count| count.apart.to_string();
    let mut cells = vec![refused(play(stream.kind, &visits, &ours)), refused(play(stream.kind, &visits, &first_fit))];
    if stream.mix != Mix::Cores && (patient || stream.kind.chips < 16 || stream.kind.links == Links::Torus4x4) {
        let optimum = Optimum::new(stream);
        cells.push(refused(play(stream.kind, &visits, &|room, ask| optimum.place(room, ask))));
    }
    cells.join(" / ")
}

/// Each rule's refusals in parts of first fit's, over all loads.
fn tried() -> Result<(), Box<dyn Error>> {
    let rows: Vec<_> = rows(&instance_types()).into_iter().filter(|(_, kind, _)| kind.chips > 1).collect();
    let heads: Vec<_> = rows.iter().map(|(names, _, mix)| format!("{} {}", names[0], mix.name())).collect();
    writeln!(stdout(), "| rule | {} |\n|---{}|", heads.join(" | "), "|---".repeat(heads.len()))?;
    let streams = |(_, kind, mix): &(_, InstanceType, Mix)| {
        LOADS.map(|load| Stream { kind, mix: *mix, load, visits: VISITS / 2, seed: SEED }.visits()).map(|visits| (kind.clone(), visits))
    };
    let played: Vec<_> = rows.iter().map(streams).collect();
    let first: Vec<u32> = played.iter().map(|row| row.iter().map(|(kind, visits)| play(kind, visits, &first_fit).apart).sum()).collect();
    for rule in TRIED {
        write!(stdout(), "| {} |", rule.name)?;
        for (row, first) in played.iter().zip(&first) {
            let sum: u32 = row.iter().map(|(kind, visits)| play(kind, visits, &|room, ask| rule.place(room, ask)).apart).sum();
            write!(stdout(), " {:.0} % |", 100.0 * f64::from(sum) / f64::from(*first))?;
            stdout().flush()?;
        }
        writeln!(stdout())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
