//! Data plane: the unprivileged process that runs the guests, their devices and ports.
//!
//! The supervisor starts it, and controls it by the link on its standard input. Before it learns what to run
//! it has dropped its capabilities, and its main thread is confined to [`Class::Control`]; every other thread
//! confines itself further. So whatever a guest, a frame or a file may do to this process, it can open no
//! file, connect to no socket and start no program. It ends when its supervisor does.
//!
//! The main thread carries out orders one after the other. The link has a thread of its own, which reports
//! counters and the status of the routers whatever the main thread is doing.
#![forbid(unsafe_code)]

mod answers;
mod capturing;
mod known;
mod orders;
mod threads;
mod tracing;
mod wire;

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attach::HandedOver;
use engine::{About, CounterRegistry, HostServices, Instance, now_ns};
use link::{Link, ToPlane, ToSupervisor};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use sandbox::{Class, MissingIsolation};

use known::PublishedStatus;
use wire::LinkEndpoint;

/// Time between two looks at the routers.
const LOOK: Duration = Duration::from_millis(100);

/// Runs what the supervisor with this process number orders, as `user`, if given, until the supervisor tells
/// it to stop or ends.
///
/// # Errors
/// It was not started by a supervisor, this kernel cannot confine it, or the link breaks.
pub fn run(supervisor: u32, user: Option<u32>) -> Result<()> {
    let _ = rustix::thread::set_name(c"ringroad/plane");
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("no link to a supervisor")?;
    die_with(supervisor)?;
    let missing = sandbox::give_up_privileges(user)?;
    // A change of credentials may have reset it.
    die_with(supervisor)?;
    // The handler must be installed before threads that interrupt others are confined, since their filter
    // forbids it.
    signals::interrupt::signal();
    sandbox::confine(Class::Control)?;
    let (wire, counts, known) = (
        Arc::new(LinkEndpoint::new(Link::new(socket))?),
        CounterRegistry::default(),
        PublishedStatus::default(),
    );
    attend(&wire, &counts, &known)?;
    tell_of(&missing, &wire)?;
    let Some(mut plane) = DataPlane::start(&wire, counts, known)? else { return Ok(()) };
    let served = plane.serve();
    if plane.instance.standing_thread().is_some() {
        plane.wire.drain(Instant::now() + Duration::from_secs(1));
        // To drop it is to wait for that thread; the end of the process ends both.
        std::mem::forget(plane);
    }
    served
}

/// Isolation features that this host lacks for a data plane that runs as `user`. To find out, this process
/// drops its privileges.
///
/// # Errors
/// A privilege cannot be dropped.
pub fn probe(user: Option<u32>) -> Result<Vec<MissingIsolation>> {
    sandbox::give_up_privileges(user)
}

/// Reports to the supervisor which isolation features are missing.
fn tell_of(missing: &[MissingIsolation], wire: &LinkEndpoint) -> Result<()> {
    missing.iter().try_for_each(|what| {
        let kind = telemetry::Kind::Notice.name().to_owned();
        let message = format!("the data plane has {what}; the filters of its threads hold");
        wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })
    })
}

/// Starts the thread that serves the link to the supervisor, with the same confinement as this one.
fn attend(wire: &Arc<LinkEndpoint>, counts: &CounterRegistry, known: &PublishedStatus) -> Result<()> {
    let (wire, counts, known) = (wire.clone(), counts.clone(), known.clone());
    let thread = std::thread::Builder::new().name("ringroad/link".to_owned());
    let started = thread.spawn(move || wire.attend(|request| answers::at_once(request, &counts, &known)));
    started.map(drop).context("cannot start the thread that hears the supervisor")
}

/// Makes this process end with its supervisor.
fn die_with(supervisor: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot end with the supervisor")?;
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    ensure!(parent == supervisor, "this verb is for the supervisor alone; write `ringroad run FILE`");
    Ok(())
}

/// A data plane in operation.
struct DataPlane {
    wire: Arc<LinkEndpoint>,
    /// Name of the run.
    run: String,
    instance: Instance,
    /// Status of the routers, for the link thread.
    known: PublishedStatus,
    /// At most one, which the engine enforces.
    tracing: Vec<tracing::Tracing>,
    captures: Vec<capturing::Capturing>,
    /// Threads as last reported to the supervisor.
    told: Vec<api::Thread>,
    /// Held as long as this process lives.
    locks: Vec<OwnedFd>,
}

impl DataPlane {
    /// Waits for the orders and brings up what they describe; `None` if that fails, which has been reported.
    fn start(
        wire: &Arc<LinkEndpoint>,
        counts: CounterRegistry,
        known: PublishedStatus,
    ) -> Result<Option<Self>> {
        let (orders, descriptors) = loop {
            match wire.next(None)? {
                Some((ToPlane::Start(orders), descriptors)) => break (orders, descriptors),
                // Requests before the start have no meaning.
                Some(_) => {}
                None => return Ok(None),
            }
        };
        if let Some(name) =
            orders.isolated.as_deref().and_then(|name| CString::new(format!("{name}/plane")).ok())
        {
            let _ = rustix::thread::set_name(&name);
        }
        let run = orders.run.clone();
        let started = orders::understand(orders, descriptors, wire).and_then(|order| {
            let instance = Instance::start(&order.plan, HostServices { counts, ..order.supplies })?;
            Ok((instance, order.locks))
        });
        match started {
            Ok((instance, locks)) => {
                let mut plane = Self {
                    wire: wire.clone(),
                    run,
                    instance,
                    known,
                    tracing: Vec::new(),
                    captures: Vec::new(),
                    told: Vec::new(),
                    locks,
                };
                plane.publish()?;
                wire.say(&ToSupervisor::Started { at_ns: now_ns() })?;
                Ok(Some(plane))
            }
            Err(error) => {
                wire.say(&ToSupervisor::Failed { why: format!("{error:#}") })?;
                wire.drain(Instant::now() + Duration::from_secs(1));
                Ok(None)
            }
        }
    }

    /// Serves until the supervisor says stop or is gone.
    fn serve(&mut self) -> Result<()> {
        let mut look = Instant::now() + LOOK;
        loop {
            match self.wire.next(Some(look))? {
                Some((ToPlane::Stop, _)) => return Ok(()),
                Some((message, descriptors)) => self.handle_order(message, descriptors, Instant::now())?,
                None if self.wire.is_ended() => return Ok(()),
                None => {}
            }
            let now = Instant::now();
            if now >= look {
                look = now + LOOK;
                self.look_after()?;
            }
        }
    }

    fn handle_order(&mut self, message: ToPlane, descriptors: Vec<OwnedFd>, now: Instant) -> Result<()> {
        match message {
            ToPlane::Ask { id, request: request @ api::Request::Trace { .. } } => {
                self.begin_trace(id, request)
            }
            ToPlane::Ask { id, request: request @ api::Request::Capture { .. } } => {
                self.begin_capture(id, request, descriptors)
            }
            ToPlane::Ask { id, request } => {
                let outcome = self.answer(request, now);
                self.say_done(id, outcome)
            }
            ToPlane::Apply { id, orders, dry_run } => {
                let outcome = self.apply(orders, descriptors, dry_run);
                self.say_done(id, outcome)
            }
            ToPlane::Forget { id } => {
                self.forget_trace(id);
                self.forget_capture(id);
                Ok(())
            }
            ToPlane::Share { threads } => {
                self.instance.share(threads);
                Ok(())
            }
            ToPlane::Replace { nic, what } => self.replace(&nic, HandedOver { what, descriptors }),
            ToPlane::Plugged { nic } => {
                self.instance.cable_changed(&nic);
                Ok(())
            }
            ToPlane::Drain { router, is_on } => {
                self.instance.drain(&router, is_on);
                self.publish()
            }
            ToPlane::Learning { router, is_on } => {
                self.instance.set_learning(&router, is_on);
                self.publish()
            }
            ToPlane::Gateways { group, gateways } => {
                self.instance.watch_gateways(&group, &gateways);
                Ok(())
            }
            ToPlane::Learn { router, lesson } => {
                let (late, epoch) = self.instance.learn(&router, &lesson);
                self.wire.say(&ToSupervisor::Learned { router, late: late as u64, epoch })
            }
            ToPlane::FindWay { of, question } => self.find_way(of, &question),
            ToPlane::FoundWay { of, way } => self.found_way(&of, way),
            ToPlane::Ping => self.wire.say(&ToSupervisor::Pong),
            // A second start, or a late reply to an abandoned request.
            ToPlane::Start(_)
            | ToPlane::Spawned { .. }
            | ToPlane::NotSpawned { .. }
            | ToPlane::FoundThread { .. }
            | ToPlane::Stop => Ok(()),
        }
    }

    /// Replaces a NIC's attachment, whose link was made again.
    fn replace(&mut self, nic: &str, by: HandedOver) -> Result<()> {
        let Err(error) = self.instance.replace(nic, by) else { return Ok(()) };
        let kind = telemetry::Kind::Notice.name().to_owned();
        let message = format!("{nic}: {error:#}");
        self.wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })
    }

    /// Publishes the status of the routers, and reports their threads to the supervisor.
    fn publish(&mut self) -> Result<()> {
        let threads = self.known.publish(&self.run, &self.instance);
        self.tell_of_threads(threads)
    }

    /// Periodic work: routers that fail or break rules, traces, captures.
    fn look_after(&mut self) -> Result<()> {
        let news = self.instance.look_after(Instant::now());
        self.publish()?;
        self.say_events(news)?;
        if let Some(thread) = self.instance.standing_thread() {
            return self.give_up(&thread);
        }
        for nic in self.instance.take_plugged() {
            self.wire.say(&ToSupervisor::Plugged { nic })?;
        }
        for (group, gateways) in self.instance.take_silent_gateways() {
            self.wire.say(&ToSupervisor::SilentGateways { group, gateways })?;
        }
        self.go_on_tracing()?;
        self.go_on_capturing()
    }

    /// Tells that a thread stands still, whose links only the end of this process frees, and fails for that.
    fn give_up(&self, thread: &str) -> Result<()> {
        let kind = telemetry::Kind::Notice.name().to_owned();
        let message = format!("{thread} moves no frames any more: the next data plane takes its links over");
        self.wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })?;
        bail!("{thread} stands still, so this data plane ends")
    }

    /// Answers a request. What it has done is published first, and its events are sent first: a client that has the answer finds
    /// them, even if this process ends now.
    fn say_done(&mut self, id: u64, outcome: api::Outcome) -> Result<()> {
        self.publish()?;
        let news = self.instance.take_events();
        self.say_events(news)?;
        self.wire.say(&ToSupervisor::Answer { id, outcome })
    }

    fn say_events(&self, news: Vec<engine::Event>) -> Result<()> {
        for event in news {
            let (kind, router) = (event.kind.name().to_owned(), Some(event.router));
            let (of_peer, process) = match event.about {
                About::Router => (false, None),
                About::Peer { process } => (true, process),
            };
            let message = event.message;
            self.wire.say(&ToSupervisor::Event { kind, router, of_peer, process, message })?;
        }
        Ok(())
    }
}
