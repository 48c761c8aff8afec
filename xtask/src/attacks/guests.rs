//! Attackers that are guests: a router that behaves while the attack rests is replaced by a hostile one during a slice.

use std::error::Error;
use std::fmt;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{Answer, Client, Request};
use bootinfo::Misdeed;
use support::Counters;
use support::attack::{Attack, talking_kernel};

use super::scene::Scene;

/// Interval between two readings of the clock, and between two readings of the guest's counters, which restart at zero with
/// each life of the guest.
const LOOK: Duration = Duration::from_millis(20);
const COUNT: Duration = Duration::from_secs(1);
/// A hostile firmware behaves for a second after its start.
const GOOD_TIME: Duration = Duration::from_millis(1100);
/// Misdeeds that have attacks of their own, or that end a firmware as another one does.
const ALONE: [Misdeed; 3] = [Misdeed::Resets, Misdeed::Commands, Misdeed::Tables];

/// Error: this host cannot run such a guest.
#[derive(Debug)]
pub(super) struct NotHere(String);

impl fmt::Display for NotHere {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for NotHere {}

/// Function that queries the run for the number of the guest's acts.
type Count = fn(&mut Client) -> u64;

/// Guests that attack alternately, one per slice.
pub(super) struct Guests {
    client: Client,
    /// File with the behaving router, and files with the hostile guests.
    plain: String,
    files: Vec<String>,
    turn: usize,
    /// Time for which a guest behaves.
    good_time: Duration,
    /// True if a guest has started that was not counted yet.
    begun: bool,
    /// None: one act per start of a guest.
    count: Option<Count>,
    moved: ResettingCounter,
    next: Option<Instant>,
}

/// Total of a counter that restarts at zero with each life of its owner.
#[derive(Clone, Copy, Debug, Default)]
struct ResettingCounter {
    last: u64,
    sum: u64,
}

impl ResettingCounter {
    fn see(&mut self, now: u64) {
        self.sum += now.checked_sub(self.last).unwrap_or(now);
        self.last = now;
    }
}

impl Guests {
    /// Firmware that commits each misdeed in turn, except those that have attacks of their own.
    pub(super) fn misdeeds(scene: &mut Scene) -> Result<Self> {
        let in_turn = Misdeed::ALL.into_iter().filter(|misdeed| !ALONE.contains(misdeed));
        Self::firmware(scene, in_turn.collect(), None)
    }

    /// Firmware that commits one misdeed.
    pub(super) fn misdeed(scene: &mut Scene, misdeed: Misdeed) -> Result<Self> {
        let count = if misdeed == Misdeed::TripleFault { restarts } else { register_writes };
        Self::firmware(scene, vec![misdeed], Some(count))
    }

    fn firmware(scene: &mut Scene, misdeeds: Vec<Misdeed>, count: Option<Count>) -> Result<Self> {
        let plain = scene.site.file();
        let hostile = |misdeed: Misdeed| {
            let role = format!("name = 'bad'\nrole = 'hostile'\nmisdeed = '{}'", misdeed.name());
            plain.replace("name = 'bad'", &role)
        };
        let files = misdeeds.into_iter().map(hostile).collect();
        Self::new(scene, files, (GOOD_TIME, count))
    }

    /// Kernel that writes to its console endlessly.
    pub(super) fn talker(scene: &mut Scene) -> Result<Self> {
        let (kernel, console) = (scene.stage.path("kernel"), scene.stage.path("console"));
        fs::write(&kernel, talking_kernel())?;
        let files = vec![scene.site.linux_file(&kernel, &console)];
        Self::new(scene, files, (Duration::ZERO, Some(console_octets)))
    }

    fn new(
        scene: &mut Scene,
        files: Vec<String>,
        (good_time, count): (Duration, Option<Count>),
    ) -> Result<Self> {
        let (client, plain) = (scene.client()?, scene.site.file());
        let (moved, next) = (ResettingCounter::default(), None);
        let mut guests = Self { client, plain, files, turn: 0, good_time, begun: false, count, moved, next };
        for turn in 0..guests.files.len() {
            guests.try_out(turn)?;
        }
        Ok(guests)
    }

    /// Checks whether the guest could be put in place, without doing so.
    fn try_out(&mut self, turn: usize) -> Result<()> {
        let (file, text) = ("attacks.toml".to_owned(), self.files[turn].clone());
        match self.client.ask(&Request::Apply { file, text, dry_run: true }) {
            Ok(_) => Ok(()),
            // A file is not at fault for requesting a feature that other hosts support.
            Err(why) if why.to_string().contains("router.engine") => Err(NotHere(why.to_string()).into()),
            Err(why) => Err(why.into()),
        }
    }

    fn apply(&mut self, text: String) -> Result<()> {
        match self.client.ask(&Request::Apply { file: "attacks.toml".to_owned(), text, dry_run: false })? {
            Answer::Applied { .. } => Ok(()),
            other => bail!("not applied, but {other:?}"),
        }
    }

    fn look(&mut self) {
        if let Some(count) = self.count {
            self.moved.see(count(&mut self.client));
            self.next = Some(Instant::now() + COUNT);
        }
    }
}

impl Attack for Guests {
    fn begin(&mut self) -> Result<()> {
        self.apply(self.files[self.turn % self.files.len()].clone())?;
        self.turn += 1;
        sleep(self.good_time);
        self.look();
        (self.begun, self.moved.sum) = (true, 0);
        Ok(())
    }

    fn act(&mut self, until: Instant) -> Result<bool> {
        sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        if self.next.is_some_and(|next| Instant::now() >= next) {
            self.look();
        }
        Ok(std::mem::take(&mut self.begun) && self.count.is_none())
    }

    fn counted(&mut self) -> Result<u64> {
        self.look();
        Ok(std::mem::take(&mut self.moved.sum))
    }

    fn rest(&mut self) -> Result<()> {
        self.next = None;
        self.apply(self.plain.clone())
    }
}

fn counters(client: &mut Client) -> Counters {
    // An error: the guest does not exist at the moment.
    client.counters(Some("bad")).map(|counters| Counters::from_answer(&counters)).unwrap_or_default()
}

fn register_writes(client: &mut Client) -> u64 {
    counters(client).get("bad.vcpu0.exit.register_write")
}

fn console_octets(client: &mut Client) -> u64 {
    counters(client).sum(|name| name.starts_with("bad.console."))
}

fn restarts(client: &mut Client) -> u64 {
    let Ok(status) = client.status() else { return 0 };
    let bad = status.routers.iter().find(|router| router.name == "bad");
    bad.map_or(0, |router| router.restarts.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_life_has_counted_is_added_to_that_of_the_old_one() {
        let mut moved = ResettingCounter::default();
        [5, 7, 2, 2, 0, 10].into_iter().for_each(|now| moved.see(now));
        assert_eq!(moved.sum, 5 + 2 + 2 + 10);
    }
}
