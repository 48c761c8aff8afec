//! The data plane: the process that has the guests, their devices and ports, and no privilege.
//!
//! It is started by the supervisor and hears it by the link on its standard input. Before it learns what to run it has
//! given up its capabilities, and its main thread is confined to what [`Class::Control`] needs; every further thread
//! confines itself further. So whatever a guest, a frame or a file may do to this process, it can open nothing, connect
//! to nothing and start nothing. It ends when its supervisor does.
//!
//! Orders are carried out one after the other by the main thread. The link has a thread of its own, which tells what was counted, and how
//! the routers are, whatever the main thread is doing.
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

use anyhow::{Context, Result, ensure};
use attach::Handed;
use engine::{About, Counts, Instance, Supplies, now_ns};
use link::{Link, ToPlane, ToSupervisor};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use sandbox::{Class, Missing};

use known::Known;
use wire::Wire;

/// Between two looks at the routers.
const LOOK: Duration = Duration::from_millis(100);

/// Runs what the supervisor with this process number orders, until it says otherwise or ends, as `user`, if one is given.
///
/// # Errors
/// It was not started by a supervisor, this kernel cannot confine it, or the link breaks.
pub fn run(supervisor: u32, user: Option<u32>) -> Result<()> {
    let _ = rustix::thread::set_name(c"ringroad/plane");
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("no link to a supervisor")?;
    die_with(supervisor)?;
    let missing = sandbox::give_up_privileges(user)?;
    // A change of credentials may have taken it back.
    die_with(supervisor)?;
    // Its handler is there before a thread that may interrupt others, and set no handlers, has its filter.
    signals::interrupt::signal();
    sandbox::confine(Class::Control)?;
    let (wire, counts, known) =
        (Arc::new(Wire::new(Link::new(socket))?), Counts::default(), Known::default());
    attend(&wire, &counts, &known)?;
    tell_of(&missing, &wire)?;
    let Some(mut plane) = DataPlane::start(&wire, counts, known)? else { return Ok(()) };
    plane.serve()
}

/// What this host does not give a data plane that becomes `user`. This process gives up its privileges for the answer.
///
/// # Errors
/// Something cannot be given up.
pub fn probe(user: Option<u32>) -> Result<Vec<Missing>> {
    sandbox::give_up_privileges(user)
}

/// Tells the supervisor what this process could not be given.
fn tell_of(missing: &[Missing], wire: &Wire) -> Result<()> {
    missing.iter().try_for_each(|what| {
        let kind = telemetry::Kind::Notice.name().to_owned();
        let message = format!("the data plane has {what}; the filters of its threads hold");
        wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })
    })
}

/// Starts the thread that hears the supervisor. It is confined as this one is.
fn attend(wire: &Arc<Wire>, counts: &Counts, known: &Known) -> Result<()> {
    let (wire, counts, known) = (wire.clone(), counts.clone(), known.clone());
    let thread = std::thread::Builder::new().name("ringroad/link".to_owned());
    let started = thread.spawn(move || wire.attend(|request| answers::at_once(request, &counts, &known)));
    started.map(drop).context("cannot start the thread that hears the supervisor")
}

/// Ends this process with its supervisor.
fn die_with(supervisor: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot end with the supervisor")?;
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    ensure!(parent == supervisor, "this verb is for the supervisor alone; write `ringroad run FILE`");
    Ok(())
}

/// A data plane that serves.
struct DataPlane {
    wire: Arc<Wire>,
    /// Name of the run.
    run: String,
    instance: Instance,
    /// How the routers are, for the thread of the link.
    known: Known,
    /// At most one; the engine sees to that.
    tracing: Vec<tracing::Tracing>,
    captures: Vec<capturing::Capturing>,
    /// The threads that the supervisor was told of.
    told: Vec<api::Thread>,
    /// Held as long as this process lives.
    locks: Vec<OwnedFd>,
}

impl DataPlane {
    /// Waits for its orders and brings up what they say; none where they cannot be followed, which has been said.
    fn start(wire: &Arc<Wire>, counts: Counts, known: Known) -> Result<Option<Self>> {
        let (orders, descriptors) = loop {
            match wire.next(None)? {
                Some((ToPlane::Start(orders), descriptors)) => break (orders, descriptors),
                // It has nothing to be asked about.
                Some(_) => {}
                None => return Ok(None),
            }
        };
        if let Some(name) =
            orders.apart.as_deref().and_then(|name| CString::new(format!("{name}/plane")).ok())
        {
            let _ = rustix::thread::set_name(&name);
        }
        let run = orders.run.clone();
        let started = orders::understand(orders, descriptors, wire).and_then(|order| {
            let instance = Instance::start(&order.plan, Supplies { counts, ..order.supplies })?;
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

    /// Until the supervisor says stop or is gone.
    fn serve(&mut self) -> Result<()> {
        let mut look = Instant::now() + LOOK;
        loop {
            match self.wire.next(Some(look))? {
                Some((ToPlane::Stop, _)) => return Ok(()),
                Some((message, descriptors)) => self.heed(message, descriptors, Instant::now())?,
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

    fn heed(&mut self, message: ToPlane, descriptors: Vec<OwnedFd>, now: Instant) -> Result<()> {
        match message {
            ToPlane::Ask { id, request: request @ api::Request::Trace { .. } } => {
                self.begin_trace(id, request)
            }
            ToPlane::Ask { id, request: request @ api::Request::Capture { .. } } => {
                self.begin_capture(id, request, descriptors)
            }
            ToPlane::Ask { id, request } => {
                let outcome = self.answer(request, now);
                self.publish()?;
                self.wire.say(&ToSupervisor::Answer { id, outcome })
            }
            ToPlane::Apply { id, orders, dry_run } => {
                let outcome = self.apply(orders, descriptors, dry_run);
                self.publish()?;
                self.wire.say(&ToSupervisor::Answer { id, outcome })
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
            ToPlane::Replace { nic, what } => self.replace(&nic, Handed { what, descriptors }),
            ToPlane::Plugged { nic } => {
                self.instance.plugged(&nic);
                Ok(())
            }
            ToPlane::Ping => self.wire.say(&ToSupervisor::Pong),
            // A second start, or the end of a question that was given up.
            ToPlane::Start(_)
            | ToPlane::Spawned { .. }
            | ToPlane::NotSpawned { .. }
            | ToPlane::FoundThread { .. }
            | ToPlane::Stop => Ok(()),
        }
    }

    /// A link of a NIC is there again.
    fn replace(&mut self, nic: &str, by: Handed) -> Result<()> {
        let Err(error) = self.instance.replace(nic, by) else { return Ok(()) };
        let kind = telemetry::Kind::Notice.name().to_owned();
        let message = format!("{nic}: {error:#}");
        self.wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })
    }

    /// Publishes how the routers are now, and tells the supervisor of their threads.
    fn publish(&mut self) -> Result<()> {
        let threads = self.known.publish(&self.run, &self.instance);
        self.tell_of_threads(threads)
    }

    /// What has to be done now and then: routers that fail or break rules, traces, captures.
    fn look_after(&mut self) -> Result<()> {
        let news = self.instance.look_after(Instant::now());
        self.publish()?;
        for event in news {
            let (kind, router) = (event.kind.name().to_owned(), Some(event.router));
            let (of_peer, process) = match event.about {
                About::Router => (false, None),
                About::Peer { process } => (true, process),
            };
            let message = event.message;
            self.wire.say(&ToSupervisor::Event { kind, router, of_peer, process, message })?;
        }
        for nic in self.instance.take_plugged() {
            self.wire.say(&ToSupervisor::Plugged { nic })?;
        }
        self.go_on_tracing()?;
        self.go_on_capturing()
    }
}
