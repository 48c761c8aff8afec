//! What a run needs of the host and only the supervisor may open: KVM, TAPs, capture files. It keeps what it hands to
//! the data plane, so that links and files live on when that dies.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use config::{Attach, Engine, Nic, Plan, Router};
use engine::tap_config;
use uplink::Tap;

use crate::link::Supply;

/// How long a process that was killed may take to close its TAPs after its locks: some milliseconds.
const LEFT_OVER: Duration = Duration::from_millis(300);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(2);

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    kvm: Option<File>,
    /// By the name of the interface.
    taps: BTreeMap<String, Tap>,
    /// By path.
    captures: BTreeMap<PathBuf, File>,
}

impl Resources {
    /// Opens what `plan` needs and `held` does not have. What fails leaves nothing behind.
    ///
    /// # Errors
    /// One line that names router and NIC.
    pub(crate) fn open(plan: &Plan, held: &Self) -> Result<Self> {
        let mut opened = Self::default();
        let kvm = plan.routers.iter().any(|router| router.engine == Some(Engine::Kvm));
        if kvm && held.kvm.is_none() {
            let file = OpenOptions::new().read(true).write(true).open("/dev/kvm");
            opened.kvm = Some(file.context("cannot open /dev/kvm")?);
        }
        for (router, nic) in plan.nics() {
            opened
                .open_for((router, nic), held)
                .with_context(|| format!("router {}, NIC {}", router.name, nic.name))?;
        }
        Ok(opened)
    }

    fn open_for(&mut self, (router, nic): (&Router, &Nic), held: &Self) -> Result<()> {
        match &nic.attach {
            Attach::Tap(interface) => {
                let config = tap_config(router, nic);
                match held.taps.get(interface).map(|tap| tap.descriptors().len()) {
                    Some(queues) => check_queues(interface, queues, config.queues.into())?,
                    None => {
                        self.taps.insert(interface.clone(), open_tap(interface, &config)?);
                    }
                }
            }
            Attach::Pcap(path) if !held.captures.contains_key(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                self.captures.insert(path.clone(), file);
            }
            _ => {}
        }
        Ok(())
    }

    /// The descriptors for the data plane, from what is held and what was opened just now, and what each of them is.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn supplies(&self, opened: &Self, plan: &Plan) -> Result<(Vec<Supply>, Vec<OwnedFd>)> {
        let (mut supplies, mut descriptors) = (Vec::new(), Vec::new());
        let full = "no descriptors are left for the data plane";
        if let Some(kvm) = self.kvm.as_ref().or(opened.kvm.as_ref()) {
            supplies.push(Supply::Kvm);
            descriptors.push(kvm.try_clone().context(full)?.into());
        }
        for (router, nic) in plan.nics() {
            let name = format!("{}.{}", router.name, nic.name);
            if let Attach::Tap(interface) = &nic.attach
                && let Some(tap) = self.taps.get(interface).or_else(|| opened.taps.get(interface))
            {
                let queues = tap.descriptors().len();
                supplies.push(Supply::Tap { nic: name, interface: interface.clone(), queues });
                for queue in tap.descriptors() {
                    descriptors.push(queue.try_clone_to_owned().context(full)?);
                }
            } else if let Attach::Pcap(path) = &nic.attach
                && let Some(file) = self.captures.get(path).or_else(|| opened.captures.get(path))
            {
                supplies.push(Supply::Capture { nic: name });
                descriptors.push(file.try_clone().context(full)?.into());
            }
        }
        Ok((supplies, descriptors))
    }

    /// Gives a new data plane new files to capture into, for those that have something in them may end in the middle of
    /// a frame. `x.pcap` goes on in `x.2.pcap`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn reopen_captures(&mut self, number: u32) -> Result<()> {
        for (path, file) in &mut self.captures {
            if file.metadata().is_ok_and(|file| file.len() == 0) {
                continue;
            }
            let next = continuation(path, number.saturating_add(1));
            *file = File::create(&next).with_context(|| format!("cannot write {}", next.display()))?;
        }
        Ok(())
    }

    /// Keeps what was opened, closes what `plan` does not need any more, and gives the links that stay the sizes that
    /// it says, where they differ from those `before`.
    ///
    /// # Errors
    /// A link does not take its new MTU or queue length.
    pub(crate) fn adopt(&mut self, opened: Self, before: &Plan, plan: &Plan) -> Result<()> {
        self.kvm = self.kvm.take().or(opened.kvm);
        let mut outcome = Ok(());
        for (_, nic) in plan.nics() {
            if let Attach::Tap(interface) = &nic.attach
                && let Some(tap) = self.taps.get(interface)
                && !same_size(before, nic)
            {
                outcome = outcome.and(tap.resize(nic.mtu, nic.queue_len).map_err(Into::into));
            }
        }
        self.taps.extend(opened.taps);
        self.captures.extend(opened.captures);
        let wants = |wanted: Attach| plan.nics().any(|(_, nic)| nic.attach == wanted);
        self.taps.retain(|interface, _| wants(Attach::Tap(interface.clone())));
        self.captures.retain(|path, _| wants(Attach::Pcap(path.clone())));
        outcome
    }
}

/// A device has the number of queues that it was made with.
fn check_queues(interface: &str, has: usize, wanted: usize) -> Result<()> {
    if has != wanted {
        bail!(
            "the TAP `{interface}` has {has} queues while the run lasts, not {wanted}: choose another name, or start \
             the run anew"
        );
    }
    Ok(())
}

/// Opens a TAP. Where the rest of a run that was killed still has it, which has let go of its names already, it waits
/// for the end of that.
fn open_tap(interface: &str, config: &uplink::TapConfig<'_>) -> Result<Tap, uplink::Error> {
    let end = Instant::now() + LEFT_OVER;
    loop {
        match Tap::open(interface, config) {
            Err(uplink::Error::InUse { .. }) if Instant::now() < end => sleep(LOOK),
            opened => return opened,
        }
    }
}

fn continuation(path: &Path, number: u32) -> PathBuf {
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    path.with_extension(extension.map_or_else(|| number.to_string(), |old| format!("{number}.{old}")))
}

/// Whether the NIC on this TAP is of the same size as before: then nobody has asked for a change, and the link may
/// lie in another namespace by now.
fn same_size(before: &Plan, nic: &Nic) -> bool {
    let old = before.nics().map(|(_, old)| old).find(|old| old.attach == nic.attach);
    old.is_some_and(|old| (old.mtu, old.queue_len) == (nic.mtu, nic.queue_len))
}

#[cfg(test)]
mod tests;
