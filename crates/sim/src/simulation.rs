//! The simulated hall: the real kernel, its clocks, its store and its connections, driven by a queue of events.
//!
//! ```text
//!   clients, workers ──Arrive──▶ Kernel ──units──▶ commits ──Apply──▶ Vault
//!          ▲                      │ ▲                                 │
//!          └──Answered, Tell──────┘ └────────────Told─────────────────┘
//! ```
//!
//! Every arrow takes time and may be cut by a crash. A crash raises `epoch`, and events of an earlier epoch are
//! dropped when they are due.

pub(crate) mod event;
mod queue;
mod wires;

use std::collections::{BTreeMap, VecDeque};

use jobhall_core::{JobId, State, Time};
use jobhall_kernel::{Counts, Effect, Kernel, Mono, Now, Request, StoreRequest, TypedAnswer};
use jobhall_store::Unit;

use crate::check::{Checker, Moment, Shelf as _};
use crate::clients::Clients;
use crate::history::History;
use crate::plant::Plant;
use crate::random::Random;
use crate::script::Script;
use crate::script::calendar;
use crate::storage::vault::Vault;
use crate::tally::{Tally, variant};
use crate::trace::Trace;
use crate::workers::Worker;

use event::{Event, Faults, Origin, UnderWay};
use queue::Queue;

/// The wall clock at the start of a run.
const WALL: i64 = 1_700_000_000_000;
/// The longest sleep of the driver.
const NAP_MS: u64 = 30_000;
/// More events than a correct run can have.
const EVENTS: u64 = 60_000;

pub(crate) struct Sim {
    pub script: Script,
    pub plant: Option<Plant>,
    pub ms: u64,
    pub offset: i64,
    pub queue: Queue<Event>,
    pub kernel: Option<Kernel>,
    pub epoch: u32,
    pub vault: Vault,
    pub commits: VecDeque<UnderWay>,
    pub asks: BTreeMap<u64, StoreRequest>,
    pub faults: Faults,
    pub origins: BTreeMap<u64, Origin>,
    pub clients: Clients,
    pub workers: Vec<Worker>,
    pub checker: Checker,
    pub tally: Tally,
    pub trace: Trace,
    pub history: History,
    pub calm: bool,
    pub done: bool,
    pub wire: Random,
    pub last_lease: Option<jobhall_core::LeaseId>,
    pub applies_at: u64,
    pub told_at: u64,
    nap_at: Option<u64>,
    tickets: u64,
    asked: u64,
    stuck_wall: Option<Time>,
    latest_wall: Time,
    counted: Option<Counts>,
    /// Jobs that were removed from the store, while the kernel has no reply yet.
    pub leaving: u64,
}

impl Sim {
    pub fn new(script: Script, plant: Option<Plant>, keep: bool) -> Sim {
        let now = Moment { mono: 1_000, wall: wall_at(1_000, 0) };
        let checker = Checker::new(script.config, !script.bursts, now);
        let lease =
            |at| *Random::named(script.seed, &[36, at]).pick(&[None, None, Some(12_000), Some(5_000)]);
        let workers = script.workers.iter().enumerate();
        let workers = workers.map(|(at, &kind)| Worker::new(at, kind, lease(at as u64))).collect();
        let mut sim = Sim {
            vault: Vault::new(script.seed, plant),
            wire: Random::named(script.seed, &[78]),
            script,
            plant,
            ms: 1_000,
            offset: 0,
            queue: Queue::new(),
            kernel: None,
            epoch: 0,
            commits: VecDeque::new(),
            asks: BTreeMap::new(),
            faults: Faults::default(),
            origins: BTreeMap::new(),
            clients: Clients::default(),
            workers,
            checker,
            tally: Tally::default(),
            trace: Trace { keep, ..Trace::default() },
            history: History::default(),
            calm: false,
            done: false,
            last_lease: None,
            applies_at: 0,
            told_at: 0,
            nap_at: None,
            tickets: 0,
            asked: 0,
            stuck_wall: None,
            latest_wall: Time::EPOCH,
            counted: None,
            leaving: 0,
        };
        sim.plan();
        sim
    }

    fn plan(&mut self) {
        self.queue.at(1_000, Event::Start);
        for at in 0..self.script.actions.len() {
            let ms = self.script.actions[at].0;
            self.queue.at(1_010 + ms, Event::Act(at));
        }
        self.queue.at(1_010 + self.script.calm_at, Event::Calm);
    }

    /// Processes events until the end or the first violation.
    pub fn run(&mut self) {
        while !self.done && self.checker.violation.is_none() {
            let Some((ms, event)) = self.queue.next() else { return };
            self.ms = ms;
            self.checker.now = self.moment();
            self.latest_wall = self.latest_wall.max(self.checker.now.wall);
            self.checker.call();
            self.event(event);
            let more = self.script.bursts && self.queue.next_at() == Some(ms);
            if !more {
                self.pump();
                self.tick();
            }
            if self.trace.events > EVENTS {
                self.checker.over();
                return;
            }
        }
    }

    pub fn moment(&self) -> Moment {
        Moment { mono: self.ms, wall: wall_at(self.ms, self.offset) }
    }

    /// The current time as passed to the kernel.
    pub fn now(&mut self) -> Now {
        let Moment { mono, mut wall } = self.moment();
        let mut mono = Mono(mono);
        match self.plant {
            Some(Plant::ClockAhead) => wall = wall.plus_ms(120_000),
            Some(Plant::LeaseOnWallClock) => mono = Mono(wall.since(wall_at(0, 0))),
            Some(Plant::ClockStuck) if self.calm => wall = *self.stuck_wall.get_or_insert(wall),
            _ => {}
        }
        Now { wall, mono }
    }

    /// A draw that depends only on the seed and these names.
    pub fn roll(&self, names: &[u64]) -> Random {
        Random::named(self.script.seed, names)
    }

    /// The delay of a message sent now on this connection.
    pub fn delay(&self, wire: u64, way: u64) -> u64 {
        let mut roll = self.roll(&[1, self.ms, wire, way]);
        match roll.below(20) {
            0 if !self.calm => roll.within(100, 2_500),
            1..=5 => 0,
            _ => roll.within(1, 12),
        }
    }

    /// Sends a request to the kernel, if the server runs.
    pub fn send(&mut self, request: Request, origin: Origin) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.checker.sent(&request);
        let at = self.ms + self.delay(origin.wire(), 0);
        self.origins.insert(ticket, origin);
        // Without a running process there is no connection, and a connection ends with its process.
        if self.kernel.is_some() {
            self.queue.at(at, Event::Arrive(self.epoch, ticket, Box::new(request)));
        }
        ticket
    }

    fn event(&mut self, event: Event) {
        let epoch = self.epoch;
        match event {
            Event::Act(at) => self.act(at),
            Event::Arrive(e, ticket, request) if e == epoch => self.arrive(ticket, *request),
            Event::Answered(e, ticket, answer) if e == epoch => self.answered(ticket, *answer),
            Event::Tell(e, session, effect) if e == epoch => self.tell(session, *effect),
            Event::Apply(e) if e == epoch => self.apply(),
            Event::StoreReply(e) if e == epoch => self.told(),
            Event::Serve(e, number) if e == epoch => self.serve(number),
            Event::Served(e, told) if e == epoch => self.served(*told),
            Event::Nap(at) if self.nap_at == Some(at) => self.nap_at = None,
            Event::Start => self.start(),
            Event::Timeout(call, tries) => self.timeout(call, tries),
            Event::Worker(at, status, step) => self.step(at, status, *step),
            Event::Late(request) => {
                self.send(*request, Origin::Nobody);
            }
            Event::External(request) => self.call(*request),
            Event::Calm => self.become_calm(),
            Event::Look => self.look(),
            _ => {}
        }
    }

    fn arrive(&mut self, ticket: u64, request: Request) {
        if self.kernel.is_none() {
            return;
        }
        self.tally.add("requests", variant(&request));
        if matches!(request, Request::Wait { .. }) {
            // An attempt that has resumed already did not resume because of this request.
            self.effects();
        }
        self.checker.arrives(ticket, &request);
        self.note_request(ticket, &request);
        let Some(request) = self.on_the_way(ticket, request) else { return };
        self.history.request(self.ms, ticket, &request);
        let now = self.now();
        if let Some(kernel) = &mut self.kernel {
            kernel.ask(now, request.typed(ticket));
        }
    }

    /// Runs the kernel's timers and schedules the next wake-up.
    fn tick(&mut self) {
        let now = self.now();
        let Some(kernel) = &mut self.kernel else { return };
        self.checker.call();
        kernel.tick(now);
        self.pump();
        self.checker.ticked();
        self.recount(now);
        let Some(kernel) = &self.kernel else { return };
        let wait = kernel.next_tick_ms(now).unwrap_or(NAP_MS).min(NAP_MS);
        let at = self.ms + wait;
        if self.nap_at.is_none_or(|known| at < known || known <= self.ms) {
            self.nap_at = Some(at);
            self.queue.at(at, Event::Nap(at));
        }
    }

    /// Compares the kernel's counts with the rows whenever all its decisions are stored. Skipped with
    /// other planted bugs, which may also cause a difference.
    fn recount(&mut self, now: Now) {
        let meant =
            self.plant.is_none_or(|plant| [Plant::CountsOld, Plant::MemberForgotten].contains(&plant));
        let Some(kernel) = self.kernel.as_mut().filter(|_| meant && self.commits.is_empty()) else { return };
        let counts = kernel.counts(now);
        let before = self.counted.replace(counts.clone());
        let old = self.plant == Some(Plant::CountsOld);
        let told = before.filter(|_| old).unwrap_or(counts);
        self.checker.counted(&told, self.latest_wall);
        let in_use = kernel.workers_in_use();
        self.checker.in_use(&in_use);
        if let Some((kept, _)) = kernel.kept(0) {
            self.checker.kept(kept, self.leaving);
        }
        let groups = kernel.groups_counted();
        self.checker.groups_counted(&groups);
    }

    /// Executes the effects that the kernel has decided so far, without its commits.
    fn effects(&mut self) {
        let effects = self.kernel.as_mut().map(Kernel::take_effects);
        effects.into_iter().flatten().for_each(|effect| self.effect(effect));
    }

    /// Executes the effects of the kernel.
    pub fn pump(&mut self) {
        while let Some(kernel) = &mut self.kernel {
            let (effects, asked) = (kernel.take_effects(), kernel.take_store_requests());
            let commit = kernel.take_commit();
            let stopped = kernel.stopped().is_some();
            if effects.is_empty() && asked.is_empty() && commit.is_none() {
                if stopped {
                    self.crash(10);
                }
                return;
            }
            effects.into_iter().for_each(|effect| self.effect(effect));
            asked.into_iter().for_each(|asked| self.ask_store(asked));
            if let Some((number, units)) = commit {
                self.under_way(number, units);
            }
        }
    }

    /// Adds the engine's explanation of why these jobs are not running to the trace.
    pub fn explain(&mut self, jobs: &[JobId]) {
        let now = self.now();
        let Some(kernel) = &mut self.kernel else { return };
        for &id in jobs {
            kernel.ask(now, Request::Explain { id }.typed(u64::MAX));
            for effect in kernel.take_effects() {
                if let Effect::Answer(TypedAnswer::Explained(_, answer)) = effect {
                    self.trace.note(self.ms, &[id], || format!("explained: {answer:?}"));
                }
            }
        }
    }

    fn under_way(&mut self, number: u64, units: Vec<Unit>) {
        self.history.commit(self.ms, number, &units);
        self.checker.decided(&units);
        self.note_units("decided", &units);
        let takes = self.store_takes(0);
        self.applies_at = self.applies_at.max(self.ms + takes);
        self.told_at = self.told_at.max(self.applies_at + self.roll(&[3, self.ms]).below(6));
        self.queue.at(self.applies_at, Event::Apply(self.epoch));
        self.queue.at(self.told_at, Event::StoreReply(self.epoch));
        self.commits.push_back(UnderWay { number, units, result: None });
    }

    /// The duration of a store request made now.
    fn store_takes(&self, what: u64) -> u64 {
        let slow = if self.ms < self.faults.slow_until { self.faults.slow_ms } else { 0 };
        self.roll(&[2, what, self.ms]).within(0, 8) + slow
    }

    fn ask_store(&mut self, asked: StoreRequest) {
        self.history.read(self.ms, &asked);
        self.asked += 1;
        let number = self.asked;
        self.tally.add("asked of the store", variant(&asked));
        if let StoreRequest::Job(id) = &asked {
            self.checker.reads(*id);
        }
        let at = self.ms + self.store_takes(1);
        self.asks.insert(number, asked);
        self.queue.at(at, Event::Serve(self.epoch, number));
    }

    /// The server crashes: pending commits are never applied.
    pub fn crash(&mut self, down_ms: u64) {
        if self.kernel.take().is_none() {
            return;
        }
        self.history.crash(self.ms);
        self.tally.add("faults", "crash or stop of the hall");
        self.trace.stir(&[self.ms, 13]);
        self.trace.note(self.ms, &[], || format!("the hall is down for {down_ms} ms"));
        self.epoch += 1;
        self.commits.clear();
        self.asks.clear();
        self.leaving = 0;
        self.faults.stopped = false;
        (self.applies_at, self.told_at) = (0, 0);
        self.vault.crashed();
        self.checker.crashed();
        self.checker.whole(&self.vault);
        self.queue.at(self.ms + down_ms, Event::Start);
    }

    fn start(&mut self) {
        if self.kernel.is_some() {
            return;
        }
        let now = self.now();
        let mut chance = self.roll(&[4, u64::from(self.epoch)]);
        let mut config = self.script.config;
        match self.plant {
            Some(Plant::NoGrace) => config.force_ms = 0,
            Some(Plant::NeverPatient) => config.avoid_ms = 365 * 24 * 3_600_000,
            _ => {}
        }
        let mut kernel = Kernel::new(config, now, Box::new(move || chance.bits()));
        let settings = self.vault.settings_for_kernel();
        self.checker.starts_with(&settings);
        let forgets = |setting: &jobhall_store::Setting| setting.kind == jobhall_store::SettingKind::Queue;
        let forgetful = self.plant == Some(Plant::LimitsForgotten);
        let settings = settings.into_iter().filter(|one| !forgetful || !forgets(one));
        let settings: Vec<_> = settings.map(|one| self.vault.setting_for_kernel(one)).collect();
        self.history.start(self.ms, (&config, now, &settings, self.vault.blocks()));
        kernel.restore_settings(settings).expect("settings that the engine wrote");
        kernel.restore_blocks(&self.vault.blocks());
        for group in self.vault.groups(true) {
            let members = self.vault.members_for_kernel(group.id);
            self.history.start(self.ms, (&group, &members));
            kernel.restore_group(group, &members);
        }
        for job in self.vault.open_for_kernel() {
            self.history.start_job(self.ms, &job);
            kernel.restore(job);
        }
        let links = self.vault.links();
        self.history.start(self.ms, &links);
        kernel.restore_links(links);
        kernel.begin();
        self.kernel = Some(kernel);
        self.checker.restarted();
        self.trace.note(self.ms, &[], || "the hall starts".to_owned());
        self.workers_hear_of_start();
    }

    fn become_calm(&mut self) {
        self.calm = true;
        self.faults = Faults { stopped: self.faults.stopped, ..Faults::default() };
        self.trace.note(self.ms, &[], || "calm: faults stop, every worker is able".to_owned());
        self.workers_become_able();
        self.end_schedules();
        self.queue.at(self.ms + 2_000, Event::Look);
    }

    /// Advances the wall clock to the next due time, so that the run does not have to wait for it. Not while there is
    /// work to do: open windows must not close meanwhile. Jobs with windows come last, one after the other.
    fn catch_up(&mut self) {
        let wall = self.moment().wall;
        let queued = self.checker.rows.values().filter(|job| matches!(job.status.state, State::Queued(_)));
        let starts = queued.map(|job| {
            (job.spec.windows.is_always(), calendar::start_of(job, wall).max(job.status.updated_at))
        });
        let (mut last, mut first_opening) = (None, None);
        for (always, start) in starts {
            if start <= wall {
                return;
            }
            if always {
                last = last.max(Some(start));
            } else {
                first_opening = first_opening.min(Some(start)).or(Some(start));
            }
        }
        let Some(ahead) = last.or(first_opening) else { return };
        self.offset += i64::try_from(ahead.since(wall)).unwrap_or(0);
        self.checker.now = self.moment();
    }

    /// Checks whether everything is done; fails if it is not after a long time.
    fn look(&mut self) {
        self.catch_up();
        self.let_everything_go();
        // A late retry of a request may have created a schedule again.
        if self.checker.has_schedules() {
            self.end_schedules();
        }
        self.let_groups_and_outsiders_end();
        let over = self.checker.open().is_empty() && self.checker.open_groups().is_empty();
        let quiet = self.kernel.is_some() && over && !self.clients.wait();
        let patience = 1_010 + self.script.calm_at + 1_800_000;
        if (quiet && !self.checker.waits() && self.commits.is_empty()) || self.ms > patience {
            self.checker.whole(&self.vault);
            self.checker.over();
            self.done = true;
        } else {
            self.queue.at(self.ms + 2_000, Event::Look);
        }
    }
}

/// The wall clock at a monotonic time, with this offset.
fn wall_at(mono: u64, offset: i64) -> Time {
    let ms = WALL + i64::try_from(mono).unwrap_or(i64::MAX / 4) + offset;
    Time::from_ms(ms).unwrap_or(Time::EPOCH)
}
