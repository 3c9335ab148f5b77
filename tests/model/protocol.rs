//! The model's states and what can happen in each.
//!
//! A state is the real ledger as it lies on the disk, the tiny host, how far each container has come, and the truth to judge by.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use neuron_container_runtime::chip::{Chip, ChipId, ChipSet, DeviceNumber, Health, Inventory};
use neuron_container_runtime::lease::{Holder, Ledger};
use neuron_container_runtime::request::Want;
use stateright::{Model, Property};

use crate::host::{Host, Name, Phase};
use crate::properties;
use crate::rules::{REAL, Rules};
use crate::truth::{CORES, Grant, LeaseId, Truth};

/// How a container's spec comes to be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the wrapper.
    Wrapper,
    /// By Podman's `precreate`; its low-level runtime is none of ours.
    Precreate,
    /// By `precreate`, and then the wrapper comes.
    Both,
}

/// A container that is started now and then.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) id: &'static str,
    /// The number of its bundle: two containers may share one.
    pub(crate) bundle: usize,
    pub(crate) want: Want,
    pub(crate) way: Way,
    /// Does it wait for chips?
    pub(crate) patient: bool,
    /// Has it no pid namespace of its own, so that its children outlive its init?
    pub(crate) outlived: bool,
    /// Can `precreate` not tell its id?
    pub(crate) anonymous: bool,
    /// Has somebody else given it the chips that it wants?
    pub(crate) adopted: bool,
}

/// The model, and its bounds.
#[derive(Clone)]
pub(crate) struct Protocol {
    pub(crate) containers: Vec<Container>,
    pub(crate) inventory: Inventory,
    pub(crate) rules: Rules,
    /// How often each container is started.
    pub(crate) starts: u8,
    /// May the host be rebooted, once?
    pub(crate) reboot: bool,
    /// How far the clock goes.
    pub(crate) clock: u64,
    /// May strangers get the pids of the dead?
    pub(crate) reuse: bool,
    /// Do processes stay zombies for a while, and leaders call `pthread_exit`?
    pub(crate) zombies: bool,
    /// Are bundles run again as the last run left them?
    pub(crate) raw: bool,
    /// What is to be seen in some state, by the names in `properties`.
    pub(crate) reaches: &'static [&'static str],
}

impl Protocol {
    /// A host of so many chips, all linked, where each container is started once.
    pub(crate) fn new(chips: u32, containers: Vec<Container>) -> Self {
        let ids: ChipSet = (0..chips).filter_map(ChipId::new).collect();
        let chip = |id: ChipId| Chip {
            id,
            number: DeviceNumber { major: 240, minor: id.index() },
            cores: Some(CORES),
            linked: Some(ids),
            architecture: None,
            health: Health::Ready,
            node: None,
        };
        let inventory = Inventory { chips: ids.iter().map(chip).collect(), instance_type: None, driver_version: None };
        Self {
            containers,
            inventory,
            rules: REAL,
            starts: 1,
            reboot: false,
            clock: 0,
            reuse: false,
            zombies: false,
            raw: false,
            reaches: &[properties::ONE_RUNS],
        }
    }
}

/// How far a start of a container has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Idle,
    /// The wrapper has read a spec that bears a lease.
    Prepared,
    /// It is to claim.
    Asking,
    /// It stands in the queue, since this time.
    Waiting(u64),
    Claimed,
    /// The spec is as it should be.
    Edited,
    /// The low-level runtime has made the init, and called the hook.
    Hook,
    /// The hook has noted whose lease it is to be, and found the nodes right.
    Looked(Name),
    /// The hook has said yes.
    Ready,
    Started,
    /// The container is not to start; what is left of it dies.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) stage: Stage,
    /// How often it has been started, and since the last boot.
    pub(crate) start: u8,
    pub(crate) in_boot: u8,
    /// Is it still `precreate` that works for it?
    pub(crate) by_caller: bool,
    /// The lease that its spec bore when it was read.
    pub(crate) bore: Option<LeaseId>,
    /// What it claimed.
    pub(crate) claimed: Option<Grant>,
    /// What its low-level runtime read in the spec, and made its nodes of.
    pub(crate) nodes: Option<Grant>,
}

impl Run {
    pub(crate) const NONE: Self =
        Self { stage: Stage::Idle, start: 0, in_boot: 0, by_caller: false, bore: None, claimed: None, nodes: None };
}

/// What a process is to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The wrapper or `precreate`; then the low-level runtime.
    Runtime = 1,
    Init = 2,
    /// Of the container's, and maybe its last.
    Child = 3,
    /// Who called `precreate`.
    Caller = 4,
}

/// The pid of a process of a container; strangers may get it later.
pub(crate) fn pid(of: usize, role: Role) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX) * 10 + 10 + role as i32
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) ledger: Arc<Ledger>,
    /// In which boot the ledger was written.
    pub(crate) written_in: u8,
    pub(crate) host: Host,
    pub(crate) runs: Vec<Run>,
    /// What the spec of each bundle grants.
    pub(crate) specs: Vec<Option<Grant>>,
    pub(crate) truth: Truth,
}

impl State {
    /// A process of this container's present start.
    pub(crate) fn name(&self, of: usize, role: Role) -> Name {
        Name::own(pid(of, role), self.runs[of].in_boot)
    }

    pub(crate) fn alive(&self, of: usize, role: Role) -> bool {
        self.host.alive(self.name(of, role))
    }

    /// What a container has in its hands, if its own processes run.
    pub(crate) fn in_hands(&self, of: usize) -> Option<Grant> {
        let run = &self.runs[of];
        let runs = run.stage == Stage::Started && (self.alive(of, Role::Init) || self.alive(of, Role::Child));
        run.nodes.filter(|_| runs)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let holder = |holder: &Holder, hasher: &mut H| (holder.pid, holder.start).hash(hasher);
        for lease in self.ledger.leases() {
            (&lease.id, &lease.container, lease.chips, lease.cores.map(|run| (run.first(), run.len()))).hash(hasher);
            (lease.mode as u8, lease.state as u8, &lease.cgroup, lease.expires).hash(hasher);
            holder(&lease.holder, hasher);
        }
        for waiter in self.ledger.queue() {
            (&waiter.id, waiter.until).hash(hasher);
            holder(&waiter.holder, hasher);
        }
        (self.written_in, &self.host, &self.runs, &self.specs, &self.truth).hash(hasher);
    }
}

/// Something that happens. What is done under the lock is one step, for who is killed there has not replaced the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The container is started: its spec is read.
    Begin(usize),
    TakeOver(usize),
    /// One try to claim, with or without a place in the queue.
    Claim(usize),
    Edit(usize),
    /// The low-level runtime reads the spec, makes the init, calls the hook.
    Exec(usize),
    Look(usize),
    Bind(usize),
    /// The hook binds, and is killed before anybody hears of it.
    BindUnheard(usize),
    HookDies(usize),
    /// The container's own process starts.
    Start(usize),
    Fork(usize),
    LeaderExits(usize),
    Kill(i32),
    /// A zombie is waited for.
    Collect(i32),
    /// A stranger gets the pid of a dead process.
    Reuse(i32),
    Tick,
    Reboot,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let host = Host::new(0);
        let ledger = Arc::new(Ledger::empty(host.boot_id()));
        let bundles = self.containers.iter().map(|container| container.bundle + 1).max().unwrap_or(0);
        let runs = vec![Run::NONE; self.containers.len()];
        vec![State { ledger, written_in: 0, host, runs, specs: vec![None; bundles], truth: Truth::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        (0..self.containers.len()).for_each(|of| self.progress(state, of, steps));
        for process in &state.host.processes {
            let pid = process.name.pid;
            steps.push(if process.phase == Phase::Zombie { Step::Collect(pid) } else { Step::Kill(pid) });
        }
        if self.reuse {
            let held = state.ledger.leases().iter().map(|lease| &lease.holder);
            let waits = state.ledger.queue().iter().map(|waiter| &waiter.holder);
            let looked = state.runs.iter().filter_map(|run| if let Stage::Looked(name) = run.stage { Some(name.pid) } else { None });
            let mut pids: Vec<i32> = held.chain(waits).map(|holder| holder.pid).chain(looked).collect();
            pids.sort_unstable();
            pids.dedup();
            steps.extend(pids.into_iter().filter(|pid| *pid > 1 && state.host.at(*pid).is_none()).map(Step::Reuse));
        }
        if state.host.clock < self.clock {
            steps.push(Step::Tick);
        }
        if self.reboot && state.host.boot == 0 {
            steps.push(Step::Reboot);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, step)?;
        next.truth.drop_dead(&next.host);
        self.forget_ended(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl Protocol {
    /// What a container's own processes can do next.
    fn progress(&self, state: &State, of: usize, steps: &mut Vec<Step>) {
        let (run, container) = (&state.runs[of], &self.containers[of]);
        let vacant = |role| state.host.at(pid(of, role)).is_none();
        match run.stage {
            Stage::Idle => {
                let stranger = state.host.at(pid(of, Role::Caller)).is_some_and(|caller| caller.name.is_strangers());
                if run.start < self.starts && vacant(Role::Runtime) && vacant(Role::Init) && !stranger {
                    steps.push(Step::Begin(of));
                }
            }
            Stage::Prepared => steps.push(Step::TakeOver(of)),
            Stage::Asking | Stage::Waiting(_) => steps.push(Step::Claim(of)),
            Stage::Claimed => steps.push(Step::Edit(of)),
            Stage::Edited if vacant(Role::Init) => steps.push(Step::Exec(of)),
            // The hook outlives the runtime that called it.
            Stage::Hook => steps.extend([Step::Look(of), Step::HookDies(of)]),
            Stage::Looked(_) => steps.extend([Step::Bind(of), Step::BindUnheard(of), Step::HookDies(of)]),
            Stage::Ready if state.alive(of, Role::Init) => steps.push(Step::Start(of)),
            Stage::Started if state.alive(of, Role::Init) => {
                if container.outlived && !state.alive(of, Role::Child) {
                    steps.push(Step::Fork(of));
                }
                if self.zombies && state.host.at(pid(of, Role::Init)).is_some_and(|init| init.phase == Phase::Runs) {
                    steps.push(Step::LeaderExits(of));
                }
            }
            Stage::Edited | Stage::Ready | Stage::Started | Stage::Failed => {}
        }
    }
}
