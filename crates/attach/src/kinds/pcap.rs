//! `pcap:FILE`: a capture file of all frames sent; with `replay`, frames are received from another capture
//! file.

mod capture;
mod player;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use port::pcap::PcapCounters;
use port::{Clock, Sink};
use rustix::fs::fstat;
use sandbox::Confinement;
use serde_json::json;

use crate::attach::path;
use crate::slow_file::Capture;
use crate::{
    About, Attachment, Finding, FixedDescriptors, HandedOver, HostResource, Key, Keywords, Kind,
    MissingRequirement, News, NicRequirements, Outside, Place, Ports, ServiceContext, State, Takes, files,
    lack, safe_open,
};
use capture::Writer;
use player::{Player, ReplayCounters};

/// File whose frames are received.
const REPLAY: &str = "replay";
/// Pace at which they are received.
const PACE: &str = "replay_pace";
/// At the pace of the capture; otherwise as fast as the router accepts them.
const RECORDED: &str = "recorded";

const PACES: Keywords<()> =
    Keywords { noun: ("pace", "paces"), now: &[("fast", ()), (RECORDED, ())], later: &[] };

pub(crate) const KIND: Kind = Kind {
    keys: &[
        Key {
            verb: "replays ",
            ..Key::new(
                REPLAY,
                Takes::Text("\"in.pcap\""),
                ("a capture file", "none"),
                "frames that come in by pcap:",
            )
        },
        Key {
            with: Some((REPLAY, "it says how fast a file is replayed; add replay = \"FILE\", or remove it")),
            ..Key::new(PACE, Takes::Word(PACES), ("fast, recorded", "fast"), "how fast they come")
        },
    ],
    read: |text, name| path(text, name, "wan.pcap"),
    counts: &[("replay", ReplayCounters::FIELDS), ("pcap", PcapCounters::FIELDS)],
    ..Kind::plain("pcap", Some("FILE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let replay = wanted.attach.key(REPLAY).map(|from| player::open(Path::new(from)));
    let replay = replay.and_then(|played| Some((REPLAY, format!("{:#}", played.err()?))));
    let written = files::written(Path::new(wanted.attach.name()));
    match (replay, written) {
        (None, Ok(what)) => Ok((State::Ok, what.to_owned())),
        (replay, written) => {
            Err(replay.into_iter().chain(written.err().into_iter().flat_map(lack)).collect())
        }
    }
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let path = PathBuf::from(wanted.attach.name());
    let replay = wanted.attach.key(REPLAY).map(|from| player::open(Path::new(from))).transpose()?;
    let recorded = wanted.attach.key(PACE) == Some(RECORDED);
    // The file to capture into, then the file to be replayed, if any, with its pace.
    let what = json!([replay.is_some(), recorded]);
    let descriptors = [create(&path)?].into_iter().chain(replay.map(OwnedFd::from)).collect();
    Ok(Box::new(FixedDescriptors {
        what,
        descriptors,
        renewed: Some((path, renew)),
        ..FixedDescriptors::default()
    }))
}

fn create(path: &Path) -> Result<OwnedFd> {
    Ok(safe_open::create(path).with_context(|| format!("cannot write {}", path.display()))?.into())
}

/// Gives a new data plane a new file to capture into, because the old one may end in the middle of a frame.
/// `x.pcap` is continued in `x.2.pcap`.
fn renew(path: &Path, descriptors: &mut [OwnedFd], times: u32) -> Result<()> {
    let Some(capture) = descriptors.first_mut() else { return Ok(()) };
    if fstat(&*capture)?.st_size > 0 {
        *capture = create(&continuation(path, times.saturating_add(1)))?;
    }
    Ok(())
}

fn serve(
    mut handed: HandedOver,
    wanted: &NicRequirements,
    confinement: Confinement,
) -> Result<Arc<dyn Attachment>> {
    let (replays, recorded) = handed.parts::<(bool, bool)>()?;
    let label = wanted.label();
    let replay = if replays { Some(handed.last()?) } else { None };
    let player =
        replay.map(|replay| Player::start(Clock::default(), (&label, replay.into()), recorded, confinement));
    let (port, capture, writer) = capture::into(&label, handed.last()?.into(), confinement)?;
    let told = AtomicBool::new(false);
    Ok(Arc::new(Captured { port, capture, _writer: writer, told, player: player.transpose()? }))
}

fn continuation(path: &Path, number: u32) -> PathBuf {
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    path.with_extension(extension.map_or_else(|| number.to_string(), |old| format!("{number}.{old}")))
}

/// A capture file and the port that fills it.
struct Captured {
    port: Arc<dyn Sink>,
    capture: Capture,
    /// Writes the captured frames to the file.
    _writer: Writer,
    /// True if a write error was reported.
    told: AtomicBool,
    /// The replay, if there is one.
    player: Option<Player>,
}

impl Attachment for Captured {
    fn ports(&self, _: &ServiceContext<'_>) -> Result<Ports> {
        let played = self.player.as_ref().map(|player| player.lend().context("its port is still in use"));
        let (source, replay) = played.transpose()?.unzip();
        let capture = self.capture.clone();
        let outside = Outside::counting(move |visit| {
            visit("pcap", capture.counters());
            replay.iter().for_each(|counters| visit("replay", &**counters));
        });
        let (sources, sinks) = (source.into_iter().collect(), vec![self.port.clone()]);
        Ok(Ports { sources, sinks, outside, ..Ports::default() })
    }

    /// Reports write errors of the capture and recovery from them, and the end of the replay.
    fn news(&self) -> Option<News> {
        let fails = self.capture.has_failed();
        if self.told.swap(fails, Ordering::Relaxed) == fails {
            return self.player.as_ref()?.news().map(News::of_link);
        }
        Some(if fails {
            let line = "its capture cannot be written; frames are lost until it can be (pcap.drop_failed)";
            News { about: About::Capture, line: line.to_owned() }
        } else {
            News::of_link("its capture is written again".to_owned())
        })
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it has no link")
    }
}

#[cfg(test)]
mod tests;
