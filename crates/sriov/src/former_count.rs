//! Numbers of virtual functions that runs have changed, and their restoration.
//!
//! A number lasts until it is written again or the host is booted. So does its record: a file below `/run` with the former number
//! and the one that was written last. A record is found and completed by a later run even if the run that made it was killed
//! together with its cleaner.
//!
//! Each run that uses functions of such a port holds a shared lock (flock(2)) on the record. A run that ends and gets the exclusive
//! lock is the last one: it restores the number and removes the record.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{Address, Error, Port, Sysfs, plan_function_count};

/// Attempts in the race with a run that ends and removes the record.
const TRIES: usize = 100;
/// Octets of the longest record: two numbers of 32 bits.
const LONGEST: u64 = 32;
/// Time limit for the interfaces of functions to return from namespaces that the kernel is destroying.
const RETURNING: Duration = Duration::from_secs(1);
/// Interval between two checks for them.
const LOOK: Duration = Duration::from_millis(5);

/// Place of the record of a port. The cleaner gets a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountRecord {
    /// PCI address of the port.
    pub port: Address,
    /// Folder of the records of all ports.
    pub folder: PathBuf,
}

/// A record that this run uses. Dropping it leaves the number of functions as it is.
#[derive(Debug)]
pub struct FormerCount {
    record: CountRecord,
    /// Holds the shared lock.
    file: File,
}

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Number of functions before the first change.
    former: u32,
    /// Number that was written last.
    set: u32,
}

impl FormerCount {
    /// Uses the record of a port; `None`: no run has changed its number of functions.
    ///
    /// # Errors
    /// The record cannot be opened or locked.
    pub fn find(record: &CountRecord) -> Result<Option<Self>, Error> {
        let opened = open(record, false).map_err(|answer| record.unusable(answer))?;
        Ok(opened.map(|file| Self { record: record.clone(), file }))
    }

    /// Uses the record of a port, and makes one if there is none.
    ///
    /// # Errors
    /// The record cannot be made, opened or locked.
    pub fn make(record: &CountRecord) -> Result<Self, Error> {
        let opened = open(record, true).and_then(|file| file.ok_or_else(|| ErrorKind::NotFound.into()));
        let file = opened.map_err(|answer| record.unusable(answer))?;
        Ok(Self { record: record.clone(), file })
    }

    /// Returns the place of the record.
    pub const fn record(&self) -> &CountRecord {
        &self.record
    }

    /// Gives the port this number of functions; `None`: it keeps its number. The port is read here, because another run may have restored
    /// its number before this one got the record. `used`: see [`plan_function_count`].
    ///
    /// # Errors
    /// See [`plan_function_count`] and [`FormerCount::change`]; or the port is gone.
    pub fn set(&mut self, sysfs: &Sysfs, wanted: Option<u32>, used: &[u32]) -> Result<(), Error> {
        let address = self.record.port;
        let port = sysfs.read(address).ok_or_else(|| Error::NoSriov { interface: address.to_string() })?;
        let numbers = plan_function_count(&port, wanted.unwrap_or_else(|| port.count()), used)?;
        self.change(sysfs, &port, &numbers)
    }

    /// Writes these numbers of functions, which [`plan_function_count`] has returned for the port, one after the other. The record says so
    /// before each of them.
    ///
    /// # Errors
    /// The driver refuses a number, or the record cannot be written.
    pub fn change(&mut self, sysfs: &Sysfs, port: &Port, numbers: &[u32]) -> Result<(), Error> {
        let now = port.count();
        // If the number is not the one of the record, somebody else has changed it.
        let known = read(&mut self.file).ok().flatten().filter(|counts| counts.set == now);
        let former = known.map_or(now, |counts| counts.former);
        for number in numbers {
            self.write(Counts { former, set: *number })?;
            if let Err(refusal) = sysfs.set_function_count(port, *number) {
                let set = sysfs.read(port.address).map_or(0, |port| port.count());
                return self.write(Counts { former, set }).and(Err(refusal));
            }
        }
        Ok(())
    }

    fn write(&mut self, Counts { former, set }: Counts) -> Result<(), Error> {
        let written = rewrite(&mut self.file, &format!("{former} {set}"));
        written.map_err(|answer| self.record.unusable(answer))
    }

    /// Restores the number of functions, unless another run uses functions of the port, or somebody else has changed the number. The
    /// caller has moved the interfaces of the functions back before.
    ///
    /// # Errors
    /// A function is in use by another program, or the driver refuses. The record stays then, for a later run.
    pub fn restore(self, sysfs: &Sysfs) -> Result<(), Error> {
        let Self { record, mut file } = self;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(errno) => return Err(record.unusable(errno.into())),
        }
        let counts = read(&mut file).map_err(|answer| record.unusable(answer))?;
        if let Some(counts) = counts {
            write_back(sysfs, record.port, counts)?;
        }
        // While it is locked, so that no other run can use the file that is removed.
        fs::remove_file(record.path()).map_err(|answer| record.unusable(answer))?;
        // It stays if it has records of other ports.
        let _ = fs::remove_dir(&record.folder);
        Ok(())
    }
}

impl CountRecord {
    fn path(&self) -> PathBuf {
        self.folder.join(self.port.to_string())
    }

    fn unusable(&self, answer: io::Error) -> Error {
        let path = self.path();
        Error::system(format!("the record {} of a number of virtual functions", path.display()), answer)
    }

    /// Restores the number of functions after the run that used the record was killed. Does nothing if there is no record.
    ///
    /// # Errors
    /// See [`FormerCount::restore`].
    pub fn restore(&self, sysfs: &Sysfs) -> Result<(), Error> {
        FormerCount::find(self)?.map_or(Ok(()), |found| found.restore(sysfs))
    }
}

/// Writes the former number, if the present one is that of the record. Waits for interfaces that are about to return.
fn write_back(sysfs: &Sysfs, port: Address, counts: Counts) -> Result<(), Error> {
    let end = Instant::now() + RETURNING;
    loop {
        let Some(port) = sysfs.read(port).filter(|port| port.count() == counts.set) else { return Ok(()) };
        match plan_function_count(&port, counts.former, &[]) {
            Err(Error::Busy { .. }) if Instant::now() < end => sleep(LOOK),
            planned => {
                return planned?.into_iter().try_for_each(|number| sysfs.set_function_count(&port, number));
            }
        }
    }
}

/// Opens the record and takes the shared lock. `None`: there is no record, and none is to be made.
fn open(record: &CountRecord, is_made: bool) -> io::Result<Option<File>> {
    let path = record.path();
    for _ in 0..TRIES {
        if is_made {
            DirBuilder::new().recursive(true).mode(0o700).create(&record.folder)?;
        }
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create(is_made).truncate(false).mode(0o600).open(&path) {
            Ok(file) => match flock(&file, FlockOperation::LockShared) {
                Ok(()) if is_at(&file, &path) => return Ok(Some(file)),
                Ok(()) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            },
            Err(answer) if answer.kind() != ErrorKind::NotFound => return Err(answer),
            Err(_) if !is_made => return Ok(None),
            // A run that has ended has removed the folder.
            Err(_) => {}
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Returns true if the open file is still the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (ours, there) = (file.metadata().map(id), fs::symlink_metadata(path).map(id));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

fn rewrite(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

/// Reads a record; `None`: nothing was written yet, because the run that made it was killed.
fn read(file: &mut File) -> io::Result<Option<Counts>> {
    let mut text = String::new();
    file.rewind()?;
    file.take(LONGEST).read_to_string(&mut text)?;
    let mut numbers = text.split(' ').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(former)), Some(Ok(set))) => Ok(Some(Counts { former, set })),
        _ => Ok(None),
    }
}
