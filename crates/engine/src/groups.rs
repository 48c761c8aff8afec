//! Every counter of a running instance, by name.

use ledger::Group;

use crate::guest::Guest;
use crate::instance::{Instance, RunningRouter};
use crate::io_thread::IoThread;
use crate::relay::Relay;
use crate::wiring::{Gate, Outside};

impl Instance {
    /// Calls `visit` with each group of counters and what its names begin with: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        for running in self.routers() {
            router_groups(running, visit);
        }
        for relay in &self.relays {
            relay
                .each_group(&mut |nic, way, group| visit(&format!("{}.{nic}.{way}", relay.plan.name), group));
            outside_groups(&relay.plan, relay.outside(), visit);
            gate_groups(&relay.plan, &relay.gate, visit);
            thread_groups(relay.threads(), visit);
        }
        for switch in self.switches() {
            switch
                .counters(&mut |port, counters| visit(&format!("switch.{}.{port}", switch.name()), counters));
        }
    }

    /// Calls `visit` with the name of each thread and the nanoseconds it has spent on a CPU.
    pub fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        for running in self.routers() {
            running.router.each_thread(visit);
            for thread in running.io_threads().iter().map(|io| io.thread()) {
                visit(thread.name(), thread.cpu_time().as_nanos() as u64);
            }
            running.kernel_nics().for_each(|nic| nic.each_thread(visit));
        }
        for thread in self.relays.iter().flat_map(Relay::threads).map(IoThread::thread) {
            visit(thread.name(), thread.cpu_time().as_nanos() as u64);
        }
        let clock = self.clock().thread();
        visit(clock.name(), clock.cpu_time().as_nanos() as u64);
    }
}

impl Guest {
    /// Calls `visit` with each group of the router's counters and what its names begin with: `wan.rx` and `wan.tx`
    /// (the host's side of a NIC's rings), `wan.interrupts`, `wan.registers` of an e1000, `vcpu0`, `vcpu0.exit`, `vcpu0.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        for (nic, queues) in self.plan().nics.iter().zip(self.nics()) {
            visit(&format!("{}.rx", nic.name), &queues.rx_ledger());
            visit(&format!("{}.tx", nic.name), &queues.tx_ledger());
            visit(&format!("{}.interrupts", nic.name), &queues.interrupts());
            if let Some(registers) = queues.registers() {
                visit(&format!("{}.registers", nic.name), registers);
            }
        }
        let vcpus = self.machine().shared().vcpus.iter().zip(self.machine().exits());
        for (number, (vcpu, exits)) in vcpus.enumerate() {
            visit(&format!("vcpu{number}"), &vcpu.router);
            visit(&format!("vcpu{number}.exit"), &**exits);
            for (nic, counters) in self.plan().nics.iter().zip(&vcpu.nics) {
                visit(&format!("vcpu{number}.{}", nic.name), counters);
            }
        }
    }
}

fn router_groups(running: &RunningRouter, visit: &mut dyn FnMut(&str, &dyn Group)) {
    let plan = running.router.plan();
    running.router.each_group(&mut |prefix, group| visit(&format!("{}.{prefix}", plan.name), group));
    let machine = running.router.machine();
    for (number, vcpu) in machine.shared().vcpus.iter().take(machine.vcpus()).enumerate() {
        visit(&format!("{}/vcpu{number}.work", plan.name), &vcpu.work);
    }
    outside_groups(plan, &running.outside, visit);
    gate_groups(plan, &running.gate, visit);
    thread_groups(running.io_threads(), visit);
}

fn thread_groups(threads: &[IoThread], visit: &mut dyn FnMut(&str, &dyn Group)) {
    for io in threads {
        visit(io.thread().name(), &**io.counters());
        visit(&format!("{}.work", io.thread().name()), &**io.work());
    }
}

/// What came while there was a limit: `edge.wan.limit`.
fn gate_groups(plan: &config::Router, gate: &Gate, visit: &mut dyn FnMut(&str, &dyn Group)) {
    for (nic, gate) in plan.nics.iter().zip(gate.nics()) {
        if let Some(counters) = gate.counters() {
            visit(&format!("{}.{}.limit", plan.name, nic.name), counters);
        }
    }
}

fn outside_groups(plan: &config::Router, outside: &[Outside], visit: &mut dyn FnMut(&str, &dyn Group)) {
    for (nic, outside) in plan.nics.iter().zip(outside) {
        let name = format!("{}.{}", plan.name, nic.name);
        match outside {
            Outside::Tap { read, written } => {
                let (all_read, all_written) = Default::default();
                read.iter().for_each(|queue| uplink::ReadCounters::add_all(&all_read, queue));
                written.iter().for_each(|queue| uplink::WriteCounters::add_all(&all_written, queue));
                visit(&format!("{name}.tap.read"), &all_read);
                visit(&format!("{name}.tap.write"), &all_written);
            }
            Outside::Xdp { read, written, kernel, .. } => {
                let (all_read, all_written) = Default::default();
                read.iter().for_each(|queue| uplink::xdp::XdpReadCounters::add_all(&all_read, queue));
                written.iter().for_each(|queue| uplink::xdp::XdpWriteCounters::add_all(&all_written, queue));
                visit(&format!("{name}.xdp.read"), &all_read);
                visit(&format!("{name}.xdp.write"), &all_written);
                visit(&format!("{name}.xdp.kernel"), &**kernel);
            }
            Outside::Capture { capture, replay } => {
                visit(&format!("{name}.pcap"), capture.counters());
                replay.iter().for_each(|counters| visit(&format!("{name}.replay"), &**counters));
            }
            Outside::Switch { queue: Some(queue), .. } => visit(&format!("{name}.queue"), &queue.counters()),
            Outside::Guest(port) => {
                let [sent, received] = port.ledgers();
                visit(&format!("{name}.guest.tx"), &sent);
                visit(&format!("{name}.guest.rx"), &received);
            }
            Outside::Peer(peer) => peer.visit(&mut |group| visit(&format!("{name}.peer"), group)),
            Outside::Switch { queue: None, .. } | Outside::Kernel(_) | Outside::Other => {}
        }
    }
}
