//! All counters of a running instance, by name.

use std::sync::Arc;

use attach::Outside;
use config::Router;
use ledger::{Group, WorkCounters};
use nic_port::NicQueues;
use port::IngressSink;
use threads::{CpuMeter, Thread};
use vhost_user::backend::Backend;
use vmm::linux::ConsoleCounters;
use vmm::{Machine, Process};

use crate::counts::HasCounters;
use crate::guest::Guest;
use crate::instance::Instance;
use crate::io_thread::{IoThread, IoThreadCounters};
use crate::kernel_vhost::KernelNic;
use crate::wiring::RateLimit;

impl Instance {
    /// Calls `visit` with each group of counters and the prefix of its names: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        self.context.counts.each_group(visit);
    }

    /// Calls `visit` with the name of each thread and its CPU time in nanoseconds.
    pub fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.context.counts.each_thread(visit);
    }
}

/// Counters of a router of this process.
pub(crate) struct RouterCounts {
    pub(crate) guest: GuestCounts,
    pub(crate) outside: Vec<Outside>,
    /// The NICs that the kernel's vhost-net serves.
    pub(crate) kernel: Vec<Arc<KernelNic>>,
    pub(crate) gate: RateLimit,
    pub(crate) threads: Vec<IoCounts>,
}

impl HasCounters for RouterCounts {
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        let plan = &self.guest.plan;
        self.guest.each_group(&mut |prefix, group| visit(&format!("{}.{prefix}", plan.name), group));
        let machine = &self.guest.machine;
        for (number, vcpu) in machine.shared().vcpus.iter().take(machine.vcpus()).enumerate() {
            visit(&format!("{}/vcpu{number}.work", plan.name), &vcpu.work);
        }
        outside_groups(plan, &self.outside, visit);
        gate_groups(plan, &self.gate, visit);
        thread_groups(&self.threads, visit);
    }

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.guest.each_thread(visit);
        self.threads.iter().for_each(|io| visit(io.meter.name(), io.meter.read()));
        self.kernel.iter().for_each(|nic| nic.each_thread(visit));
    }
}

/// Counters that this process has of an isolated router (one in a process of its own).
pub(crate) struct IsolatedPathCounts {
    pub(crate) plan: Router,
    pub(crate) ports: Vec<Arc<Backend>>,
    pub(crate) outside: Vec<Outside>,
    pub(crate) gate: RateLimit,
    pub(crate) threads: Vec<IoCounts>,
}

impl HasCounters for IsolatedPathCounts {
    /// Same names as for a router of this process: `rx` is towards the router.
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        for (nic, port) in self.plan.nics.iter().zip(&self.ports) {
            visit(&format!("{}.{}.rx", self.plan.name, nic.name), &port.queues().rx_ledger());
            visit(&format!("{}.{}.tx", self.plan.name, nic.name), &port.queues().tx_ledger());
        }
        outside_groups(&self.plan, &self.outside, visit);
        gate_groups(&self.plan, &self.gate, visit);
        thread_groups(&self.threads, visit);
    }

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.threads.iter().for_each(|io| visit(io.meter.name(), io.meter.read()));
    }
}

/// Counters of a kernel port: a port of a switch with a TAP or a tunnel behind it.
pub(crate) struct KernelPortCounts {
    /// The NIC: `edge.lan`.
    pub(crate) name: String,
    pub(crate) queue: Arc<IngressSink>,
    pub(crate) outside: Outside,
    pub(crate) threads: Vec<IoCounts>,
}

impl HasCounters for KernelPortCounts {
    /// The names are those of a NIC on a switch, and of a NIC on a TAP or in a tunnel.
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        visit(&format!("{}.queue", self.name), self.queue.counters());
        self.outside.each_group(&mut |part, group| visit(&format!("{}.{part}", self.name), group));
        thread_groups(&self.threads, visit);
    }

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.threads.iter().for_each(|io| visit(io.meter.name(), io.meter.read()));
    }
}

/// Counters of an I/O thread.
pub(crate) struct IoCounts {
    meter: Arc<CpuMeter>,
    counters: Arc<IoThreadCounters>,
    work: Arc<WorkCounters>,
}

impl IoCounts {
    /// Calls `visit` with the name of its thread, and the nanoseconds that it has spent on a CPU.
    pub(crate) fn tell(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit(self.meter.name(), self.meter.read());
    }

    /// Returns the counters of each of these threads.
    pub(crate) fn of(threads: &[IoThread]) -> Vec<Self> {
        let of = |io: &IoThread| Self {
            meter: io.thread().meter(),
            counters: io.counters().clone(),
            work: io.work().clone(),
        };
        threads.iter().map(of).collect()
    }
}

/// Counters of a guest.
pub(crate) struct GuestCounts {
    plan: Router,
    nics: Vec<Arc<NicQueues>>,
    machine: Arc<Machine>,
    process: Option<Arc<Process>>,
    console: Option<Arc<ConsoleCounters>>,
    threads: Vec<Arc<CpuMeter>>,
}

impl GuestCounts {
    /// Returns the counters of this guest and of its current threads.
    pub(crate) fn of(guest: &Guest) -> Self {
        Self {
            plan: guest.plan().clone(),
            nics: guest.nics().to_vec(),
            machine: guest.machine().clone(),
            process: guest.process().cloned(),
            console: guest.console().cloned(),
            threads: guest.threads().iter().map(Thread::meter).collect(),
        }
    }

    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        guest_groups(&self.plan, &self.nics, &self.machine, visit);
        console_group(self.console.as_deref(), visit);
    }

    /// The vCPUs of a process are reported as one value, `NAME/vcpus`, or under the name of the only vCPU if
    /// there is one: the kernel does not report another process's time by thread.
    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        if let Some(process) = &self.process {
            let what = if self.machine.vcpus() == 1 { "vcpu0" } else { "vcpus" };
            visit(&format!("{}/{what}", self.plan.name), process.cpu_time().as_nanos() as u64);
        }
        self.threads.iter().for_each(|thread| visit(thread.name(), thread.read()));
    }
}

impl Guest {
    /// Calls `visit` with each group of the router's counters and the prefix of its names: `wan.rx` and
    /// `wan.tx` (the host's side of a NIC's rings), `wan.interrupts`, `wan.registers` of an e1000, `vcpu0`,
    /// `vcpu0.exit`, `vcpu0.wan`, `console` of a Linux guest.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        guest_groups(self.plan(), self.nics(), self.machine(), visit);
        console_group(self.console().map(Arc::as_ref), visit);
    }
}

fn console_group(console: Option<&ConsoleCounters>, visit: &mut dyn FnMut(&str, &dyn Group)) {
    if let Some(console) = console {
        visit("console", console);
    }
}

fn guest_groups(
    plan: &Router,
    nics: &[Arc<NicQueues>],
    machine: &Machine,
    visit: &mut dyn FnMut(&str, &dyn Group),
) {
    for (nic, queues) in plan.nics.iter().zip(nics) {
        visit(&format!("{}.rx", nic.name), &queues.rx_ledger());
        visit(&format!("{}.tx", nic.name), &queues.tx_ledger());
        visit(&format!("{}.interrupts", nic.name), &queues.interrupts());
        if let Some(registers) = queues.registers() {
            visit(&format!("{}.registers", nic.name), registers);
        }
    }
    let vcpus = machine.shared().vcpus.iter().zip(machine.exits());
    for (number, (vcpu, exits)) in vcpus.enumerate() {
        visit(&format!("vcpu{number}"), &vcpu.router);
        visit(&format!("vcpu{number}.exit"), &**exits);
        for (nic, counters) in plan.nics.iter().zip(&vcpu.nics) {
            visit(&format!("vcpu{number}.{}", nic.name), counters);
        }
        if plan.role == config::Role::Balancer {
            visit(&format!("vcpu{number}.balancer"), &vcpu.balancer);
        }
        for (own, counters) in plan.forwarding.interfaces.iter().zip(&vcpu.vlans) {
            visit(&format!("vcpu{number}.{}.vlan", own.name), counters);
        }
    }
}

pub(crate) fn thread_groups(threads: &[IoCounts], visit: &mut dyn FnMut(&str, &dyn Group)) {
    for io in threads {
        visit(io.meter.name(), &*io.counters);
        visit(&format!("{}.work", io.meter.name()), &*io.work);
    }
}

/// Counters of the rate limit, for NICs that have or had one: `edge.wan.limit`.
fn gate_groups(plan: &config::Router, gate: &RateLimit, visit: &mut dyn FnMut(&str, &dyn Group)) {
    for (nic, gate) in plan.nics.iter().zip(gate.nics()) {
        if let Some(counters) = gate.counters() {
            visit(&format!("{}.{}.limit", plan.name, nic.name), counters);
        }
    }
}

fn outside_groups(plan: &Router, outside: &[Outside], visit: &mut dyn FnMut(&str, &dyn Group)) {
    for (nic, outside) in plan.nics.iter().zip(outside) {
        let name = format!("{}.{}", plan.name, nic.name);
        outside.each_group(&mut |part, group| visit(&format!("{name}.{part}"), group));
    }
}
