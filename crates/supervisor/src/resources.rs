//! What a run needs of the host and only the supervisor may open: KVM, what NICs are plugged into. It keeps what it hands to
//! the data plane, so that links and files live on when that dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Attach, Engine, Nic, Plan, Router};
use engine::{Images, check_queues, open_uplink, open_vhost_net, vhost_nets};
use link::Supply;
use uplink::{Description, Door, LinkTable, Membership, Opened, Passage, Tap, Undo, Xdp};

use super::watching::Look;

/// How long a process that was killed may take to close its TAPs and sockets after its locks: some milliseconds, and more on
/// a busy host.
const LEFT_OVER: Duration = Duration::from_secs(1);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(2);

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    kvm: Option<File>,
    /// What NICs are plugged into, by the NIC's name where several may be plugged into the same.
    uplinks: BTreeMap<Key, Opened>,
    /// What Linux guests are made of, by router.
    images: BTreeMap<String, Images>,
    /// Ways from the processes of routers that are apart to their NICs, by NIC (`edge.wan`).
    passages: BTreeMap<String, Passage>,
    /// Counts how often links became others.
    state: u64,
}

/// What is open already, and need not be opened for a plan.
#[derive(Debug, Default)]
pub(crate) struct Held {
    kvm: bool,
    /// Of each uplink, what [`Opened::queues`] says.
    queues: BTreeMap<Key, Option<(usize, String)>>,
    /// Routers whose images are those of the plan.
    images: BTreeSet<String>,
    passages: BTreeSet<String>,
}

/// What an uplink is known by while its router comes and goes.
type Key = (Attach, Option<String>);

fn key(router: &Router, nic: &Nic) -> Key {
    (nic.attach.clone(), nic.attach.is_common().then(|| format!("{}.{}", router.name, nic.name)))
}

fn label(router: &Router, nic: &Nic) -> String {
    format!("{}.{}", router.name, nic.name)
}

fn described(door: &Door) -> (Description, BorrowedFd<'_>) {
    (Description::Door { path: door.path().to_owned(), listens: false }, door.descriptor())
}

impl Resources {
    /// Opens what `plan` needs and is not `held`. What fails leaves nothing behind.
    ///
    /// # Errors
    /// One line that names router and NIC.
    pub(crate) fn open(plan: &Plan, held: &Held) -> Result<Self> {
        let mut opened = Self::default();
        let kvm = plan.routers.iter().any(|router| router.engine.is_some_and(Engine::needs_kvm));
        if kvm && !held.kvm {
            let file = OpenOptions::new().read(true).write(true).open("/dev/kvm");
            opened.kvm = Some(file.context("cannot open /dev/kvm")?);
        }
        for router in &plan.routers {
            opened.open_images(router, held).with_context(|| format!("router {}", router.name))?;
        }
        for (router, nic) in plan.nics() {
            opened
                .open_for((router, nic), held)
                .with_context(|| format!("router {}, NIC {}", router.name, nic.name))?;
        }
        for (router, nic) in plan.nics().filter(|(router, _)| router.is_apart()) {
            let name = label(router, nic);
            if !held.passages.contains(&name) {
                let passage = Passage::new(&name)?;
                opened.passages.insert(name, passage);
            }
        }
        Ok(opened)
    }

    fn open_for(&mut self, (router, nic): (&Router, &Nic), held: &Held) -> Result<()> {
        let key = key(router, nic);
        match held.queues.get(&key) {
            Some(queues) => check_queues(queues.clone(), router, nic)?,
            None => {
                if let Some(uplink) = open_uplink_patiently(router, nic)? {
                    self.uplinks.insert(key, uplink);
                }
            }
        }
        Ok(())
    }

    fn open_images(&mut self, router: &Router, held: &Held) -> Result<()> {
        if let Some(linux) = &router.linux
            && !held.images.contains(&router.name)
        {
            self.images.insert(router.name.clone(), Images::open(linux)?);
        }
        Ok(())
    }

    /// What of a plan's needs is open.
    pub(crate) fn held(&self, plan: &Plan) -> Held {
        let with_images = plan.routers.iter().filter(|router| self.images_of(router).is_some());
        Held {
            kvm: self.kvm.is_some(),
            queues: self.uplinks.iter().map(|(key, uplink)| (key.clone(), uplink.queues())).collect(),
            images: with_images.map(|router| router.name.clone()).collect(),
            passages: self.passages.keys().cloned().collect(),
        }
    }

    fn images_of(&self, router: &Router) -> Option<&Images> {
        self.images
            .get(&router.name)
            .filter(|images| router.linux.as_ref().is_some_and(|linux| images.are_of(linux)))
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
        for router in &plan.routers {
            let Some(images) = opened.images_of(router).or_else(|| self.images_of(router)) else { continue };
            supplies.push(Supply::Images { router: router.name.clone() });
            for descriptor in images.descriptors() {
                descriptors.push(descriptor.try_clone_to_owned().context(full)?);
            }
        }
        for (router, nic) in plan.nics() {
            let key = key(router, nic);
            let Some(uplink) = self.uplinks.get(&key).or_else(|| opened.uplinks.get(&key)) else { continue };
            let name = format!("{}.{}", router.name, nic.name);
            supplies.push(Supply::Uplink { nic: name, what: uplink.describe() });
            for descriptor in uplink.descriptors() {
                descriptors.push(descriptor.try_clone_to_owned().context(full)?);
            }
        }
        // Not kept here: whoever owns one has the kernel reach into its memory, and has to take that along when it goes.
        for (router, nic) in plan.nics().filter(|(router, _)| vhost_nets(router) > 0) {
            let (nic, devices) = (format!("{}.{}", router.name, nic.name), vhost_nets(router));
            for _ in 0..devices {
                descriptors.push(open_vhost_net().with_context(|| format!("NIC {nic}"))?);
            }
            supplies.push(Supply::VhostNets { nic, devices });
        }
        for nic in plan.nics().filter(|(router, _)| router.is_apart()).map(|(router, nic)| label(router, nic))
        {
            let Some(passage) = self.passage(opened, &nic) else { continue };
            let (what, descriptor) = described(passage.back());
            supplies.push(Supply::Door { nic, what });
            descriptors.push(descriptor.try_clone_to_owned().context(full)?);
        }
        Ok((supplies, descriptors))
    }

    /// What the process of a router that is apart is handed.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn supplies_apart(&self, router: &Router) -> Result<(Vec<Supply>, Vec<OwnedFd>)> {
        let (mut supplies, mut descriptors) = (Vec::new(), Vec::new());
        let full = "no descriptors are left for a router's process";
        if let Some(kvm) = &self.kvm {
            supplies.push(Supply::Kvm);
            descriptors.push(kvm.try_clone().context(full)?.into());
        }
        for nic in router.nics.iter().map(|nic| label(router, nic)) {
            let Some(passage) = self.passages.get(&nic) else { continue };
            let (what, descriptor) = described(passage.front());
            supplies.push(Supply::Uplink { nic, what });
            descriptors.push(descriptor.try_clone_to_owned().context(full)?);
        }
        Ok((supplies, descriptors))
    }

    fn passage<'a>(&'a self, opened: &'a Self, nic: &str) -> Option<&'a Passage> {
        self.passages.get(nic).or_else(|| opened.passages.get(nic))
    }

    /// The ways from processes of routers that are apart to their NICs.
    pub(crate) fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.passages.values()
    }

    /// What lay before or behind the ends of those who have died is gone with them: of a router that is apart, or of the
    /// data plane.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn renew_passages(&mut self, router: Option<&str>) -> Result<()> {
        let Some(router) = router else {
            return self.passages.values_mut().try_for_each(|passage| Ok(passage.renew_back()?));
        };
        let own = |nic: &str| nic.split_once('.').is_some_and(|(owner, _)| owner == router);
        let mut own = self.passages.iter_mut().filter(|(nic, _)| own(nic));
        own.try_for_each(|(_, passage)| Ok(passage.renew_front()?))
    }

    /// What is made on the host and does not go with a descriptor, for whoever cleans up.
    pub(crate) fn undo(plan: &Plan) -> impl Iterator<Item = Undo> {
        plan.nics().filter_map(|(router, nic)| engine::undo(router, nic))
    }

    /// What the host did not give, where the run can do without: one line each.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        self.uplinks.values().filter_map(Opened::notice)
    }

    /// Readable when somebody who serves a link wishes for another queue length.
    pub(crate) fn wished(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.uplinks.values().filter_map(Opened::tap).filter_map(Tap::wished)
    }

    /// Does what was wished for. A link that does not take it has been moved or deleted, which is told elsewhere.
    pub(crate) fn fulfil(&self) {
        self.uplinks.values().filter_map(Opened::tap).for_each(|tap| drop(tap.fulfil()));
    }

    /// By NIC (`edge.wan`) the frames that the kernel has lost since its link is there, because the queue before us was full: of
    /// links that were moved as they were `seen` last. Not for those that were moved where we may not look.
    pub(crate) fn lost_before(&self, plan: &Plan, seen: &BTreeMap<String, (u64, u64)>) -> Vec<(String, u64)> {
        let Ok(table) = LinkTable::here() else { return Vec::new() };
        let lost = |router: &Router, nic: &Nic| {
            // The table asks nobody who may have to wait for others.
            let here = table.of(self.uplinks.get(&key(router, nic))?.tap()?.name());
            let here = here.map(|counted| (counted.rx_drops, counted.tx_drops));
            let (rx_drops, tx_drops) = here.or_else(|| seen.get(&label(router, nic)).copied())?;
            // The host sends into a TAP; a macvtap's frames come from below.
            let is_below = matches!(nic.attach, Attach::Macvtap { .. });
            Some((label(router, nic), if is_below { rx_drops } else { tx_drops }))
        };
        plan.nics().filter_map(|(router, nic)| lost(router, nic)).collect()
    }

    /// Of NICs whose link somebody has deleted (`edge.wan`), whether it is one that we make.
    pub(crate) fn are_made(&self, plan: &Plan, gone: BTreeSet<String>) -> BTreeMap<String, bool> {
        let made = |(router, nic)| {
            let (label, opened) = (label(router, nic), self.uplinks.get(&key(router, nic))?);
            gone.contains(&label).then(|| (label, opened.is_made()))
        };
        plan.nics().filter_map(made).collect()
    }

    /// What is to be looked at: other handles on links, whoever has these. One that cannot be had is left out.
    pub(crate) fn look(&self, plan: &Plan) -> Look {
        let mut look = Look { state: self.state, ..Look::default() };
        for (router, nic) in plan.nics() {
            let copy = match self.uplinks.get(&key(router, nic)) {
                Some(Opened::Tap(tap)) => tap.try_clone().map(Opened::Tap),
                Some(Opened::Xdp(xdp)) => xdp.try_clone().map(Opened::Xdp),
                _ => continue,
            };
            let name = label(router, nic);
            let member = self.uplinks.get(&key(router, nic)).and_then(Opened::tap).and_then(Tap::membership);
            look.members.extend(member.map(|member| (name.clone(), member.clone())));
            look.links.extend(copy.ok().map(|copy| (name, copy)));
        }
        look
    }

    /// Has this link open, for a NIC of a plan.
    #[cfg(test)]
    pub(crate) fn put(&mut self, (router, nic): (&Router, &Nic), opened: Opened) {
        self.uplinks.insert(key(router, nic), opened);
    }

    /// Another number whenever other links are open than before.
    pub(crate) const fn state(&self) -> u64 {
        self.state
    }

    /// Takes down that the link of a NIC was put into its bridge again.
    pub(crate) fn set_membership(&mut self, plan: &Plan, nic: &str, member: Membership) {
        let found = plan.nics().find(|(router, found)| label(router, found) == nic);
        let held = found.and_then(|(router, nic)| self.uplinks.get_mut(&key(router, nic)));
        if let Some(Opened::Tap(tap)) = held {
            tap.set_membership(member);
            self.state += 1;
        }
    }

    /// Puts a link that was opened anew in the place of that of a NIC: what it is, and its descriptors for the data plane.
    /// None if the NIC has no link any more.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn replace(
        &mut self,
        plan: &Plan,
        nic: &str,
        opened: Opened,
    ) -> Result<Option<(Description, Vec<OwnedFd>)>> {
        let found = plan.nics().find(|(router, found)| label(router, found) == nic);
        let Some((router, nic)) = found else { return Ok(None) };
        let (key, mut opened) = (key(router, nic), opened);
        if let (Some(Opened::Tap(old)), Opened::Tap(new)) = (self.uplinks.remove(&key), &mut opened) {
            new.succeed(old);
        }
        let copies = opened.descriptors().into_iter().map(|fd| fd.try_clone_to_owned());
        let answer = copies.collect::<std::io::Result<Vec<_>>>().map(|copies| (opened.describe(), copies));
        self.uplinks.insert(key, opened);
        self.state += 1;
        Ok(Some(answer.context("no descriptors are left")?))
    }

    /// The doors through which peers come to NICs.
    pub(crate) fn doors(&self) -> impl Iterator<Item = &Door> {
        self.uplinks.values().filter_map(Opened::door)
    }

    /// Gives a new data plane new files to capture into, for those that have something in them may end in the middle of
    /// a frame. `x.pcap` goes on in `x.2.pcap`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn reopen_captures(&mut self, number: u32) -> Result<()> {
        for ((attach, _), uplink) in &mut self.uplinks {
            let (
                Attach::Pcap { file: path, .. },
                Opened::Capture(file) | Opened::Replay { capture: file, .. },
            ) = (attach, uplink)
            else {
                continue;
            };
            if file.metadata().is_ok_and(|file| file.len() == 0) {
                continue;
            }
            let next = continuation(path, number.saturating_add(1));
            *file = engine::create(&next).with_context(|| format!("cannot write {}", next.display()))?;
        }
        Ok(())
    }

    /// Closes what cannot be served again after a data plane that has died.
    pub(crate) fn release_sockets(&mut self) {
        self.interfaces().for_each(Xdp::release);
    }

    /// Opens that anew.
    ///
    /// # Errors
    /// The kernel has not let go of the old sockets yet.
    pub(crate) fn renew_sockets(&mut self) -> Result<()> {
        self.interfaces().try_for_each(|xdp| Ok(xdp.renew()?))
    }

    fn interfaces(&mut self) -> impl Iterator<Item = &mut Xdp> {
        self.uplinks.values_mut().filter_map(|uplink| match uplink {
            Opened::Xdp(xdp) => Some(xdp),
            _ => None,
        })
    }

    /// Keeps what was opened, closes what `plan` does not need any more, and gives the links that stay the sizes that
    /// it says, where they differ from those `before`.
    ///
    /// # Errors
    /// A link does not take its new MTU or queue length.
    pub(crate) fn adopt(&mut self, opened: Self, before: &Plan, plan: &Plan) -> Result<()> {
        self.kvm = self.kvm.take().or(opened.kvm);
        let mut outcome = Ok(());
        for (router, nic) in plan.nics() {
            if let Some(uplink) = self.uplinks.get(&key(router, nic))
                && !same_size(before, nic)
            {
                outcome = outcome.and(uplink.resize(nic.mtu, nic.queue_len.most()).map_err(Into::into));
            }
        }
        self.images.extend(opened.images);
        self.images.retain(|name, _| {
            plan.routers.iter().any(|router| router.name == *name && router.linux.is_some())
        });
        self.passages.extend(opened.passages);
        self.passages.retain(|held, _| {
            plan.nics().any(|(router, nic)| router.is_apart() && label(router, nic) == *held)
        });
        self.state += 1;
        self.uplinks.extend(opened.uplinks);
        self.uplinks.retain(|held, _| plan.nics().any(|(router, nic)| key(router, nic) == *held));
        outcome
    }
}

/// Opens what a NIC is plugged into. Where the rest of a run that was killed still has it, which has let go of its names
/// already, it waits for the end of that.
fn open_uplink_patiently(router: &Router, nic: &Nic) -> Result<Option<Opened>> {
    let end = Instant::now() + LEFT_OVER;
    loop {
        match open_uplink(router, nic) {
            Err(error) if is_in_use(&error) && Instant::now() < end => sleep(LOOK),
            opened => return opened,
        }
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    use uplink::Error::{InUse, ProgramAttached, QueueTaken, Socket};
    matches!(
        error.downcast_ref(),
        Some(InUse { .. } | ProgramAttached { .. } | QueueTaken { .. } | Socket { .. })
    )
}

fn continuation(path: &Path, number: u32) -> PathBuf {
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    path.with_extension(extension.map_or_else(|| number.to_string(), |old| format!("{number}.{old}")))
}

/// Whether the NIC on this uplink is of the same size as before: then nobody has asked for a change, and the link may
/// lie in another namespace by now.
fn same_size(before: &Plan, nic: &Nic) -> bool {
    let old = before.nics().map(|(_, old)| old).find(|old| old.attach == nic.attach);
    old.is_some_and(|old| (old.mtu, old.queue_len) == (nic.mtu, nic.queue_len))
}

#[cfg(test)]
mod tests;
