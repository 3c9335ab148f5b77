//! What a container asks for: annotations and environment to a [`Request`].
//!
//! Pure. One grammar in both places; only the bare form differs, as each ecosystem is used to it: a count in the annotation
//! (Kubernetes' `aws.amazon.com/neuron: 2`), ids in the environment (AWS's `AWS_NEURON_VISIBLE_DEVICES=0,1`).

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::chip::{ChipId, ChipSet};
use crate::peek::Peek;
use crate::words::{count, quoted};

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

/// A request that cannot be understood, or not be served on any host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Invalid {
    /// The value of an annotation or variable is not in the grammar.
    #[error("{key}={}: {fault}; allowed are {}", quoted(value), allowed(.key))]
    Value {
        /// The annotation's key, or the variable's name.
        key: String,
        /// What it holds.
        value: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// Two annotations ask, perhaps for different things.
    #[error("the annotations {0} and {1} are both set: remove one of them")]
    TwoKeys(String, String),
    /// How long to wait is not understood.
    #[error("{key}={}: is no time span; allowed are spans such as 30s or 1m, 0 for none", quoted(value))]
    Wait {
        /// The annotation's key, or the variable's name.
        key: &'static str,
        /// What it holds.
        value: String,
    },
    /// Two variables ask.
    #[error("the variables AWS_NEURON_VISIBLE_DEVICES and AWS_NEURON_CORES are both set: remove one of them")]
    TwoVariables,
    /// Keys by container name are there, but the engine does not say which container this is.
    #[error(
        "the annotation {0} asks for a container by name, but the engine does not tell this container's name: update it, or use aws.amazon.com/neuron"
    )]
    Nameless(String),
    /// Device nodes by hand and a request.
    #[error("chips are asked for twice, by {0} and by device nodes in the spec ({1}): use one way only")]
    Twice(Origin, String),
    /// A mount hides the nodes that would be made.
    #[error("a mount at {} would hide the granted device nodes behind the host's own: remove it, they come into the container without one", quoted(.0))]
    Mount(String),
    /// The container names cores that it will not have.
    #[error(
        "NEURON_RT_VISIBLE_CORES={}: the container will have the cores {cores}, numbered from its first chip; name these, or leave the variable out",
        quoted(value)
    )]
    VisibleCores {
        /// What the variable holds.
        value: String,
        /// The cores that it may name, such as `0-3`.
        cores: String,
    },
    /// The size of a logical core is none that exists.
    #[error("{origin}={}: a logical core has 1 or 2 physical ones; set it to 1 or 2", quoted(value))]
    LogicalCores {
        /// The variable or file that says so.
        origin: String,
        /// What it holds.
        value: String,
    },
    /// A chip whose cores nobody tells.
    #[error(
        "how many cores chip {0} has is not known: sysfs core_count is unreadable and this instance type has no row in the table; run as root, or update the driver"
    )]
    UnknownCores(ChipId),
    /// A node that the container's user could not open.
    #[error(
        "{path} is open to its owner only (mode {mode:04o}) and {why}: give it mode 0666 by a udev rule, or start the container without that"
    )]
    ClosedNode {
        /// The node on the host.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// Why the tool cannot make it usable.
        why: &'static str,
    },
    /// A restored container would find chips whose state is gone.
    #[error("a container with Neuron chips cannot be restored ({0}): a chip's state is not in a checkpoint; start it anew")]
    Restore(Origin),
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// `0` or `any:0`.
    #[error("asks for no chip")]
    Zero,
    /// `0` of cores.
    #[error("asks for no core")]
    ZeroCores,
    /// A list where a count belongs.
    #[error("a list of chips is written id:LIST here")]
    BareList,
    /// An id that is named twice.
    #[error("names chip {0} twice")]
    Repeated(ChipId),
    /// An id that no host has.
    #[error("no host has a chip {0}, ids end at 63")]
    Beyond(u32),
    /// `4-2`.
    #[error("the range {0}-{1} runs backwards")]
    Backwards(u32, u32),
    /// Not in the grammar at all.
    #[error("is not understood")]
    Junk,
}

fn allowed(key: &str) -> &'static str {
    if key == CORES || key.starts_with("aws.amazon.com/neuroncore") {
        "a number of NeuronCores such as 2, none"
    } else if key == VISIBLE_DEVICES {
        "ids such as 0,2-4, all, any:N, id:LIST, none"
    } else {
        "a count such as 2, all, any:N, id:LIST such as id:0,2-4, none"
    }
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
mod tests {
    use super::*;

    fn ids(list: &[u32]) -> Want {
        Want::Ids(list.iter().map(|id| ChipId::new(*id).unwrap()).collect())
    }

    fn spec(annotations: &[(&str, &str)], env: &[&str]) -> serde_json::Value {
        let annotations: serde_json::Map<_, _> = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        serde_json::json!({"annotations": annotations, "process": {"env": env}})
    }

    fn ask(annotations: &[(&str, &str)], env: &[&str]) -> Result<Option<Want>, Invalid> {
        let spec = spec(annotations, env);
        read(&Peek::of(&spec).unwrap(), true).map(|request| request.map(|request| request.want))
    }

    #[test]
    fn cores_are_a_plain_number() {
        for (value, want) in [
            ("2", Ok(Some(Want::Cores(2)))),
            (" 2 ", Ok(Some(Want::Cores(2)))),
            ("none", Ok(None)),
            ("", Ok(None)),
            ("0", Err(Fault::ZeroCores)),
            ("all", Err(Fault::Junk)),
            ("any:2", Err(Fault::Junk)),
            ("0-1", Err(Fault::Junk)),
            ("02", Err(Fault::Junk)),
        ] {
            assert_eq!(parse_cores(value), want, "{value:?}");
        }
        assert_eq!(ask(&[("aws.amazon.com/neuroncore", "3")], &["AWS_NEURON_CORES=1"]), Ok(Some(Want::Cores(3))));
        assert_eq!(ask(&[], &["AWS_NEURON_CORES=1"]), Ok(Some(Want::Cores(1))));
        let said = ask(&[], &["AWS_NEURON_CORES=0-1"]).unwrap_err().to_string();
        assert_eq!(said, "AWS_NEURON_CORES=\"0-1\": is not understood; allowed are a number of NeuronCores such as 2, none");
    }

    /// The table of the design, both columns.
    #[test]
    fn the_grammar_is_the_designs_table() {
        let two_to_four_and_zero = ids(&[0, 2, 3, 4]);
        for (value, annotation, environment) in [
            ("all", Ok(Some(Want::All)), Ok(Some(Want::All))),
            ("ALL", Ok(Some(Want::All)), Ok(Some(Want::All))),
            ("any:3", Ok(Some(Want::Any(3))), Ok(Some(Want::Any(3)))),
            ("id:0,2-4", Ok(Some(two_to_four_and_zero)), Ok(Some(two_to_four_and_zero))),
            ("2", Ok(Some(Want::Any(2))), Ok(Some(ids(&[2])))),
            ("0,2-4", Err(Fault::BareList), Ok(Some(two_to_four_and_zero))),
            (" 0 , 2 - 4 ", Err(Fault::BareList), Ok(Some(two_to_four_and_zero))),
            ("none", Ok(None), Ok(None)),
            ("", Ok(None), Ok(None)),
            ("  ", Ok(None), Ok(None)),
            ("0", Err(Fault::Zero), Ok(Some(ids(&[0])))),
            ("any:0", Err(Fault::Zero), Err(Fault::Zero)),
            ("any: 2 ", Ok(Some(Want::Any(2))), Ok(Some(Want::Any(2)))),
            ("id:3,3", Err(Fault::Repeated(ChipId::new(3).unwrap())), Err(Fault::Repeated(ChipId::new(3).unwrap()))),
            ("id:1,0-2", Err(Fault::Repeated(ChipId::new(1).unwrap())), Err(Fault::Repeated(ChipId::new(1).unwrap()))),
            ("id:64", Err(Fault::Beyond(64)), Err(Fault::Beyond(64))),
            ("id:0-4294967295", Err(Fault::Beyond(64)), Err(Fault::Beyond(64))),
            ("id:4-2", Err(Fault::Backwards(4, 2)), Err(Fault::Backwards(4, 2))),
        ] {
            assert_eq!(parse(value, Bare::Count), annotation, "annotation {value:?}");
            assert_eq!(parse(value, Bare::Ids), environment, "environment {value:?}");
        }
        for junk in [
            "+2",
            "-1",
            "02",
            "id:00",
            "2.0",
            "0x2",
            "any",
            "any:",
            "id:",
            "id:1,",
            "id:,1",
            "id:1-",
            "id:-1",
            "two",
            "Any:2",
            "all,1",
            "id:all",
            "1 2",
            "\t2",
            "２",
            "99999999999999999999",
            "any:any:2",
            "id:1--2",
            "1;2",
        ] {
            assert_eq!(parse(junk, Bare::Count), Err(Fault::Junk), "annotation {junk:?}");
            assert_eq!(parse(junk, Bare::Ids), Err(Fault::Junk), "environment {junk:?}");
        }
    }

    #[test]
    fn the_annotation_wins_over_the_environment() {
        let env = ["AWS_NEURON_VISIBLE_DEVICES=0"];
        assert_eq!(ask(&[("aws.amazon.com/neuron", "2")], &env), Ok(Some(Want::Any(2))));
        assert_eq!(ask(&[("aws.amazon.com/neurondevice", "2")], &env), Ok(Some(Want::Any(2))));
        assert_eq!(ask(&[("aws.amazon.com/neuron", "none")], &env), Ok(None));
        assert_eq!(ask(&[("aws.amazon.com/neuron", "")], &env), Ok(None));
        assert_eq!(ask(&[("aws.amazon.com/sku", "2")], &env), Ok(Some(ids(&[0]))));
        assert_eq!(ask(&[], &["AWS_NEURON_VISIBLE_DEVICES="]), Ok(None));
        assert_eq!(ask(&[], &[]), Ok(None));
    }

    #[test]
    fn an_administrator_can_turn_the_environment_off() {
        let spec = spec(&[], &["AWS_NEURON_VISIBLE_DEVICES=junk"]);
        assert_eq!(read(&Peek::of(&spec).unwrap(), false), Ok(None));
    }

    #[test]
    fn two_annotations_are_one_too_many() {
        let two = ask(&[("aws.amazon.com/neurondevice", "2"), ("aws.amazon.com/neuron", "2")], &[]);
        assert_eq!(two, Err(Invalid::TwoKeys("aws.amazon.com/neuron".into(), "aws.amazon.com/neurondevice".into())));
        let both = ["AWS_NEURON_VISIBLE_DEVICES=0", "AWS_NEURON_CORES=1"];
        assert!(matches!(ask(&[], &both), Err(Invalid::TwoVariables)));
        assert_eq!(ask(&[("aws.amazon.com/neuron", "none")], &both), Ok(None));
    }

    #[test]
    fn a_pods_sandbox_asks_for_nothing() {
        for key in ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"] {
            assert_eq!(ask(&[(key, "sandbox"), ("aws.amazon.com/neuron", "junk")], &[]), Ok(None));
            assert_eq!(ask(&[(key, "container"), ("aws.amazon.com/neuron", "2")], &[]), Ok(Some(Want::Any(2))));
            // Device plugins set the variable as information.
            assert_eq!(ask(&[(key, "container")], &["AWS_NEURON_VISIBLE_DEVICES=0"]), Ok(None));
        }
    }

    #[test]
    fn a_key_by_container_name_silences_the_bare_one() {
        let pod = [("io.kubernetes.cri.container-type", "container"), ("aws.amazon.com/neuron.train", "4"), ("aws.amazon.com/neuron", "1")];
        let named = |key, name| [&pod[..], &[(key, name)]].concat();
        for key in ["io.kubernetes.cri.container-name", "io.kubernetes.container.name"] {
            assert_eq!(ask(&named(key, "train"), &[]), Ok(Some(Want::Any(4))));
            assert_eq!(ask(&named(key, "sidecar"), &[]), Ok(None));
        }
        assert_eq!(ask(&pod, &[]), Err(Invalid::Nameless("aws.amazon.com/neuron.train".into())));
        // Outside Kubernetes there are no container names.
        assert_eq!(ask(&pod[1..], &[]), Ok(Some(Want::Any(1))));
        let twice = [&named("io.kubernetes.cri.container-name", "train")[..], &[("aws.amazon.com/neurondevice.train", "4")]].concat();
        assert!(matches!(ask(&twice, &[]), Err(Invalid::TwoKeys(..))));
    }

    #[test]
    fn errors_quote_the_value_and_say_what_is_allowed() {
        let error = ask(&[("aws.amazon.com/neuron", "0,1")], &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "aws.amazon.com/neuron=\"0,1\": a list of chips is written id:LIST here; \
             allowed are a count such as 2, all, any:N, id:LIST such as id:0,2-4, none"
        );
        let error = ask(&[], &["AWS_NEURON_VISIBLE_DEVICES=x\u{7}"]).unwrap_err().to_string();
        assert!(error.starts_with("AWS_NEURON_VISIBLE_DEVICES=\"x\\u{7}\": is not understood; allowed are ids such as"), "{error}");
    }
}
