//! gobgpd (Debian: package gobgpd), a BGP speaker without a data path: it replays dumps, and takes its routes back.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Timeout for the daemon to answer, and for a call of its client that changes little.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
/// Time without another route after which the daemon has taken what it was given.
const QUIET: Duration = Duration::from_millis(500);
/// Attempts to inject a dump: the client of 3.10 ends before the daemon has taken the last routes, which are then lost.
const ATTEMPTS: usize = 20;

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 unicast.
    V4,
    /// IPv6 unicast.
    V6,
}

impl Family {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Name in the client's options.
    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

/// A speaker and its only neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    /// Its AS number.
    pub number: u32,
    /// Its address, which is its router ID as well; of IPv4.
    pub address: IpAddr,
    /// The neighbour's AS number.
    pub neighbour_number: u32,
    /// The neighbour's address.
    pub neighbour: IpAddr,
}

impl Speaker {
    /// Configuration file: both families over one session, and graceful restart of the neighbour.
    fn file(&self) -> String {
        let Self { number, address, neighbour_number, neighbour } = self;
        let family = |name: &str| {
            format!(
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}-unicast\"\n\
                 [neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n"
            )
        };
        format!(
            "[global.config]\nas = {number}\nrouter-id = \"{address}\"\nlocal-address-list = [\"{address}\"]\n\
             [[neighbors]]\n[neighbors.config]\nneighbor-address = \"{neighbour}\"\npeer-as = {neighbour_number}\n\
             [neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 600\n{}{}",
            family("ipv4"),
            family("ipv6")
        )
    }
}

/// Makes a command for a program that runs where the speaker runs.
type Place = Box<dyn Fn(&str) -> Command + Send>;

/// A running gobgpd, killed when dropped.
pub struct Gobgpd {
    process: Child,
    place: Place,
}

impl Gobgpd {
    /// Starts it by the commands that `place` makes, for example in a network namespace of its own, in which loopback is up; its file
    /// is written to `folder`.
    ///
    /// # Errors
    /// It is not installed, or does not answer.
    pub fn start(
        place: impl Fn(&str) -> Command + Send + 'static,
        speaker: &Speaker,
        folder: &Path,
    ) -> Result<Self> {
        let file = folder.join(format!("gobgpd-{}.toml", speaker.address));
        fs::write(&file, speaker.file()).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = place("gobgpd");
        command.arg("-f").arg(&file).args(["--api-hosts", "127.0.0.1:50051", "--pprof-disable"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().context("cannot start gobgpd (Debian: package gobgpd)")?;
        let speaker = Self { process, place: Box::new(place) };
        let end = Instant::now() + PATIENCE;
        while speaker.try_ask(&["global"]).is_err() {
            ensure!(Instant::now() < end, "gobgpd does not answer");
            sleep(LOOK);
        }
        Ok(speaker)
    }

    /// Returns its number of routes.
    ///
    /// # Errors
    /// It does not answer.
    pub fn count(&self, family: Family) -> Result<usize> {
        let told = self.ask(&["global", "rib", "summary", "-a", family.name()])?;
        destinations(&told).with_context(|| format!("gobgp does not tell how many routes there are: {told}"))
    }

    /// Adds the routes of a dump of one family (`file`); returns when it has all of them, `whole` with those that it had before.
    ///
    /// # Errors
    /// It does not take them.
    pub fn inject(&self, file: &Path, family: Family, whole: usize) -> Result<()> {
        let before = self.count(family)?;
        let path = file.to_str().context("the path of a dump is no text")?;
        let mut has = before;
        for _ in 0..ATTEMPTS {
            let (more, skip) = (whole.saturating_sub(has).to_string(), (has - before).to_string());
            self.ask(&["mrt", "inject", "global", path, &more, &skip])?;
            has = self.settled(family, whole)?.max(before);
            if has >= whole {
                break;
            }
        }
        ensure!(has == whole, "gobgpd has {has} routes of {}, not {whole}", family.name());
        Ok(())
    }

    /// Takes all its routes of a family back.
    ///
    /// # Errors
    /// It does not do so.
    pub fn withdraw(&self, family: Family) -> Result<()> {
        self.ask(&["global", "rib", "del", "all", "-a", family.name()])?;
        let end = Instant::now() + PATIENCE;
        while self.count(family)? > 0 {
            ensure!(Instant::now() < end, "gobgpd keeps routes");
            sleep(LOOK);
        }
        Ok(())
    }

    /// Returns true if its session with the neighbour is up.
    pub fn is_established(&self) -> bool {
        self.try_ask(&["neighbor"]).is_ok_and(|told| told.contains(" Establ"))
    }

    /// Its number of routes once it has so many, or no more come.
    fn settled(&self, family: Family, whole: usize) -> Result<usize> {
        let mut has = self.count(family)?;
        while has < whole {
            sleep(QUIET);
            let now = self.count(family)?;
            if now == has {
                break;
            }
            has = now;
        }
        Ok(has)
    }

    /// Runs its client; returns what that says. On a busy host the daemon may not accept a connection in the client's time: it is
    /// tried again.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.try_ask(words) {
                Err(_) if Instant::now() < end => sleep(LOOK),
                told => return told,
            }
        }
    }

    fn try_ask(&self, words: &[&str]) -> Result<String> {
        let done = (self.place)("gobgp").args(words).stdin(Stdio::null()).output();
        let done = done.context("cannot run gobgp (Debian: package gobgpd)")?;
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        let why = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "gobgp {}: {told}{why}", words.join(" "));
        Ok(told)
    }
}

impl Drop for Gobgpd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Number of networks in `Destination: 3, Path: 3`.
fn destinations(told: &str) -> Option<usize> {
    let number = told.lines().find_map(|line| line.strip_prefix("Destination: "))?;
    number.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_says_is_understood() {
        assert_eq!(
            destinations("Table ipv4-unicast\nDestination: 1000000, Path: 1000003\n"),
            Some(1_000_000)
        );
        assert_eq!(destinations("Table ipv4-unicast\n"), None);
    }

    #[test]
    fn its_file_names_both_families_and_its_neighbour() {
        let speaker = Speaker {
            number: 65010,
            address: [10, 0, 1, 2].into(),
            neighbour_number: 65001,
            neighbour: [10, 0, 1, 1].into(),
        };
        let file: toml::Table = speaker.file().parse().expect("TOML");
        let neighbour = &file["neighbors"][0];
        assert_eq!(neighbour["config"]["neighbor-address"].as_str(), Some("10.0.1.1"));
        assert_eq!(neighbour["config"]["peer-as"].as_integer(), Some(65001));
        let families = neighbour["afi-safis"].as_array().expect("a list");
        let names: Vec<_> =
            families.iter().filter_map(|one| one["config"]["afi-safi-name"].as_str()).collect();
        assert_eq!(names, ["ipv4-unicast", "ipv6-unicast"]);
        let restarts = |one: &toml::Value| one["mp-graceful-restart"]["config"]["enabled"].as_bool();
        assert!(families.iter().all(|one| restarts(one) == Some(true)));
    }
}
