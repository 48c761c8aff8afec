//! Host resources of a run that only the supervisor may open: KVM, and the attachments of NICs. It keeps what
//! it hands to the data plane, so that links and files outlive it.

mod handover;
pub(crate) mod patient_open;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use attach::{Attach, DataPlaneChange, HandedOver, HostResource, NicRequirements, of_door};
use config::{Engine, GroupKind, Nic, Plan, Router};
use engine::{Images, vhost_nets};
use link::{Supply, SupplyKind};
use serde_json::Value;
use uplink::{LinkTable, SocketBroker, Undo};
use vmm::vhost_net;

pub(crate) use handover::Handover;
use patient_open::open_patiently;

use super::background_job::BackgroundJob;
use super::control_plane::{ControlResources, OpenControl};
use super::group_tables::{GroupTables, OpenTables};
use super::link_jobs::LinkJobs;
use super::link_monitor::LinkCheck;

/// Open resources.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    kvm: Option<File>,
    /// Attachments. The key holds the NIC's name where several NICs may share an attachment's name.
    uplinks: Uplinks,
    /// Kernel images of Linux guests, by router.
    images: BTreeMap<String, Images>,
    /// Socket pairs between the processes of isolated routers and their NICs, by NIC (`edge.wan`).
    brokers: BTreeMap<String, SocketBroker>,
    /// What members of groups have in common.
    pub(crate) tables: GroupTables,
    /// Namespaces of control planes, and the shadows of NICs in them.
    pub(crate) control: ControlResources,
    /// Thread that prepares the attachments for the death or the start of a data plane; they are in its hands
    /// meanwhile.
    turning: BackgroundJob<(DataPlaneChange, Uplinks, Result<()>)>,
    /// Generation number of the set of links.
    state: u64,
}

/// Attachments by key.
type Uplinks = BTreeMap<Key, Uplink>;

/// An open attachment, and what its NIC wants of it.
#[derive(Debug)]
struct Uplink {
    wanted: NicRequirements,
    opened: Box<dyn HostResource>,
}

/// Resources that are open already and need not be opened for a plan.
#[derive(Debug, Default)]
pub(crate) struct AlreadyOpen {
    kvm: bool,
    /// Requirements that each attachment was opened for.
    uplinks: BTreeMap<Key, NicRequirements>,
    /// Routers whose images are those of the plan.
    images: BTreeSet<String>,
    brokers: BTreeSet<String>,
    tables: OpenTables,
    pub(crate) control: OpenControl,
}

/// Key of an uplink across restarts of its router: the attachment, the NIC if several NICs may share the attachment, and whether it is
/// for a kernel router, which needs a different device.
type Key = (Attach, Option<String>, bool);

fn key(wanted: &NicRequirements) -> Key {
    let label = wanted.attach.traits().is_common.then(|| wanted.label());
    (wanted.attach.clone(), label, wanted.in_kernel)
}

fn label(router: &Router, nic: &Nic) -> String {
    format!("{}.{}", router.name, nic.name)
}

/// NICs that have a shadow in a plan, those of groups among them.
fn shadows(plan: &Plan) -> impl Iterator<Item = String> {
    plan.shadowed().flat_map(|router| router.nics.iter().map(move |nic| label(router, nic)))
}

/// Finds a NIC by its label, and returns what it wants of its attachment.
pub(crate) fn wanted(plan: &Plan, nic: &str) -> Option<NicRequirements> {
    plan.links().find(|wanted| wanted.label() == nic)
}

/// Whether what was opened for `held` is enough for this: a link has the queues that it was made with, and members of a group own them,
/// however many members there are.
fn check_queues(plan: &Plan, wanted: &NicRequirements, held: &NicRequirements) -> Result<()> {
    let group = plan.group(&wanted.router).filter(|group| group.kind == GroupKind::Parallel);
    let Some(group) = group else { return wanted.check_queues(held) };
    ensure!(
        group.members as usize <= held.queues,
        "its link has {} queues while the run lasts, too few for {} members: start the run anew",
        held.queues,
        group.members
    );
    Ok(())
}

impl Resources {
    /// Opens what `plan` needs and is not `held`. A failure leaves nothing behind.
    ///
    /// # Errors
    /// One line that names router and NIC.
    pub(crate) fn open(plan: &Plan, held: &AlreadyOpen) -> Result<Self> {
        let mut opened = Self::default();
        let kvm = plan.routers.iter().any(|router| router.engine.is_some_and(Engine::needs_kvm));
        if kvm && !held.kvm {
            let file = OpenOptions::new().read(true).write(true).open("/dev/kvm");
            opened.kvm = Some(file.context("cannot open /dev/kvm")?);
        }
        for router in &plan.routers {
            opened.open_images(router, held).with_context(|| format!("router {}", router.name))?;
        }
        for wanted in plan.links() {
            let place = format!("router {}, NIC {}", wanted.router, wanted.nic);
            opened.open_for(plan, wanted, held).context(place)?;
        }
        for (router, nic) in plan.nics().filter(|(router, _)| router.is_isolated()) {
            let name = label(router, nic);
            if !held.brokers.contains(&name) {
                let broker = SocketBroker::new(&name)?;
                opened.brokers.insert(name, broker);
            }
        }
        opened.tables = GroupTables::open(plan, &held.tables)?;
        opened.control = ControlResources::open(plan, &held.control)?;
        Ok(opened)
    }

    fn open_for(&mut self, plan: &Plan, wanted: NicRequirements, held: &AlreadyOpen) -> Result<()> {
        let key = key(&wanted);
        if let Some(held) = held.uplinks.get(&key) {
            return check_queues(plan, &wanted, held);
        }
        if let Some(opened) = open_patiently(&wanted)? {
            self.uplinks.insert(key, Uplink { wanted, opened });
        }
        Ok(())
    }

    fn open_images(&mut self, router: &Router, held: &AlreadyOpen) -> Result<()> {
        if let Some(linux) = &router.linux
            && !held.images.contains(&router.name)
        {
            self.images.insert(router.name.clone(), Images::open(linux)?);
        }
        Ok(())
    }

    /// Resources that are open of those that a plan needs.
    pub(crate) fn held(&self, plan: &Plan) -> AlreadyOpen {
        let with_images = plan.routers.iter().filter(|router| self.images_of(router).is_some());
        AlreadyOpen {
            kvm: self.kvm.is_some(),
            uplinks: self.uplinks.iter().map(|(key, uplink)| (key.clone(), uplink.wanted.clone())).collect(),
            images: with_images.map(|router| router.name.clone()).collect(),
            brokers: self.brokers.keys().cloned().collect(),
            tables: self.tables.held(),
            control: self.control.held(),
        }
    }

    fn images_of(&self, router: &Router) -> Option<&Images> {
        self.images
            .get(&router.name)
            .filter(|images| router.linux.as_ref().is_some_and(|linux| images.are_of(linux)))
    }

    /// Descriptors for the data plane, from the resources held and those just opened, and what each of them
    /// is.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn supplies(&self, opened: &Self, plan: &Plan) -> Result<(Vec<Supply>, Vec<OwnedFd>)> {
        let mut given = Handover::default();
        if let Some(kvm) = self.kvm.as_ref().or(opened.kvm.as_ref()) {
            given.add(SupplyKind::Kvm, "", (Value::Null, vec![kvm.as_fd()]))?;
        }
        for router in &plan.routers {
            let Some(images) = opened.images_of(router).or_else(|| self.images_of(router)) else { continue };
            given.add(SupplyKind::Images, &router.name, (Value::Null, images.descriptors().collect()))?;
        }
        for wanted in plan.links() {
            let key = key(&wanted);
            if let Some(uplink) = self.uplinks.get(&key).or_else(|| opened.uplinks.get(&key)) {
                given.add(SupplyKind::Uplink, &wanted.label(), uplink.opened.hand_over())?;
            }
        }
        for (router, nic) in plan.nics() {
            let label = label(router, nic);
            // vhost-net devices are not kept here: through one the kernel accesses the memory of its owner,
            // so it must go when the owner ends.
            let devices = (0..vhost_nets(router)).map(|_| vhost_net::open()).collect::<Result<Vec<_>>>();
            let devices = devices.with_context(|| format!("NIC {label}"))?;
            if !devices.is_empty() {
                given.add(
                    SupplyKind::VhostNets,
                    &label,
                    (Value::Null, devices.iter().map(AsFd::as_fd).collect()),
                )?;
            }
            if let Some(broker) = self.passage(opened, &label).filter(|_| router.is_isolated()) {
                given.add(SupplyKind::Door, &label, of_door(broker.back()))?;
            }
        }
        for label in shadows(plan) {
            if let Some(shadow) = self.control.shadow(&label).or_else(|| opened.control.shadow(&label)) {
                given.add(SupplyKind::Shadow, &label, attach::link(shadow.try_clone()?).hand_over())?;
            }
        }
        self.tables.hand_to_plane(&opened.tables, plan, &mut given)?;
        Ok(given.into_parts())
    }

    /// Descriptors for the process of an isolated router, from the resources held and those just opened.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn isolated_supplies(
        &self,
        opened: &Self,
        router: &Router,
    ) -> Result<(Vec<Supply>, Vec<OwnedFd>)> {
        let mut given = Handover::default();
        if let Some(kvm) = self.kvm.as_ref().or(opened.kvm.as_ref()) {
            given.add(SupplyKind::Kvm, "", (Value::Null, vec![kvm.as_fd()]))?;
        }
        for nic in router.nics.iter().map(|nic| label(router, nic)) {
            if let Some(broker) = self.passage(opened, &nic) {
                given.add(SupplyKind::Uplink, &nic, of_door(broker.front()))?;
            }
        }
        self.tables.hand_to_member(&opened.tables, router, &mut given)?;
        Ok(given.into_parts())
    }

    fn passage<'a>(&'a self, opened: &'a Self, nic: &str) -> Option<&'a SocketBroker> {
        self.brokers.get(nic).or_else(|| opened.brokers.get(nic))
    }

    /// Socket pairs between the processes of isolated routers and their NICs.
    pub(crate) fn brokers(&self) -> impl Iterator<Item = &SocketBroker> {
        self.brokers.values()
    }

    /// Mutable [`Self::brokers`].
    pub(crate) fn brokers_mut(&mut self) -> impl Iterator<Item = &mut SocketBroker> {
        self.brokers.values_mut()
    }

    /// Renews the ends of the socket pairs that a dead process held, with the octets that lay in them: those
    /// of an isolated router's process, or, for `None`, those of the data plane.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn renew_passages(&mut self, router: Option<&str>) -> Result<()> {
        let Some(router) = router else {
            return self.brokers.values_mut().try_for_each(|broker| Ok(broker.renew_back()?));
        };
        self.tables.leave(router);
        let own = |nic: &str| nic.split_once('.').is_some_and(|(owner, _)| owner == router);
        let mut own = self.brokers.iter_mut().filter(|(nic, _)| own(nic));
        own.try_for_each(|(_, broker)| Ok(broker.renew_front()?))
    }

    /// Host objects of a plan that no descriptor owns, for the cleaner.
    pub(crate) fn undo(plan: &Plan) -> impl Iterator<Item = Undo> {
        plan.links().filter_map(|wanted| wanted.undo())
    }

    fn opened(&self) -> impl Iterator<Item = &dyn HostResource> {
        self.uplinks.values().map(|uplink| &*uplink.opened)
    }

    /// One line for each thing that the host did not give and that the run can do without.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        self.opened().filter_map(|opened| opened.notice())
    }

    /// Event descriptors, readable when the process that serves a NIC wants something: another queue length,
    /// a connection.
    pub(crate) fn bells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.opened().filter_map(|opened| opened.bell())
    }

    /// Handles such requests, and queues what may block.
    pub(crate) fn attend(&self, link_jobs: &mut LinkJobs) {
        for Uplink { wanted, opened } in self.uplinks.values() {
            opened.attend().into_iter().for_each(|work| link_jobs.wish(&wanted.label(), work));
        }
    }

    /// Frames that the kernel has dropped since the link exists because the queue towards us was full, by NIC
    /// (`edge.wan`). For a link that was moved to another namespace it is the number `seen` last; a link in a
    /// namespace that we may not look into is missing.
    pub(crate) fn lost_before(&self, plan: &Plan, seen: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
        let Ok(table) = LinkTable::here() else { return Vec::new() };
        let lost = |wanted: NicRequirements| {
            let label = wanted.label();
            // The link table is read from the kernel without waiting for others.
            let here = self.uplinks.get(&key(&wanted))?.opened.lost(&table);
            let lost = here.or_else(|| seen.get(&label).copied())?;
            Some((label, lost))
        };
        plan.links().filter_map(lost).collect()
    }

    /// What was opened for a NIC (`edge.wan`), as it was wanted.
    pub(crate) fn wanted(&self, nic: &str) -> Option<&NicRequirements> {
        self.uplinks.values().map(|uplink| &uplink.wanted).find(|wanted| wanted.label() == nic)
    }

    /// Handles for a look at the links, usable in another thread. A link for which none can be made is left
    /// out.
    pub(crate) fn look(&self, plan: &Plan) -> LinkCheck {
        let watched = |wanted: NicRequirements| {
            Some((wanted.label(), self.uplinks.get(&key(&wanted))?.opened.watch()?))
        };
        LinkCheck { state: self.state, links: plan.links().filter_map(watched).collect() }
    }

    /// Installs an attachment for a NIC of a plan.
    #[cfg(test)]
    pub(crate) fn put(&mut self, (router, nic): (&Router, &Nic), opened: Box<dyn HostResource>) {
        let wanted = router.wanted(nic);
        self.uplinks.insert(key(&wanted), Uplink { wanted, opened });
    }

    /// Changes whenever the set of open links changes.
    pub(crate) const fn state(&self) -> u64 {
        self.state
    }

    /// Invalidates earlier looks at the links, because one was put back where it belongs.
    pub(crate) fn has_changed(&mut self) {
        self.state += 1;
    }

    /// Replaces the attachment of a NIC by one that was opened anew, and closes the old one. Returns what to
    /// hand to the data plane; `None` if the NIC does not exist any more or wants something else by now, in
    /// which case the new attachment is closed.
    ///
    /// # Errors
    /// The process is out of descriptors. Then the new attachment is closed, and the old one stays for the next repair to find.
    pub(crate) fn replace(
        &mut self,
        plan: &Plan,
        replacement: (NicRequirements, Box<dyn HostResource>),
        link_jobs: &mut LinkJobs,
    ) -> Result<Option<HandedOver>> {
        self.replace_with(plan, replacement, link_jobs, &|opened| HandedOver::of(opened.hand_over()))
    }

    /// [`Self::replace`] with a way to duplicate descriptors.
    fn replace_with(
        &mut self,
        plan: &Plan,
        (wanted, mut opened): (NicRequirements, Box<dyn HostResource>),
        link_jobs: &mut LinkJobs,
        duplicate: &dyn Fn(&dyn HostResource) -> io::Result<HandedOver>,
    ) -> Result<Option<HandedOver>> {
        // A link of a group has the queues that it was made with, whatever number of members has come since.
        let is_it =
            |own: &NicRequirements| NicRequirements { queues: wanted.queues, ..own.clone() } == wanted;
        let Some(key) = plan.links().find(is_it).map(|own| key(&own)) else {
            link_jobs.close(opened);
            return Ok(None);
        };
        // What is inherited cannot be given back: whether there are descriptors is known before.
        if let Err(error) = duplicate(&*opened) {
            link_jobs.close(opened);
            return Err(error).context("no descriptors are left");
        }
        if let Some(mut old) = self.uplinks.remove(&key) {
            opened.inherit(&mut *old.opened);
            link_jobs.close(old);
        }
        let handed = duplicate(&*opened).context("no descriptors are left");
        self.uplinks.insert(key, Uplink { wanted, opened });
        self.state += 1;
        handed.map(Some)
    }

    /// Starts a thread that prepares the attachments for the death or the start of a data plane; it stops at
    /// the first failure. Returns the outcome at once if there is nothing to do or no thread can be started;
    /// else [`Self::turned`] returns it.
    pub(crate) fn prepare_attachments(&mut self, turn: DataPlaneChange) -> Option<Result<()>> {
        if self.uplinks.is_empty() {
            return Some(Ok(()));
        }
        let work = move |mut uplinks: Uplinks| {
            let outcome = uplinks.values_mut().try_for_each(|uplink| uplink.opened.turn(turn));
            (turn, uplinks, outcome)
        };
        let uplinks = std::mem::take(&mut self.uplinks);
        self.uplinks = self.turning.start_with("ringroad/turning", uplinks, work)?;
        Some(Err(anyhow!("no thread can be had for what NICs are plugged into")))
    }

    /// Outcome of the last [`Self::prepare_attachments`], once: the attachments are here again.
    pub(crate) fn turned(&mut self) -> Option<(DataPlaneChange, Result<()>)> {
        let (turn, uplinks, outcome) = self.turning.finished()?;
        self.uplinks = uplinks;
        Some((turn, outcome))
    }

    /// Returns true while the attachments are in the hands of the thread.
    pub(crate) fn are_being_prepared(&self) -> bool {
        self.turning.is_at_work()
    }

    /// Waits, at most this long, until the thread is done with them. Returns true if it is.
    pub(crate) fn give_up(&mut self, most: Duration) -> bool {
        self.turning.give_up(most)
    }

    /// Descriptor to poll for reading.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.turning.watched()
    }

    /// Closes all attachments in a thread.
    pub(crate) fn close(self, link_jobs: &mut LinkJobs) {
        if !self.uplinks.is_empty() {
            link_jobs.close(self.uplinks);
        }
        if !self.control.is_empty() {
            link_jobs.close(self.control);
        }
        if !self.tables.is_empty() {
            link_jobs.close(self.tables);
        }
    }

    /// Keeps what was opened, closes what `plan` no longer needs, and adapts what stays to what its NIC wants
    /// now.
    pub(crate) fn adopt(&mut self, opened: Self, plan: &Plan, link_jobs: &mut LinkJobs) {
        self.kvm = self.kvm.take().or(opened.kvm);
        for now in plan.links() {
            let Some(Uplink { wanted, opened }) = self.uplinks.get_mut(&key(&now)) else { continue };
            let queues = if plan.group(&now.router).is_some() { wanted.queues } else { now.queues };
            let before = std::mem::replace(wanted, NicRequirements { queues, ..now });
            opened.resize(&before, wanted).into_iter().for_each(|work| link_jobs.change(work));
        }
        self.images.extend(opened.images);
        self.images.retain(|name, _| {
            plan.routers.iter().any(|router| router.name == *name && router.linux.is_some())
        });
        self.brokers.extend(opened.brokers);
        self.brokers.retain(|held, _| {
            plan.nics().any(|(router, nic)| router.is_isolated() && label(router, nic) == *held)
        });
        self.state += 1;
        self.uplinks.extend(opened.uplinks);
        let is_needed = |held: &Key| plan.links().any(|wanted| key(&wanted) == *held);
        let (kept, left) =
            std::mem::take(&mut self.uplinks).into_iter().partition(|(held, _)| is_needed(held));
        self.uplinks = kept;
        let control = self.control.adopt(opened.control, plan);
        let tables = self.tables.adopt(opened.tables, plan);
        Self { uplinks: left, control, tables, ..Self::default() }.close(link_jobs);
    }
}

#[cfg(test)]
mod tests;
