//! A router as a KVM guest: its VM, its NICs and its vCPU threads.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bootinfo::{
    Address, BootInfo, MAX_ADDRESSES, MAX_NEIGHBOURS, MAX_NICS, NeighbourInfo, NicInfo, Role, TrafficInfo,
    Trouble,
};
use config::{Deliver, Router, Spin};
use nic::virtio_net::NicConfig;
use sandbox::{Class, Confinement};
use vmm::{NicQueues, RouteTable, Stopped, Vm, VmConfig};

use crate::routes;
use crate::thread::Thread;

/// First PCI slot of a NIC; slot 0 is where a host bridge would be.
const FIRST_SLOT: usize = 1;
/// How long a firmware may take until it serves; it takes a few milliseconds.
const BOOT_LIMIT: Duration = Duration::from_secs(10);
/// Empty passes of a firmware's main loop that fit into a microsecond (measured: 15 ns a pass with two NICs).
const PASSES_A_MICROSECOND: u128 = 66;

/// What a guest does, if it is not to be a router.
#[derive(Clone, Copy, Debug)]
pub struct Duty {
    /// Its role.
    pub role: Role,
    /// What it sends, if it is a source.
    pub traffic: TrafficInfo,
}

impl Default for Duty {
    fn default() -> Self {
        Self { role: Role::Router, traffic: TrafficInfo::default() }
    }
}

/// A router in a virtual machine.
pub struct KvmRouter {
    plan: Router,
    vm: Arc<Vm>,
    nics: Vec<Arc<NicQueues>>,
    table: Arc<RouteTable>,
    threads: Vec<Thread>,
    confinement: Confinement,
    /// How each vCPU thread ended.
    ends: Arc<Mutex<Vec<Stopped>>>,
}

impl KvmRouter {
    /// Makes the virtual machine; nothing runs yet.
    pub fn new(plan: &Router, duty: Duty) -> Result<Self> {
        let table = Arc::new(routes::table(plan)?);
        Self::with_table(plan, duty, table)
    }

    /// Makes the virtual machine around a route table that exists; several routers may share one.
    pub fn with_table(plan: &Router, duty: Duty, table: Arc<RouteTable>) -> Result<Self> {
        let config = VmConfig {
            name: format!("ringroad-{}", plan.name),
            ram: usize::try_from(plan.memory).context("more memory than this machine can address")?,
            fib: Some(table.memory().clone()),
            info: orders(plan, duty),
        };
        let vm = Vm::new(config).with_context(|| format!("router {}", plan.name))?;
        let nics = (FIRST_SLOT..)
            .zip(&plan.nics)
            .map(|(slot, nic)| {
                let direct =
                    nic.deliver == Deliver::Direct && matches!(nic.attach, config::Attach::Switch(_));
                vmm::attach(&vm, slot, &nic_config(plan, nic, direct), direct)
                    .with_context(|| format!("router {}, NIC {}", plan.name, nic.name))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            plan: plan.clone(),
            vm,
            nics,
            table,
            threads: Vec::new(),
            confinement: Confinement::Off,
            ends: Arc::default(),
        })
    }

    /// Whether its threads are to be confined once they are started; they are not unless this is called.
    pub fn confine(&mut self, confinement: Confinement) {
        self.confinement = confinement;
    }

    /// Starts the vCPUs and waits until each serves its NICs.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts the vCPUs.
    pub fn launch(&mut self) -> Result<()> {
        for index in 0..self.vm.vcpus() {
            let cpus: Vec<usize> =
                self.plan.pin.vcpu.as_ref().map(|set| set.deal(index) as usize).into_iter().collect();
            let (vm, ends) = (self.vm.clone(), self.ends.clone());
            let body = move || {
                let end = match vm.vcpu(index) {
                    Ok(mut vcpu) => vcpu.run(),
                    Err(error) => Stopped::Fault(format!("{error:#}")),
                };
                ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
            };
            let name = format!("{}/vcpu{index}", self.plan.name);
            self.threads.push(Thread::spawn(&name, &cpus, Class::Vcpu, self.confinement, body)?);
        }
        Ok(())
    }

    /// Waits until each vCPU serves its NICs; an error says which gave up and why.
    pub fn wait_until_ready(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let states = self
                .vm
                .shared()
                .vcpus
                .iter()
                .take(self.vm.vcpus())
                .map(|v| v.state.0.load(Ordering::Acquire));
            if states.clone().all(|state| state == 1) {
                return Ok(());
            }
            if let Some(fault) = self.fault() {
                bail!("router {}: {fault}", self.plan.name);
            }
            if start.elapsed() > BOOT_LIMIT {
                bail!("router {}: the firmware does not come up within {BOOT_LIMIT:?}", self.plan.name);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Why the router cannot go on, if it cannot.
    pub fn fault(&self) -> Option<String> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = ends.iter().find_map(|end| match end {
            Stopped::Fault(line) => Some(line.clone()),
            Stopped::Asked => None,
        });
        ended.or_else(|| {
            let states = self.vm.shared().vcpus.iter().take(self.vm.vcpus());
            states.map(|v| v.state.0.load(Ordering::Acquire)).find_map(trouble).map(str::to_owned)
        })
    }

    /// What its file says.
    pub fn plan(&self) -> &Router {
        &self.plan
    }

    /// Its virtual machine.
    pub fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Its NICs' queues, in the order of the file.
    pub fn nics(&self) -> &[Arc<NicQueues>] {
        &self.nics
    }

    /// Its routes.
    pub fn table(&self) -> &Arc<RouteTable> {
        &self.table
    }

    /// Its vCPU threads.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Stops the vCPUs and waits for their threads.
    pub fn stop(&mut self) {
        self.vm.stop();
        for thread in &mut self.threads {
            thread.interrupt_until_finished();
        }
        self.threads.clear();
        // The devices hold what keeps the VM alive, and the VM holds the bus.
        self.vm.bus().clear();
    }
}

impl Drop for KvmRouter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn trouble(state: u32) -> Option<&'static str> {
    const ALL: [(Trouble, &str); 4] = [
        (Trouble::Panic, "the firmware panicked"),
        (Trouble::BootInfo, "the firmware does not understand its orders"),
        (Trouble::Nic, "the firmware cannot use a NIC"),
        (Trouble::Memory, "the memory is too small for the NICs' rings and buffers: give the router more"),
    ];
    ALL.iter().find(|(trouble, _)| *trouble as u32 == state).map(|(_, line)| *line)
}

fn nic_config(plan: &Router, nic: &config::Nic, several_senders: bool) -> NicConfig {
    NicConfig {
        mtu: nic.mtu as u16,
        queue_pairs: plan.vcpus.max(nic.queues) as u16,
        queue_size_max: nic.ring as u16,
        in_order: !several_senders,
        ..NicConfig::new(nic.mac.0)
    }
}

fn orders(plan: &Router, duty: Duty) -> BootInfo {
    let mut nics = [NicInfo::default(); MAX_NICS];
    for (slot, (info, nic)) in (FIRST_SLOT..).zip(nics.iter_mut().zip(&plan.nics)) {
        *info = nic_info(slot, nic);
    }
    let mut neighbours = [NeighbourInfo::default(); MAX_NEIGHBOURS];
    for (info, known) in neighbours.iter_mut().zip(&plan.neighbours) {
        let [a, b, c, d, e, f] = known.mac.0;
        *info = NeighbourInfo {
            ip: known.address.to_bits(),
            nic: known.nic as u32,
            mac: [a, b, c, d, e, f, 0, 0],
        };
    }
    BootInfo {
        nic_count: plan.nics.len().min(MAX_NICS) as u32,
        neighbour_count: plan.neighbours.len().min(MAX_NEIGHBOURS) as u32,
        spin: match plan.spin {
            Spin::Always => u32::MAX,
            Spin::For(time) => (time.as_micros() * PASSES_A_MICROSECOND).min(u128::from(u32::MAX - 1)) as u32,
        },
        ring_size: plan.nics.iter().map(|nic| nic.ring).max().unwrap_or(1024),
        traffic: duty.traffic,
        nics,
        neighbours,
        ..BootInfo::new(duty.role, plan.vcpus)
    }
}

fn nic_info(slot: usize, nic: &config::Nic) -> NicInfo {
    let mut addresses = [Address::default(); MAX_ADDRESSES];
    for (place, address) in addresses.iter_mut().zip(&nic.addresses) {
        *place = Address { ip: address.ip.to_bits(), prefix: u32::from(address.len) };
    }
    NicInfo {
        slot: slot as u32,
        mtu: nic.mtu,
        address_count: nic.addresses.len().min(MAX_ADDRESSES) as u32,
        tuned: 1,
        addresses,
    }
}
