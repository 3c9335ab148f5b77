//! What a container asks for: annotations and environment to a [`Request`].
//!
//! Pure. One grammar in both places; only the bare form differs, as each ecosystem is used to it: a count in the annotation
//! (Kubernetes' `aws.amazon.com/neuron: 2`), ids in the environment (AWS's `AWS_NEURON_VISIBLE_DEVICES=0,1`).

mod invalid;

use std::fmt;
use std::time::Duration;

use crate::chip::{ChipId, ChipSet};
use crate::peek::Peek;
use crate::words::{count, quoted};
pub use invalid::{Fault, Invalid};

/// AWS's name of the variable that asks for chips, and tells a container which it has.
pub const VISIBLE_DEVICES: &str = "AWS_NEURON_VISIBLE_DEVICES";

/// The variable that asks for cores.
pub const CORES: &str = "AWS_NEURON_CORES";

/// The variable that says how long to wait for them.
pub const WAIT: &str = "AWS_NEURON_WAIT";

/// The annotation that does; no container can be asked for by this name.
const WAIT_ANNOTATION: &str = "aws.amazon.com/neuron.wait";

/// The prefix of AWS's annotations.
const PREFIX: &str = "aws.amazon.com/";

/// What can be asked for: chips, chips by an older name, cores.
const RESOURCES: [&str; 3] = ["neuron", "neurondevice", "neuroncore"];

/// Which chips are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Every chip of the host but the reserved ones.
    All,
    /// Any so many free chips, at least one.
    Any(u32),
    /// Exactly these.
    Ids(ChipSet),
    /// So many consecutive logical cores, at least one, on chips that may be shared.
    Cores(u32),
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Any(number) => write!(f, "any:{number}"),
            Self::Ids(ids) => write!(f, "id:{ids}"),
            Self::Cores(number) => write!(f, "cores:{number}"),
        }
    }
}

/// Where a request was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the annotation of this key.
    Annotation(String),
    /// In this variable.
    Environment(&'static str),
    /// In the device nodes of the spec (`--device /dev/neuron3`).
    Devices,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => f.write_str(key),
            Self::Environment(name) => f.write_str(name),
            Self::Devices => f.write_str("device nodes of the spec"),
        }
    }
}

/// What one container asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which chips.
    pub want: Want,
    /// Where that was said.
    pub origin: Origin,
    /// How long it may wait for that.
    pub wait: Duration,
}

/// What a bare number or list means.
#[derive(Debug, Clone, Copy)]
enum Bare {
    Count,
    Ids,
}

/// The request in the annotations or, where `accept_env` allows it, in the environment.
///
/// # Errors
/// [`Invalid`], with what was found and what is allowed.
pub fn read(spec: &Peek, accept_env: bool) -> Result<Option<Request>, Invalid> {
    let kubernetes = Kubernetes::of(spec);
    if matches!(kubernetes, Some(Kubernetes { sandbox: true, .. })) {
        return Ok(None);
    }
    if let Some((key, resource, value)) = annotation(spec, kubernetes.as_ref())? {
        let want = if resource == "neuroncore" { parse_cores(value) } else { parse(value, Bare::Count) }.map_err(|fault| invalid(key, value, fault))?;
        let Some(want) = want else { return Ok(None) };
        return Ok(Some(Request { want, origin: Origin::Annotation(key.to_owned()), wait: wait(spec, kubernetes.is_none() && accept_env)? }));
    }
    if kubernetes.is_some() || !accept_env {
        return Ok(None);
    }
    let ask = |name, parse: &dyn Fn(&str) -> Result<Option<Want>, Fault>| {
        let Some(value) = spec.env(name) else { return Ok(None) };
        let want = parse(value).map_err(|fault| invalid(name, value, fault))?;
        let Some(want) = want else { return Ok(None) };
        Ok(Some(Request { want, origin: Origin::Environment(name), wait: wait(spec, true)? }))
    };
    match (ask(VISIBLE_DEVICES, &|value| parse(value, Bare::Ids))?, ask(CORES, &parse_cores)?) {
        (Some(_), Some(_)) => Err(Invalid::TwoVariables),
        (chips, cores) => Ok(chips.or(cores)),
    }
}

/// How long the container may wait; the annotation wins.
fn wait(spec: &Peek, accept_env: bool) -> Result<Duration, Invalid> {
    let env = || spec.env(WAIT).filter(|_| accept_env).map(|value| (WAIT, value));
    let Some((key, value)) = spec.annotation(WAIT_ANNOTATION).map(|value| (WAIT_ANNOTATION, value)).or_else(env) else {
        return Ok(Duration::ZERO);
    };
    match value.trim() {
        "" | "0" => Ok(Duration::ZERO),
        span => humantime::parse_duration(span).map_err(|_| Invalid::Wait { key, value: value.to_owned() }),
    }
}

fn invalid(key: &str, value: &str, fault: Fault) -> Invalid {
    Invalid::Value { key: key.to_owned(), value: value.to_owned(), fault }
}

/// What looks like a request and is none, for who wonders why no chips are given.
#[must_use]
pub fn ignored(spec: &Peek, accept_env: bool) -> Vec<String> {
    let kubernetes = Kubernetes::of(spec);
    let mut notes = Vec::new();
    for (key, _) in spec.annotations() {
        let Some(resource) = key.strip_prefix(PREFIX).filter(|resource| resource.starts_with("neuro")) else { continue };
        if key == WAIT_ANNOTATION {
            continue;
        }
        let key = quoted(key);
        match resource.split_once('.') {
            Some((resource, _)) if RESOURCES.contains(&resource) => {
                if kubernetes.is_none() {
                    notes.push(format!("the annotation {key} is not heeded: only Kubernetes has names of containers"));
                }
            }
            _ if RESOURCES.contains(&resource) => {}
            _ => notes.push(format!("the annotation {key} is not known: did you mean {PREFIX}neuron?")),
        }
    }
    let why = match kubernetes {
        Some(Kubernetes { sandbox: true, .. }) => Some("a pod's sandbox asks for nothing"),
        Some(_) => Some("in Kubernetes only annotations ask"),
        None if !accept_env => Some("accept-env = false in the settings"),
        None if annotation(spec, None).is_ok_and(|found| found.is_some()) => Some("the annotation wins"),
        None => None,
    };
    let asking = [VISIBLE_DEVICES, CORES].into_iter().filter(|name| spec.env(name).is_some());
    notes.extend(asking.filter_map(|name| Some(format!("{name} is not heeded: {}", why?))));
    notes
}

/// What a Kubernetes engine says of the container.
struct Kubernetes<'a> {
    sandbox: bool,
    name: Option<&'a str>,
}

impl<'a> Kubernetes<'a> {
    fn of(spec: &'a Peek) -> Option<Self> {
        let kind = spec.annotation("io.kubernetes.cri.container-type").or_else(|| spec.annotation("io.kubernetes.cri-o.ContainerType"))?;
        // containerd's key, then the kubelet's label, which CRI-O copies into the annotations.
        let name = spec.annotation("io.kubernetes.cri.container-name").or_else(|| spec.annotation("io.kubernetes.container.name"));
        Some(Self { sandbox: kind == "sandbox", name })
    }
}

/// The one annotation that asks for this container: key, resource, value.
fn annotation<'a>(spec: &'a Peek, kubernetes: Option<&Kubernetes<'_>>) -> Result<Option<(&'a str, &'a str, &'a str)>, Invalid> {
    let asking = || {
        spec.annotations().filter_map(|(key, value)| {
            let resource = key.strip_prefix(PREFIX)?;
            let (resource, name) = match resource.split_once('.') {
                Some((resource, name)) => (resource, Some(name)),
                None => (resource, None),
            };
            (RESOURCES.contains(&resource) && key != WAIT_ANNOTATION).then_some((key, resource, name, value))
        })
    };
    // Pod annotations reach every container of the pod: one key by name, and the bare key counts for nobody.
    let named = asking().find(|(_, _, name, _)| name.is_some()).filter(|_| kubernetes.is_some());
    let wanted = match (named, kubernetes.and_then(|kubernetes| kubernetes.name)) {
        (Some((key, ..)), None) => return Err(Invalid::Nameless(key.to_owned())),
        (Some(_), name) => name,
        (None, _) => None,
    };
    let mut found = asking().filter(|(_, _, name, _)| *name == wanted);
    let Some((key, resource, _, value)) = found.next() else { return Ok(None) };
    if let Some((other, ..)) = found.next() {
        let (first, second) = if key < other { (key, other) } else { (other, key) };
        return Err(Invalid::TwoKeys(first.to_owned(), second.to_owned()));
    }
    Ok(Some((key, resource, value)))
}

/// Reads a value; `None` is the wish for no chips.
fn parse(value: &str, bare: Bare) -> Result<Option<Want>, Fault> {
    let value = value.trim_matches(' ');
    if value.is_empty() || value.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    if value.eq_ignore_ascii_case("all") {
        return Ok(Some(Want::All));
    }
    if let Some(number) = value.strip_prefix("any:") {
        return parse_count(number).map(Some);
    }
    if let Some(list) = value.strip_prefix("id:") {
        return Ok(Some(Want::Ids(parse_ids(list)?)));
    }
    match bare {
        Bare::Ids => parse_ids(value).map(Want::Ids),
        Bare::Count if value.contains([',', '-']) && parse_ids(value).is_ok() => Err(Fault::BareList),
        Bare::Count => parse_count(value),
    }
    .map(Some)
}

/// Reads a number of cores; it has no other form.
fn parse_cores(value: &str) -> Result<Option<Want>, Fault> {
    let value = value.trim_matches(' ');
    if value.is_empty() || value.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    match parse_number(value)? {
        0 => Err(Fault::ZeroCores),
        number => Ok(Some(Want::Cores(number))),
    }
}

fn parse_count(text: &str) -> Result<Want, Fault> {
    match parse_number(text)? {
        0 => Err(Fault::Zero),
        number => Ok(Want::Any(number)),
    }
}

/// Reads a list of ids, `0,2-4`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_ids(list: &str) -> Result<ChipSet, Fault> {
    let mut ids = ChipSet::EMPTY;
    for item in list.split(',') {
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (parse_number(first)?, parse_number(last)?),
            None => (parse_number(item)?, parse_number(item)?),
        };
        if last < first {
            return Err(Fault::Backwards(first, last));
        }
        for index in first..=last {
            let id = ChipId::new(index).ok_or(Fault::Beyond(index))?;
            if !ids.insert(id) {
                return Err(Fault::Repeated(id));
            }
        }
    }
    Ok(ids)
}

/// A plain decimal number: no sign, no leading zero; spaces around it are allowed.
fn parse_number(text: &str) -> Result<u32, Fault> {
    let digits = text.trim_matches(' ');
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain).ok_or(Fault::Junk)
}

/// The request as people would say it.
#[must_use]
pub fn in_words(want: Want, total: u32) -> String {
    match want {
        Want::All => format!("all {}", count(total, "Neuron chip")),
        Want::Any(number) => count(number, "Neuron chip"),
        Want::Ids(ids) => ids.named("Neuron chip"),
        Want::Cores(number) => count(number, "NeuronCore"),
    }
}

#[cfg(test)]
mod tests;
