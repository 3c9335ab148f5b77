//! What each step does: the pipelines of `serve.rs`, `claim.rs` and `bind.rs`, in the same order, on the tiny host.

use std::sync::Arc;

use neuron_container_runtime::chip::ChipSet;
use neuron_container_runtime::cores::Share;
use neuron_container_runtime::lease::{Lease, Ledger, Mode, Waiter};
use neuron_container_runtime::request::Want;

use crate::host::{Host, Name, PID_1, Phase};
use crate::protocol::{Protocol, Role, Run, Stage, State, Step, Way, pid};
use crate::rules::Binding;
use crate::truth::{Arrival, Grant, LeaseId, Tie, Truth};

/// What a claim comes to.
pub(crate) enum Decision {
    Granted(ChipSet, Option<Share>),
    /// Not now.
    NotYet,
    Never,
}

impl Protocol {
    /// Makes a step; `None`: nothing changes.
    pub(crate) fn take(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Begin(of) => self.begin(state, of),
            Step::TakeOver(of) => self.take_over(state, of),
            Step::Claim(of) => return self.claim(state, of),
            Step::Edit(of) => self.edit(state, of),
            Step::Exec(of) => self.exec(state, of),
            Step::Look(of) => look(state, of),
            Step::Bind(of) => {
                // Nothing stops a container whose lease only records what somebody else gave.
                let goes_on = self.bind(state, of) || self.containers[of].adopted;
                state.runs[of].stage = if goes_on { Stage::Ready } else { Stage::Failed };
            }
            Step::BindUnheard(of) => {
                self.bind(state, of);
                state.runs[of].stage = Stage::Failed;
            }
            Step::HookDies(of) => state.runs[of].stage = Stage::Failed,
            Step::Start(of) => state.runs[of].stage = Stage::Started,
            Step::Fork(of) => state.host.spawn(state.name(of, Role::Child), Some(self.containers[of].id)),
            Step::LeaderExits(of) => state.host.set_phase(pid(of, Role::Init), Phase::Leaderless),
            Step::Kill(pid) => self.kill(&mut state.host, pid),
            Step::Collect(pid) => state.host.remove(pid),
            Step::Reuse(pid) => {
                let of = state.runs.get(usize::try_from(pid / 10).ok()?.checked_sub(1)?)?;
                state.host.spawn(Name::strangers(pid, of.in_boot), None);
            }
            Step::Tick => state.host.clock += 1,
            Step::Reboot => {
                state.host = Host::new(1);
                state.truth = Truth { out_of_turn: state.truth.out_of_turn, ..Truth::default() };
                state.runs.iter_mut().for_each(|run| *run = Run { start: run.start, ..Run::NONE });
            }
        }
        Some(())
    }

    fn kill(&self, host: &mut Host, pid: i32) {
        // Callers and children have parents that wait for them at once.
        let waits = pid % 10 == Role::Runtime as i32 || pid % 10 == Role::Init as i32;
        if self.zombies && waits { host.set_phase(pid, Phase::Zombie) } else { host.remove(pid) }
    }

    /// A start whose processes are all gone is over.
    pub(crate) fn forget_ended(&self, state: &mut State) {
        for of in 0..state.runs.len() {
            let alive = |role| state.alive(of, role);
            let over = match state.runs[of].stage {
                Stage::Idle => false,
                // Only the low-level runtime waits for the hook; without it none of this goes on.
                Stage::Prepared | Stage::Asking | Stage::Waiting(_) | Stage::Claimed | Stage::Edited => !alive(Role::Runtime),
                Stage::Hook | Stage::Looked(_) => false,
                Stage::Ready | Stage::Started | Stage::Failed => ![Role::Runtime, Role::Init, Role::Child].into_iter().any(alive),
            };
            if over {
                let Run { start, in_boot, .. } = state.runs[of];
                state.runs[of] = Run { start, in_boot, ..Run::NONE };
                if !self.raw {
                    // Engines make a bundle for each start.
                    state.specs[self.containers[of].bundle] = None;
                }
            }
        }
    }

    fn begin(&self, state: &mut State, of: usize) {
        let container = &self.containers[of];
        let by_caller = container.way != Way::Wrapper;
        let run = &mut state.runs[of];
        *run = Run { stage: Stage::Asking, start: run.start + 1, in_boot: run.in_boot + 1, by_caller, ..Run::NONE };
        if !by_caller {
            run.bore = state.specs[container.bundle].map(|grant| grant.lease);
            if run.bore.is_some() {
                run.stage = Stage::Prepared;
            }
        } else if state.host.at(pid(of, Role::Caller)).is_none() {
            state.host.spawn(state.name(of, Role::Caller), None);
        }
        state.host.spawn(state.name(of, Role::Runtime), None);
    }

    /// `claim::lock_and_reap`.
    pub(crate) fn lock_and_reap(&self, state: &State) -> Ledger {
        let mut ledger = (self.rules.load)(state);
        (self.rules.reap)(&mut ledger, &state.host);
        ledger
    }

    /// `Serving::taken_over`.
    fn take_over(&self, state: &mut State, of: usize) {
        let (id, wrapper) = (self.containers[of].id, state.name(of, Role::Runtime));
        let Some(lease) = state.runs[of].bore else { return };
        let mut ledger = self.lock_and_reap(state);
        state.runs[of].stage = Stage::Asking;
        if (self.rules.take_over)(&mut ledger, &lease.text(), id, wrapper.holder()) {
            commit(state, ledger);
            state.truth.take_over(lease, id, wrapper);
            state.runs[of].stage = Stage::Edited;
        }
    }

    /// `Case::decide`, as far as the ledger goes.
    pub(crate) fn decide(&self, ledger: &Ledger, want: Want, waiter: Option<&str>, bore: Option<LeaseId>) -> Decision {
        if bore.is_some_and(|lease| (self.rules.still_running)(ledger, &lease.text())) {
            return Decision::Never;
        }
        if !(self.rules.in_line)(ledger, waiter) {
            return Decision::NotYet;
        }
        match (self.rules.choose)(&self.inventory, &ledger.held(""), want) {
            Ok((chips, share)) => Decision::Granted(chips, share),
            Err(shortage) if shortage.may_pass() => Decision::NotYet,
            Err(_) => Decision::Never,
        }
    }

    /// A turn of the loop in `claim::claim`.
    fn claim(&self, state: &mut State, of: usize) -> Option<()> {
        let container = &self.containers[of];
        let run = &state.runs[of];
        let lease = LeaseId { of, start: run.start, by_caller: run.by_caller };
        let (id, now) = (lease.text(), state.host.clock);
        let joined = if let Stage::Waiting(since) = run.stage { Some(since) } else { None };
        let mut ledger = self.lock_and_reap(state);
        let decision = match container.want {
            Want::Ids(chips) if container.adopted => Decision::Granted(chips, None),
            want => self.decide(&ledger, want, joined.map(|_| id.as_str()), run.bore),
        };
        if matches!(decision, Decision::NotYet) && joined.map_or(container.patient, |since| now <= since) {
            if joined.is_some() {
                return None;
            }
            let process = state.name(of, Role::Runtime);
            // The wait is over at the next tick, and believed to be one tick later.
            let (until, holder) = (now + 1, process.holder());
            ledger.join(Waiter {
                id,
                container: container.id.into(),
                name: None,
                holder,
                until,
                since: String::new(),
                request: String::new(),
            });
            commit(state, ledger);
            state.truth.arrivals.push(Arrival { of, process, until });
            state.runs[of].stage = Stage::Waiting(now);
            return Some(());
        }
        let left = joined.is_some() && ledger.leave(&id);
        let granted = self.grant(state, of, lease, &decision, &mut ledger);
        if left || granted {
            commit(state, ledger);
        }
        state.truth.leave(of);
        if !granted {
            state.runs[of].stage = Stage::Failed;
            self.kill(&mut state.host, pid(of, Role::Runtime));
        }
        Some(())
    }

    /// Writes down what was decided.
    fn grant(&self, state: &mut State, of: usize, lease: LeaseId, decision: &Decision, ledger: &mut Ledger) -> bool {
        let Decision::Granted(chips, share) = *decision else { return false };
        let container = &self.containers[of];
        let grant = Grant { lease, chips, cores: share.map(|share| (share.cores.first(), share.cores.len())), adopted: container.adopted };
        let (holder, expires) = if lease.by_caller {
            // Whose parent has died is pid 1's child.
            let caller = state.host.at(pid(of, Role::Caller)).filter(|process| !process.name.is_strangers());
            (caller.map_or(PID_1, |caller| caller.name), Some(state.host.clock))
        } else {
            (state.name(of, Role::Runtime), None)
        };
        let anonymous = container.anonymous && lease.by_caller;
        let tie = Tie { grant, container: if anonymous { "" } else { container.id }, holder, cgroup: None, expires, bound: false };
        if !(self.rules.claim)(ledger, claimed(&tie, share)) {
            return false;
        }
        state.truth.serve(of, tie);
        state.runs[of].stage = Stage::Claimed;
        state.runs[of].claimed = Some(grant);
        true
    }

    fn edit(&self, state: &mut State, of: usize) {
        let container = &self.containers[of];
        state.specs[container.bundle] = state.runs[of].claimed;
        let run = &mut state.runs[of];
        run.stage = Stage::Edited;
        if run.by_caller && container.way == Way::Both {
            run.by_caller = false;
            run.stage = Stage::Prepared;
            run.bore = run.claimed.map(|grant| grant.lease);
        }
    }

    fn exec(&self, state: &mut State, of: usize) {
        let container = &self.containers[of];
        state.runs[of].nodes = state.specs[container.bundle];
        state.runs[of].stage = Stage::Hook;
        state.host.spawn(state.name(of, Role::Init), Some(container.id));
    }

    /// `bind::bind` from the lock on.
    fn bind(&self, state: &mut State, of: usize) -> bool {
        let (Stage::Looked(init), Some(nodes)) = (state.runs[of].stage, state.runs[of].nodes) else { return false };
        let container = &self.containers[of];
        let cgroup = container.outlived.then_some(container.id);
        let mut ledger = self.lock_and_reap(state);
        let lease = nodes.lease.text();
        let (init_as_holder, noted) = (init.holder(), cgroup.map(str::to_owned));
        let binding = Binding { lease: &lease, container: container.id, init: init_as_holder, cgroup: noted, nodes: nodes.chips };
        let bound = (self.rules.bind)(&mut ledger, binding);
        if bound {
            commit(state, ledger);
            state.truth.bind(nodes.lease, container.id, init, cgroup);
        }
        bound
    }
}

fn commit(state: &mut State, ledger: Ledger) {
    state.ledger = Arc::new(ledger);
    state.written_in = state.host.boot;
}

/// The hook's look at the pid that it was told: it finds the container's nodes there only while that is the init and lives.
fn look(state: &mut State, of: usize) {
    let init = state.name(of, Role::Init);
    state.runs[of].stage = if state.host.alive(init) { Stage::Looked(init) } else { Stage::Failed };
}

/// A lease as `decide` makes it.
pub(crate) fn claimed(tie: &Tie, share: Option<Share>) -> Lease {
    Lease {
        id: tie.grant.lease.text(),
        container: tie.container.to_owned(),
        name: None,
        root: String::new(),
        chips: tie.grant.chips,
        cores: tie.grant.core_run(),
        lnc: share.map(|share| share.lnc),
        mode: match share {
            Some(_) => Mode::Shared,
            None if tie.grant.adopted => Mode::Adopted,
            None => Mode::Exclusive,
        },
        state: neuron_container_runtime::lease::State::Claimed,
        holder: tie.holder.holder(),
        cgroup: tie.cgroup.map(str::to_owned),
        expires: tie.expires,
        since: String::new(),
        request: String::new(),
        env: Vec::new(),
    }
}
