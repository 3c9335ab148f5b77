//! The page of `status --prometheus`: Prometheus' text exposition format 0.0.4.
//!
//! Written by hand: it is a dozen lines of format, and a library's registry would outlive no page. Times are given as such, for what is
//! scraped later has grown older (prometheus.io, "Writing exporters": timestamps, not time since).

use std::fmt::{Display, Write as _};

use super::table::{conflict, holders};
use super::{LeaseReport, Report, State};

/// A page under way.
#[derive(Default)]
struct Page(String);

impl Page {
    /// A gauge, with a sample for each set of labels.
    fn gauge<'a, V: Display>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (Vec<(&'a str, String)>, V)>) {
        let name = format!("neuron_container_{name}");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = Page::default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let host = vec![("instance_type", text(&report.instance_type)), ("driver_version", text(&report.driver_version))];
    page.gauge("host_info", "The host, always 1.", [(host, 1)]);
    let in_state = |state: State| report.chips.iter().filter(move |chip| chip.state == state);
    let by_state = |state: State| vec![("state", state.word().to_owned())];
    page.gauge("chips", "Neuron chips of this host, by state.", State::ALL.map(|state| (by_state(state), in_state(state).count())));
    let cores = |state| in_state(state).filter_map(|chip| chip.cores).sum::<u32>();
    page.gauge(
        "cores",
        "Physical NeuronCores of this host, by the state of their chips.",
        State::ALL.map(|state| (by_state(state), cores(state))),
    );
    let chips = report.chips.iter().map(|chip| {
        let labels = vec![("chip", chip.id.to_string()), ("device", chip.device.clone()), ("state", chip.state.word().to_owned())];
        (labels, 1)
    });
    page.gauge("chip_info", "A chip and its state, always 1.", chips);
    let chips = report.leases.iter().flat_map(|lease| {
        lease.chips.iter().map(|chip| {
            let whose = [("lease", lease.id.clone()), ("container", lease.container.clone()), ("name", lease.called())];
            ([("chip", chip.to_string())].into_iter().chain(whose).collect(), 1)
        })
    });
    page.gauge("chip_lease", "A chip and a container that has it, always 1.", chips);
    let conflicts = report.chips.iter().filter(|chip| conflict(report, &holders(report, chip))).count();
    page.gauge("conflicts", "Chips that more than one container has, against each other.", [(vec![], conflicts)]);
    let leases = || report.leases.iter();
    page.gauge("lease_chips", "Chips of a live lease.", leases().map(|lease| (lease.labels(), lease.chips.len())));
    let cores = leases().map(|lease| (lease.labels(), report.cores_of(lease)));
    page.gauge("lease_cores", "Physical NeuronCores of a live lease.", cores);
    let since = leases().filter_map(|lease| Some((lease.labels(), seconds(&lease.since)?)));
    page.gauge("lease_start_time_seconds", "When a live lease was claimed, Unix time.", since);
    page.gauge("waiters", "Containers that wait for chips.", [(vec![], report.queue.len())]);
    let since = report.queue.iter().enumerate().filter_map(|(place, waiter)| {
        let labels = vec![
            ("place", (place + 1).to_string()),
            ("container", waiter.container.clone()),
            ("name", waiter.called()),
            ("request", waiter.request.clone()),
        ];
        Some((labels, seconds(&waiter.since)?))
    });
    page.gauge("waiter_start_time_seconds", "Since when a container waits for chips, Unix time.", since);
    page.0
}

impl Report {
    /// The cores that a lease has, of those chips that are still there.
    fn cores_of(&self, lease: &LeaseReport) -> u32 {
        let of_chips =
            || self.chips.iter().filter(|chip| lease.chips.iter().any(|id| id.index() == chip.id)).filter_map(|chip| chip.cores).sum();
        lease.cores.map_or_else(of_chips, |cores| cores.len())
    }
}

impl LeaseReport {
    fn labels(&self) -> Vec<(&'static str, String)> {
        vec![
            ("lease", self.id.clone()),
            ("container", self.container.clone()),
            ("name", self.called()),
            ("mode", self.state_of_chips().word().to_owned()),
            ("request", self.request.clone()),
        ]
    }
}

/// The seconds of Unix time of an RFC 3339 time.
fn seconds(since: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(since).ok()?;
    Some(since.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line() {
        assert_eq!(escaped("a\"b\\\n"), r#"a\"b\\\n"#);
    }
}
