//! `pcap:FILE`: a capture file that everything sent is written to; with `replay`, what another one has comes in.

mod capture;
mod player;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nic_port::Receiver;
use port::Sink;
use port::pcap::PcapCounters;
use sandbox::Confinement;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::attach::path;
use crate::attachment::{About, Attachment, News, Outside, Ports, Site};
use crate::files;
use crate::kind::{Finding, Key, Kind, Lack, Place, Verdict, lack};
use crate::opened::{Counted, Opened, Turn, Watched, one};
use crate::wanted::Wanted;
use crate::words::Words;
use crate::written;
use capture::{Capture, Writer};
use player::{Player, ReplayCounters};

/// A file whose frames come in.
const REPLAY: &str = "replay";
/// How fast they come.
const PACE: &str = "replay_pace";
/// As they were captured; otherwise as fast as the router takes them.
const RECORDED: &str = "recorded";

const PACES: Words<()> = Words { noun: ("pace", "paces"), now: &[("fast", ()), (RECORDED, ())], later: &[] };

pub(crate) const KIND: Kind = Kind {
    keys: &[
        Key { verb: "replays ", ..Key::text(REPLAY, "\"in.pcap\"") },
        Key {
            with: Some((REPLAY, "it says how fast a file is replayed; add replay = \"FILE\", or remove it")),
            ..Key::word(PACE, PACES, "fast")
        },
    ],
    read: |text, name| path(text, name, "wan.pcap"),
    lacks,
    finding: |wanted| Some(finding(wanted)),
    counts: &[("replay", ReplayCounters::FIELDS), ("pcap", PcapCounters::FIELDS)],
    ..Kind::plain("pcap", Some("FILE"), Place::Outside { open, adopt })
};

/// Whether a file can be played.
fn replay(file: &str) -> Result<(), String> {
    player::open(Path::new(file)).map(drop).map_err(|error| format!("{error:#}"))
}

fn lacks(wanted: &Wanted) -> Vec<Lack> {
    let from = wanted.attach.key(REPLAY).and_then(|from| replay(from).err());
    let file = lack(files::written(Path::new(wanted.attach.name())).map(drop));
    from.map(|what| (REPLAY, what)).into_iter().chain(file).collect()
}

fn finding(wanted: &Wanted) -> Finding {
    if let Some(Err(what)) = wanted.attach.key(REPLAY).map(replay) {
        return (Verdict::No, what);
    }
    match files::written(Path::new(wanted.attach.name())) {
        Ok(what) => (Verdict::Ok, what.to_owned()),
        Err(what) => (Verdict::No, what),
    }
}

/// Files that are open.
#[derive(Debug)]
struct Files {
    /// Where what takes the capture lies; only whoever opened it knows.
    path: PathBuf,
    /// What takes the capture.
    capture: File,
    /// Whose frames come in, if any do.
    replay: Option<File>,
    /// As they were captured; otherwise as fast as they are taken.
    recorded: bool,
}

fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let path = PathBuf::from(wanted.attach.name());
    let replay = wanted.attach.key(REPLAY).map(|from| player::open(Path::new(from))).transpose()?;
    let recorded = wanted.attach.key(PACE) == Some(RECORDED);
    Ok(Box::new(Files { capture: create(&path)?, path, replay, recorded }))
}

fn create(path: &Path) -> Result<File> {
    written::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// What files are, beside their descriptors.
#[derive(Deserialize)]
struct Parts {
    replays: bool,
    recorded: bool,
}

fn adopt(what: Value, descriptors: &mut dyn Iterator<Item = OwnedFd>) -> Result<Box<dyn Opened>> {
    let Parts { replays, recorded } = serde_json::from_value(what)?;
    let capture = one(descriptors)?.into();
    let replay = if replays { Some(one(descriptors)?.into()) } else { None };
    Ok(Box::new(Files { path: PathBuf::new(), capture, replay, recorded }))
}

/// A file that takes a capture, as whoever opened it elsewhere has it.
pub fn capture(file: File) -> Box<dyn Opened> {
    Box::new(Files { path: PathBuf::new(), capture: file, replay: None, recorded: false })
}

impl Opened for Files {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        let what = json!({ "replays": self.replay.is_some(), "recorded": self.recorded });
        let descriptors = [&self.capture].into_iter().chain(&self.replay).map(AsFd::as_fd);
        (json!({ "pcap": what }), descriptors.collect())
    }

    fn serve(self: Box<Self>, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>> {
        let Self { capture: file, replay, recorded, .. } = *self;
        let label = wanted.label();
        let player = replay.map(|replay| Player::start(&label, replay, recorded, confinement)).transpose()?;
        let (port, capture, writer) = capture::into(&label, file, confinement)?;
        Ok(Arc::new(Captured { port, capture, _writer: writer, told: AtomicBool::new(false), player }))
    }

    fn resize(&mut self, _: &Wanted, _: &Wanted) -> Result<()> {
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Opened>) {
        drop(old);
    }

    /// Gives a new data plane a new file to capture into, if the old one may end in the middle of a frame. `x.pcap` goes on in
    /// `x.2.pcap`.
    fn turn(&mut self, turn: Turn) -> Result<()> {
        let Turn::Begins(times) = turn else { return Ok(()) };
        if self.capture.metadata().is_ok_and(|file| file.len() > 0) {
            self.capture = create(&continuation(&self.path, times.saturating_add(1)))?;
        }
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn counted(&self) -> Option<Counted<'_>> {
        None
    }

    fn notice(&self) -> Option<String> {
        None
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn attend(&self) {}
}

fn continuation(path: &Path, number: u32) -> PathBuf {
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    path.with_extension(extension.map_or_else(|| number.to_string(), |old| format!("{number}.{old}")))
}

/// A capture file and the port that fills it.
struct Captured {
    port: Arc<dyn Sink>,
    capture: Capture,
    /// Takes what is captured to the file.
    _writer: Writer,
    /// Whether somebody was told that it cannot be written.
    told: AtomicBool,
    /// What comes in, if something does.
    player: Option<Player>,
}

impl Attachment for Captured {
    fn ports(&self, _: &Site<'_>) -> Result<Ports> {
        let played = self.player.as_ref().map(|player| player.lend().context("its port is still in use"));
        let (source, replay) = played.transpose()?.unzip();
        let capture = self.capture.clone();
        let outside = Outside::counting(move |visit| {
            visit("pcap", capture.counters());
            replay.iter().for_each(|counters| visit("replay", &**counters));
        });
        let (sources, sinks) = (source.into_iter().collect(), vec![self.port.clone()]);
        Ok(Ports { sources, sinks, outside, ..Ports::none() })
    }

    fn link(&self) -> Option<bool> {
        None
    }

    /// Whether it cannot be written any more, or can again; what has come of the file that is played.
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

    fn replace(&self, _: Box<dyn Opened>) -> Result<()> {
        bail!("it has no link")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        None
    }

    fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::wanted::tests::wanted;

    #[test]
    fn a_capture_goes_on_in_a_file_of_its_own() {
        assert_eq!(continuation(Path::new("/a/x.pcap"), 2), Path::new("/a/x.2.pcap"));
        assert_eq!(continuation(Path::new("/a.b/x"), 3), Path::new("/a.b/x.3"));
        let folder = tempfile::tempdir().expect("a folder");
        let (path, next) = (folder.path().join("x.pcap"), folder.path().join("x.2.pcap"));
        let mut held = open(&wanted(&format!("pcap:{}", path.display()))).expect("opened");
        held.turn(Turn::Begins(1)).expect("nothing to do");
        assert!(!next.exists(), "nothing is in it yet");
        fs::write(&path, "frames").expect("written");
        held.turn(Turn::Ended).expect("nothing to do");
        assert!(!next.exists());
        held.turn(Turn::Begins(1)).expect("opened");
        assert!(path.exists() && next.exists());
    }
}
