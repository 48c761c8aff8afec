//! Stand-in for the namespaces of kernel routers: it records calls, and refuses those that a test selects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use hooks::{PacketTracer, TraceSpec};
use kernel_router::RouterConfig;

use crate::kernels::backend::{Counted, KernelBackend, Seen};
use crate::kernels::drop_reasons::Drops;
use crate::kernels::napi::Napi;
use crate::kernels::plan::Spec;

/// The test's handle on the stand-in.
#[derive(Clone, Default)]
pub(crate) struct FakeBackend(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    done: Vec<String>,
    running: BTreeMap<String, RouterConfig>,
    refuses: BTreeSet<String>,
    /// NICs whose interfaces are deleted: `edge.wan`.
    gone: BTreeSet<String>,
    /// Routers whose namespaces have lost their names.
    nameless: BTreeSet<String>,
    /// NICs without carrier.
    unplugged: BTreeSet<String>,
    /// IPv6 addresses of NICs that another station has.
    duplicates: Vec<(String, IpAddr)>,
    counted: BTreeMap<String, Counted>,
    threads: BTreeMap<String, Vec<Napi>>,
    /// Drops of each router whose file asks for them, and the routers that ask.
    drops: Drops,
    asking: BTreeSet<String>,
    panics: bool,
}

impl FakeBackend {
    /// Starts without routers.
    pub(crate) fn new() -> (Self, Box<dyn KernelBackend>) {
        let played = Self::default();
        (played.clone(), Box::new(played))
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the recorded calls: `make edge`, `end edge`, `repair edge`.
    pub(crate) fn done(&self) -> Vec<String> {
        self.script().done.clone()
    }

    /// Clears the record.
    pub(crate) fn forget(&self) {
        self.script().done.clear();
    }

    /// Returns the names of existing routers.
    pub(crate) fn running(&self) -> Vec<String> {
        self.script().running.keys().cloned().collect()
    }

    /// Returns the existing routers.
    pub(crate) fn state(&self) -> BTreeMap<String, RouterConfig> {
        self.script().running.clone()
    }

    /// Refuses this call from now on: `make edge`.
    pub(crate) fn refuse(&self, what: &str) {
        self.script().refuses.insert(what.to_owned());
    }

    /// Refuses nothing from now on.
    pub(crate) fn relent(&self) {
        self.script().refuses.clear();
    }

    /// Deletes the interface of a NIC.
    pub(crate) fn lose(&self, nic: &str) {
        self.script().gone.insert(nic.to_owned());
    }

    /// Ends a router without being asked to.
    pub(crate) fn die(&self, router: &str) {
        self.script().running.remove(router);
    }

    /// Removes the name of a router's namespace.
    pub(crate) fn unname(&self, router: &str) {
        self.script().nameless.insert(router.to_owned());
    }

    /// Sets the carrier of a NIC.
    pub(crate) fn plug(&self, nic: &str, is_in: bool) {
        let mut script = self.script();
        let _ = if is_in { script.unplugged.remove(nic) } else { script.unplugged.insert(nic.to_owned()) };
    }

    /// Gives another station an address of each router's NIC of this name.
    pub(crate) fn duplicate(&self, nic: &str, ip: IpAddr) {
        self.script().duplicates.push((nic.to_owned(), ip));
    }

    /// Sets a counter of a router.
    pub(crate) fn count(&self, router: &str, counter: &str, value: u64) {
        let mut script = self.script();
        let counters = &mut script.counted.entry(router.to_owned()).or_default().counters;
        counters.insert(format!("{router}.{counter}"), value);
    }

    /// Sets the CPU time of a router's NAPI thread.
    pub(crate) fn spend(&self, router: &str, thread: &str, ns: u64) {
        let mut script = self.script();
        let times = &mut script.counted.entry(router.to_owned()).or_default().cpu_ns;
        times.insert(thread.to_owned(), ns);
    }

    /// Sets a router's NAPI threads.
    pub(crate) fn has_threads(&self, router: &str, threads: &[Napi]) {
        self.script().threads.insert(router.to_owned(), threads.to_vec());
    }

    /// Has the kernel drop packets of each router's NIC of this name for a reason.
    pub(crate) fn drop_packets(&self, nic: &str, reason: &str, count: u64) {
        self.script().drops.entry(nic.to_owned()).or_default().insert(reason.to_owned(), count);
    }

    /// Makes the next call panic.
    pub(crate) fn panic_next(&self) {
        self.script().panics = true;
    }

    fn does(&self, what: &str, router: &str) -> Result<MutexGuard<'_, Script>> {
        let mut script = self.script();
        let doing = format!("{what} {router}");
        if std::mem::take(&mut script.panics) {
            drop(script);
            panic!("a test wants it so");
        }
        if script.refuses.contains(&doing) {
            bail!("{doing} is refused");
        }
        script.done.push(doing);
        Ok(script)
    }
}

impl KernelBackend for FakeBackend {
    fn make(&mut self, spec: &Spec) -> Result<()> {
        let mut script = self.does("make", spec.name())?;
        script.running.insert(spec.name().to_owned(), spec.wanted.clone());
        let _ = match spec.drop_reasons {
            true => script.asking.insert(spec.name().to_owned()),
            false => script.asking.remove(spec.name()),
        };
        Ok(())
    }

    fn end(&mut self, router: &str) -> Result<()> {
        self.does("end", router)?.running.remove(router);
        Ok(())
    }

    fn restart(&mut self, spec: &Spec) -> Result<()> {
        // A router whose restart is refused does not exist any more.
        self.script().running.remove(spec.name());
        self.does("restart", spec.name())?.running.insert(spec.name().to_owned(), spec.wanted.clone());
        Ok(())
    }

    fn repair(&mut self, router: &str) -> Result<bool> {
        let mut script = self.does("repair", router)?;
        script.nameless.remove(router);
        let before = script.gone.len();
        script.gone.retain(|nic| nic.split('.').next() != Some(router));
        Ok(script.gone.len() < before)
    }

    fn look(&mut self, router: &str) -> Result<Seen> {
        let script = self.script();
        let wanted = script.running.get(router).context("it is not there")?;
        let is_in = |name: &str| {
            let nic = format!("{router}.{name}");
            (!script.gone.contains(&nic)).then(|| !script.unplugged.contains(&nic))
        };
        let nics = wanted.interfaces.iter().map(|nic| (nic.name.clone(), is_in(&nic.name)));
        let threads = script.threads.get(router).cloned().unwrap_or_default();
        let drops = if script.asking.contains(router) { script.drops.clone() } else { Drops::new() };
        let (duplicates, is_nameless) = (script.duplicates.clone(), script.nameless.contains(router));
        Ok(Seen {
            nics: nics.collect(),
            threads,
            duplicates,
            drops,
            is_nameless,
            network: None,
            lacks_gateways: false,
        })
    }

    fn count(&mut self, router: &str) -> Result<Counted> {
        Ok(self.script().counted.get(router).cloned().unwrap_or_default())
    }

    fn follow(&mut self, router: &str, order: &TraceSpec) -> Result<PacketTracer> {
        drop(self.does(&format!("follow NIC {} of", order.nic), router)?);
        bail!("no packet comes here")
    }
}
