//! `full-table`: a full table on its way into a running router.
//!
//! * `zebra/alone`, `zebra/recorded`, `zebra/ringroad`: FRR's own rate, fed by gobgpd over BGP: into the kernel alone, with a recorder
//!   in our place at its FPM connection, and into a router of ours. Thousands of routes a second, from the first route to the last.
//! * `replay`: the stream that was recorded, replayed by a peer in zebra's place: thousands of routes taken in a second. Beside it stands
//!   the time until the last packet went by the new table, under load to 8,192 destinations all over it.
//!
//! The recording is made by `zebra/recorded`, or first, and serves all repetitions.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fpm_peer::{Player, Recorder, Recording};
use uplink::Netns;

use super::feed::{self, Progress, furnish, in_kernel, speaker, table};
use super::traffic::{Arrivals, load};
use super::{nic, routes};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::full_table::FullTable;
use crate::plain_frr::PlainFrr;
use crate::rig::Worker;
use crate::rig::host_end::veth;
use crate::rig::router_run::{ControlledRun, Folder, freeze, ip};

/// Timeout for daemons to take a table.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Time between two looks at how many routes have come.
const LOOK: Duration = Duration::from_millis(100);
/// Destinations of the load.
const DESTINATIONS: usize = 8192;
/// Time without a packet by the old table after which there will be none.
const QUIET: Duration = Duration::from_secs(1);

/// The recording, once it was made.
static KEPT: Mutex<Option<Recording>> = Mutex::new(None);

/// Returns all cases.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    options.cpu(1)?;
    let routes = routes(options);
    let case = |name: &str, slice: fn(usize, &Options) -> Result<Sample>| {
        let options = options.clone();
        let slice = move |_: Duration| slice(routes, &options);
        Case::from(
            Experiment::unbuilt(("full-table", "kroutes/s"), format!("{name}/{routes}"), slice).whole(),
        )
    };
    Ok(vec![
        case("zebra/alone", |routes, _| zebra(routes, false)),
        case("zebra/recorded", |routes, _| zebra(routes, true)),
        case("zebra/ringroad", into_router),
        case("replay", replay),
    ])
}

/// The recording of this run.
fn recording(routes: usize) -> Result<Recording> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(kept) = kept.filter(|kept| kept.content().added >= routes) {
        return Ok(kept);
    }
    zebra(routes, true)?;
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone().context("nothing was recorded")
}

/// FRR in a namespace, gobgpd in another one.
fn zebra(routes: usize, is_recorded: bool) -> Result<Sample> {
    let (own, provider, folder) = (Netns::new()?, Netns::new()?, Folder::new()?);
    let _links = (own.settle(true)?, provider.settle(false)?);
    veth((&own, "new"), (&provider, "far"))?;
    furnish(&provider, "far")?;
    ip(&own, "address add 10.0.2.1/24 dev new")?;
    ip(&own, "link set new up")?;
    let _gobgpd = speaker(&provider, &table(routes), &folder.path)?;
    let before = in_kernel(&own)?;
    let listener = own.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, fpm::PORT)))??;
    let options = frr::Options { fpm: is_recorded, bfd: false };
    let network = own.as_fd().try_clone_to_owned().context("a descriptor of a namespace")?;
    let _frr = PlainFrr::start(network, feed::FRR, options, |_| {})?;
    let progress = if is_recorded {
        record(&listener, routes)?
    } else {
        progress(|| Ok(in_kernel(&own)?.saturating_sub(before)), routes)?
    };
    Ok(Sample { value: progress.rate().context("the routes came all at once")?, ..Sample::default() })
}

/// Looks until so many routes have come.
fn progress(mut count: impl FnMut() -> Result<usize>, routes: usize) -> Result<Progress> {
    let (mut progress, start) = (Progress::default(), Instant::now());
    loop {
        let has = count()?;
        progress.note(has);
        if has >= routes {
            return Ok(progress);
        }
        ensure!(start.elapsed() < PATIENCE, "{has} of {routes} routes have come within {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
}

/// Records until so many routes have come, and keeps the recording.
fn record(listener: &TcpListener, routes: usize) -> Result<Progress> {
    let mut recorder = Recorder::accept(listener, PATIENCE).context("zebra does not connect")?;
    let (mut progress, start) = (Progress::default(), Instant::now());
    while !recorder.take(LOOK, |content| content.added >= routes)? {
        progress.note(recorder.content().added);
        ensure!(start.elapsed() < PATIENCE, "zebra does not send {routes} routes within {PATIENCE:?}");
    }
    progress.note(recorder.content().added);
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorder.finish());
    Ok(progress)
}

/// A router whose static default route leads to the old TAP, and routes of BGP to the new one.
fn file(folder: &Path, name: &str, options: &Options) -> Result<String> {
    let frr = folder.join("frr.conf");
    fs::write(&frr, feed::FRR).with_context(|| format!("cannot write {}", frr.display()))?;
    let engine = crate::device::engine(options).name();
    Ok([
        format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n"),
        format!("control = {{ frr = \"{}\" }}\n", frr.display()),
        nic("near", "198.18.0.1/24"),
        nic("old", "10.0.1.1/24"),
        nic("new", "10.0.2.1/24"),
        "[[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"10.0.1.2\"\n".to_owned(),
        // Nothing but the load is to leave by the old TAP.
        "[[router.neighbour]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:09:09\"\n".to_owned(),
    ]
    .concat())
}

/// Room with this router under load, all of which goes by the old TAP.
struct Room {
    run: ControlledRun,
    name: String,
    old: Arrivals,
    /// Ends before the room.
    load: Option<Worker<()>>,
}

impl Room {
    fn open(options: &Options, table: &FullTable) -> Result<Self> {
        let mut run = ControlledRun::open(|folder, id| file(folder, id, options))?;
        let name = run.id().to_owned();
        furnish(run.netns(), "lab-new")?;
        let sessions = format!("{name}.fpm.sessions");
        run.wait("zebra's connection", PATIENCE, |run| Ok(run.counters()?.get(&sessions) > Some(&0)))?;
        let mac = run.mac(&name, "near")?;
        let old = Arrivals::at(&run, "lab-old", 1)?;
        let load = Some(load(&run, ("lab-near", mac), &table.addresses(DESTINATIONS, 1))?);
        run.wait("packets by the old table", PATIENCE, |_| Ok(old.frames() > DESTINATIONS as u64))?;
        Ok(Self { run, name, old, load })
    }

    /// Routes that zebra, or whoever is in its place, has added.
    fn added(&mut self) -> Result<usize> {
        let counters = self.run.counters()?;
        Ok(counters.get(&format!("{}.fpm.routes_added", self.name)).copied().unwrap_or(0) as usize)
    }

    /// Seconds from `since` until the last packet went by the old table.
    fn last_packet(&mut self, since: Instant) -> Result<f64> {
        let old = &self.old;
        self.run.wait("packets by the new table", PATIENCE, |_| Ok(old.is_quiet(QUIET)))?;
        let last = self.old.last().context("no packet has gone by the old table")?;
        Ok(last.saturating_duration_since(since).as_secs_f64())
    }

    fn close(mut self) -> Result<()> {
        self.load = None;
        drop(self.old);
        self.run.close()
    }
}

/// zebra's own rate into a router of ours.
fn into_router(routes: usize, options: &Options) -> Result<Sample> {
    let (table, folder) = (table(routes), Folder::new()?);
    let mut room = Room::open(options, &table)?;
    let before = room.added()?;
    let gobgpd = speaker(room.run.netns(), &table, &folder.path)?;
    let progress = progress(|| Ok(room.added()?.saturating_sub(before)), routes)?;
    // At the look before, zebra had not sent its last message: the time is too long rather than too short.
    let late = room.last_packet(progress.almost().context("the routes came all at once")?)?;
    drop(gobgpd);
    room.close()?;
    let value = progress.rate().context("the routes came all at once")?;
    Ok(Sample { value, more: [("last_packet_after_zebra_s", late)].into(), ..Sample::default() })
}

/// The recorded stream in zebra's place.
fn replay(routes: usize, options: &Options) -> Result<Sample> {
    let mut recording = recording(routes)?;
    let mut room = Room::open(options, &table(routes))?;
    let control = room.run.control(&room.name)?;
    let index = control.links()?.index("new")?;
    recording.rename(|_| index);
    // It would connect again.
    freeze("zebra", &room.name)?;
    let mut stream = control.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, fpm::PORT)))??;
    let (before, wanted) = (room.added()?, recording.content().added);
    let start = Instant::now();
    Player::new(&recording).play(usize::MAX, &mut stream).context("the router takes no more")?;
    let sent = start.elapsed().as_secs_f64();
    room.run.wait("all routes", PATIENCE, |run| {
        let counters = run.counters()?;
        let added = counters.get(&format!("{}.fpm.routes_added", room.name)).copied().unwrap_or(0);
        Ok(added as usize >= before + wanted)
    })?;
    let taken = start.elapsed().as_secs_f64();
    let last = room.last_packet(start)?;
    drop(stream);
    room.close()?;
    let more = [
        ("sent_s", sent),
        ("taken_s", taken),
        ("last_packet_s", last),
        ("octets", recording.octets().len() as f64),
    ];
    Ok(Sample { value: wanted as f64 / taken * 1e-3, more: more.into(), ..Sample::default() })
}
