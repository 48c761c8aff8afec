//! A router with its firmware: its machine, its NICs, and the threads that run or serve it.

mod boot_info;
mod execution_backend;
mod images;
mod six;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bootinfo::{BootFailure, map, process};
use config::{Deliver, Engine, Router, VhostThreads};
use nic_port::NicQueues;
use sandbox::{Class, Confinement};
use threads::Thread;
use vmm::{
    GroupMemory, Machine, MachineConfig, MemberDesk, Process, RouteTable, Spawn, Steps, Stopped, Vcpu,
};

use crate::observed_time::ObservedTime;
use crate::routes;
use crate::tables::MemberTables;
use crate::watch::{Rules, VcpuSample};
use crate::wiring::{MainLock, Outlet};
use execution_backend::GuestMachine;

pub use boot_info::GuestTask;
pub use execution_backend::ExecutionBackend;
pub use images::Images;

/// A router with a firmware, in a virtual machine or in a process.
pub struct Guest {
    plan: Router,
    guest_machine: GuestMachine,
    nics: Vec<Arc<NicQueues>>,
    table: Arc<RouteTable>,
    /// The vCPU threads; for a process, the thread that serves it.
    threads: Vec<Thread>,
    confinement: Confinement,
    /// With `vhost = "vmm"`: the lock that a thread must hold to move frames.
    main_lock: MainLock,
    /// Link state of each NIC: true if there is a host or peer at the other end of its cable.
    cables: Vec<AtomicBool>,
    /// The reason why each ended thread has stopped.
    ends: Arc<Mutex<Vec<Stopped>>>,
    /// The steps of its start so far.
    steps: Steps,
}

impl Guest {
    /// Creates the machine without running it.
    pub fn new(plan: &Router, duty: GuestTask, backend: &ExecutionBackend) -> Result<Self> {
        let table = Arc::new(routes::table(plan)?);
        Self::with_table(plan, duty, table, backend)
    }

    /// Creates the machine of a router whose NICs are plugged into these outlets; the rings of some may be
    /// handed to a vhost-user peer. A member of a group may have tables in common with the others.
    pub(crate) fn with_outlets(
        plan: &Router,
        duty: GuestTask,
        outlets: &[Arc<Outlet>],
        tables: Option<MemberTables>,
        backend: &ExecutionBackend,
    ) -> Result<Self> {
        let (table, group) = match tables {
            Some(MemberTables { routes, group }) => (routes, Some(group)),
            None => (Arc::new(routes::table(plan)?), None),
        };
        Self::build(plan, duty, outlets, (table, group), backend)
    }

    /// Creates the machine with an existing route table; several routers may share one.
    pub fn with_table(
        plan: &Router,
        duty: GuestTask,
        table: Arc<RouteTable>,
        backend: &ExecutionBackend,
    ) -> Result<Self> {
        Self::build(plan, duty, &[], (table, None), backend)
    }

    fn build(
        plan: &Router,
        duty: GuestTask,
        outlets: &[Arc<Outlet>],
        (table, group): (Arc<RouteTable>, Option<GroupMemory>),
        backend: &ExecutionBackend,
    ) -> Result<Self> {
        let ram = usize::try_from(plan.memory).context("more memory than this machine can address")?;
        let firmware = || MachineConfig {
            name: execution_backend::name(plan),
            ram,
            fib: Some(table.memory().clone()),
            group,
            info: boot_info::boot_info(plan, duty),
        };
        let mut whole = Steps::begin();
        let guest_machine = backend.build(plan, firmware).with_context(|| format!("router {}", plan.name))?;
        whole.end("machine");
        let mut steps = guest_machine.steps().cloned().unwrap_or(whole);
        if guest_machine.process().is_some() && matches!(plan.vhost, VhostThreads::Kernel | VhostThreads::Vmm)
        {
            bail!(
                "router {}: vhost = \"{}\" needs KVM, and it runs as a process: write vhost = \"shared\"",
                plan.name,
                plan.vhost.name()
            );
        }
        let nics = attach_nics(plan, outlets, guest_machine.machine())?;
        steps.end("nics");
        let cables = plan.nics.iter().map(|_| AtomicBool::new(true)).collect();
        let (plan, threads, ends) = (plan.clone(), Vec::new(), Arc::default());
        Ok(Self {
            plan,
            guest_machine,
            nics,
            table,
            threads,
            confinement: Confinement::Off,
            main_lock: MainLock::default(),
            cables,
            ends,
            steps,
        })
    }

    /// Sets whether its threads are confined (seccomp) once they are started; by default they are not. The
    /// process of the engine `process` always confines itself.
    pub fn confine(&mut self, confinement: Confinement) {
        self.confinement = confinement;
    }

    /// Starts the vCPUs and waits until each of them serves its NICs.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts the vCPUs.
    pub fn launch(&mut self) -> Result<()> {
        match self.guest_machine.clone() {
            GuestMachine::Vm(vm) => {
                for index in 0..vm.machine().vcpus() {
                    let vm = vm.clone();
                    let run = |vcpu: &mut Vcpu| {
                        vcpu.await_first();
                        vcpu.run()
                    };
                    self.run_vcpu(index, move || vm.vcpu(index), run)?;
                }
            }
            GuestMachine::Linux(vm) => {
                for index in 0..vm.machine().vcpus() {
                    let vm = vm.clone();
                    self.run_vcpu(index, move || vm.cpu(index), |cpu| cpu.run())?;
                }
            }
            GuestMachine::Process(process, spawner) => self.run_process(process, spawner)?,
        }
        Ok(())
    }

    /// Starts the thread that spawns the process, hands it its memory and serves it; the process is a child
    /// of that thread and dies with it. Returns once the process exists; whether it comes up is checked
    /// later.
    fn run_process(&mut self, process: Arc<Process>, spawner: Arc<dyn Spawn>) -> Result<()> {
        let cpus: Vec<u32> = (0..process.machine().vcpus())
            .map(|index| self.cpu(index).unwrap_or(process::ANYWHERE))
            .collect();
        // A vCPU that accesses a register waits for this thread: so the vCPU's CPU is idle, and it is the one
        // to be charged.
        let near: Vec<usize> =
            cpus.iter().filter(|cpu| **cpu != process::ANYWHERE).map(|cpu| *cpu as usize).collect();
        let (name, confinement, (tell, told)) = (self.plan.name.clone(), self.confinement, channel());
        let body = move || {
            let spawned = process.spawn(&spawner, &name);
            let is_there = spawned.is_ok();
            // The receiver waits for this.
            let _ = tell.send(spawned);
            if !is_there {
                return Stopped::Asked;
            }
            match process.hand_over(&cpus).and_then(|()| confinement.enter(Class::Bus)) {
                Ok(()) => process.serve(),
                Err(error) => Stopped::Fault(format!("{error:#}")),
            }
        };
        // Until it confines itself, the thread has the privileges of its creator.
        self.run("bus", &near, (Class::Bus, Confinement::Off), body)?;
        let spawned = told.recv().context("its thread has ended").flatten();
        spawned.with_context(|| format!("router {}", self.plan.name))
    }

    /// Starts the thread of a vCPU, which creates the vCPU, confines itself so that it can create no more,
    /// and runs the guest.
    fn run_vcpu<V: 'static>(
        &mut self,
        index: usize,
        make: impl FnOnce() -> Result<V> + Send + 'static,
        run: fn(&mut V) -> Stopped,
    ) -> Result<()> {
        let cpus: Vec<usize> = self.cpu(index).into_iter().map(|cpu| cpu as usize).collect();
        let with_vhost_net = self.plan.vhost == VhostThreads::Kernel;
        let class = if with_vhost_net { Class::VcpuVhostNet } else { Class::Vcpu };
        let confinement = self.confinement;
        let made = move || {
            let vcpu = make()?;
            confinement.enter(class).map(|()| vcpu)
        };
        let body = move || match made() {
            Ok(mut vcpu) => run(&mut vcpu),
            Err(error) => Stopped::Fault(format!("{error:#}")),
        };
        self.run(&format!("vcpu{index}"), &cpus, (Class::NewVcpu, confinement), body)
    }

    /// Returns the CPU of a vCPU, if the file pins it.
    fn cpu(&self, vcpu: usize) -> Option<u32> {
        self.plan.pin.vcpu.as_ref().map(|set| set.deal(vcpu))
    }

    fn run(
        &mut self,
        name: &str,
        cpus: &[usize],
        (class, confinement): (Class, Confinement),
        body: impl FnOnce() -> Stopped + Send + 'static,
    ) -> Result<()> {
        let (name, ends) = (format!("{}/{name}", self.plan.name), self.ends.clone());
        let body = move || {
            let end = body();
            ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
        };
        self.threads.push(Thread::spawn(&name, cpus, class, confinement, body)?);
        Ok(())
    }

    /// Waits until each vCPU serves its NICs; the error names the one that failed and the reason.
    pub fn wait_until_ready(&self) -> Result<()> {
        let mut waited = ObservedTime::since(Instant::now());
        while !self.is_ready() {
            if let Some(fault) = self.fault() {
                bail!("router {}: {fault}", self.plan.name);
            }
            if let Some(line) = self.late_boot(waited.look(Instant::now())) {
                bail!("router {}: {line}", self.plan.name);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    /// Returns the reason if it does not serve after this time; `None` if it has time left.
    pub(crate) fn late_boot(&self, waited: Duration) -> Option<String> {
        let rules = Rules::default();
        if waited < rules.boot { None } else { rules.late_boot(waited, &self.vcpu_samples()) }
    }

    /// Returns true if each vCPU serves its NICs.
    pub fn is_ready(&self) -> bool {
        self.states().all(|state| state == 1)
    }

    fn states(&self) -> impl Iterator<Item = u32> {
        let machine = self.machine();
        machine.shared().vcpus.iter().take(machine.vcpus()).map(|v| v.state.0.load(Ordering::Acquire))
    }

    /// Returns the reason why the router has failed, if it has.
    pub fn fault(&self) -> Option<String> {
        if self.machine().ram().was_punched() {
            return Some("the peer that was handed its memory took pages away".to_owned());
        }
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = ends.iter().find_map(|end| match end {
            Stopped::Fault(line) => Some(line.clone()),
            Stopped::Asked | Stopped::Off => None,
        });
        let told = || self.states().find_map(trouble).map(str::to_owned);
        match self.guest_machine {
            GuestMachine::Vm(_) | GuestMachine::Linux(_) => ended.or_else(told),
            // The firmware's own report says more than the exit status of its process.
            GuestMachine::Process(..) => told().or(ended),
        }
    }

    /// Returns true if the guest has powered itself off.
    pub fn is_off(&self) -> bool {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).contains(&Stopped::Off)
    }

    /// Returns its configuration.
    pub fn plan(&self) -> &Router {
        &self.plan
    }

    /// Returns the engine that it runs on.
    pub fn engine(&self) -> Engine {
        match self.guest_machine {
            GuestMachine::Vm(_) => Engine::Kvm,
            GuestMachine::Linux(_) => Engine::Linux,
            GuestMachine::Process(..) => Engine::Process,
        }
    }

    /// Returns its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        self.guest_machine.machine()
    }

    /// Returns the ID of its process, if it has one of its own and has been launched.
    pub fn pid(&self) -> Option<i32> {
        self.guest_machine.process()?.pid()
    }

    /// Returns the steps of its start, and how long each took. The creation of a vCPU (`vcpu`), which comes last, is a part of the step
    /// after which the firmware serves.
    pub fn steps(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let vcpu = self.guest_machine.vcpu_took().map(|took| ("vcpu", took));
        self.steps.taken().iter().copied().chain(vcpu)
    }

    /// Returns the steps of its start, to go on with.
    pub(crate) fn steps_mut(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// Returns the queues of its NICs, in the order of the file.
    pub fn nics(&self) -> &[Arc<NicQueues>] {
        &self.nics
    }

    /// Sets the link state that the driver of a NIC sees.
    pub(crate) fn set_link(&self, nic: usize, up: bool) {
        self.machine().bus().set_link(map::nic_slot(nic), up);
        if self.cables.get(nic).is_some_and(|was_up| was_up.swap(up, Ordering::Relaxed) != up) {
            self.cable_changed(nic);
        }
    }

    /// Returns false if there is nothing at the other end of a NIC's cable.
    pub(crate) fn is_plugged(&self, nic: usize) -> bool {
        self.cables.get(nic).is_none_or(|up| up.load(Ordering::Relaxed))
    }

    /// Notifies the router that another host may now be at the other end of a NIC's cable.
    pub(crate) fn cable_changed(&self, nic: usize) {
        self.machine().cable_changed(nic);
    }

    /// Returns the lock that a thread must hold to move frames, with `vhost = "vmm"`.
    pub(crate) fn main_lock(&self) -> Option<&MainLock> {
        (self.plan.vhost == VhostThreads::Vmm).then_some(&self.main_lock)
    }

    /// Returns its route table.
    pub fn table(&self) -> &Arc<RouteTable> {
        &self.table
    }

    /// Returns its threads in this process: `NAME/vcpu0` and so on, or `NAME/bus` for the engine `process`.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns its process, if it has one of its own.
    pub(crate) fn process(&self) -> Option<&Arc<vmm::Process>> {
        self.guest_machine.process()
    }

    /// Returns the console counters, for a Linux guest.
    pub(crate) fn console(&self) -> Option<&Arc<vmm::linux::ConsoleCounters>> {
        self.guest_machine.console()
    }

    /// Returns the CPU time of a vCPU; for a process, that of all its vCPUs together, because the kernel does
    /// not report it by thread.
    pub fn vcpu_time(&self, vcpu: usize) -> Duration {
        match self.guest_machine.process() {
            Some(process) => process.cpu_time(),
            None => self.threads.get(vcpu).map_or(Duration::ZERO, Thread::cpu_time),
        }
    }

    /// Takes a sample of each vCPU's state for its watch.
    pub(crate) fn vcpu_samples(&self) -> Vec<VcpuSample> {
        let machine = self.machine();
        let is_shared = self.process().is_some() && machine.vcpus() > 1;
        let words = machine.shared().vcpus.iter().zip(machine.exits()).enumerate();
        words
            .map(|(n, (shared, exits))| VcpuSample {
                is_shared,
                ..VcpuSample::read(shared, exits, self.vcpu_time(n))
            })
            .collect()
    }

    /// Stops the vCPUs and waits for their threads to end. A thread that does not end keeps its machine
    /// alive.
    pub fn stop(&mut self) {
        self.guest_machine.stop();
        let mut threads = std::mem::take(&mut self.threads);
        let in_process = self.guest_machine.process().is_some();
        let left_behind =
            if in_process { Thread::join_all(&mut threads) } else { Thread::interrupt_all(&mut threads) };
        if left_behind == 0 {
            // The devices hold references that keep the machine alive, and the machine holds the bus: break
            // the cycle.
            self.machine().bus().clear();
            let desk = self.machine().group().and_then(|group| MemberDesk::new(group.desk.clone()).ok());
            desk.into_iter().for_each(|desk| desk.leave());
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop();
    }
}

fn attach_nics(plan: &Router, outlets: &[Arc<Outlet>], machine: &Machine) -> Result<Vec<Arc<NicQueues>>> {
    let attach = |(number, nic): (usize, &config::Nic)| {
        let slot = map::nic_slot(number);
        let direct = nic.deliver == Deliver::Direct && nic.attach.switch().is_some();
        let outlet = outlets.get(number);
        let attached = match outlet.and_then(|outlet| outlet.consumer()) {
            Some((features, receiver)) => {
                vmm::attach_handed(machine, slot, &boot_info::handed(plan, nic, features), receiver)
            }
            None => vmm::attach(machine, slot, &boot_info::model(plan, nic, direct), direct),
        };
        attached.with_context(|| format!("router {}, NIC {}", plan.name, nic.name))
    };
    plan.nics.iter().enumerate().map(attach).collect()
}

fn trouble(state: u32) -> Option<&'static str> {
    const ALL: [(BootFailure, &str); 4] = [
        (BootFailure::Panic, "the firmware panicked"),
        (BootFailure::BootInfo, "the firmware does not understand its orders"),
        (BootFailure::Nic, "the firmware cannot use a NIC"),
        (
            BootFailure::Memory,
            "the memory is too small for the NICs' rings and buffers: give the router more",
        ),
    ];
    ALL.iter().find(|(trouble, _)| *trouble as u32 == state).map(|(_, line)| *line)
}
