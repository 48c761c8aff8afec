//! Every counter of a running instance, by name.

use ledger::Group;

use crate::instance::{Instance, Outside, RunningRouter};

impl Instance {
    /// Calls `visit` with each group of counters and what its names begin with: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        for running in &self.routers {
            router_groups(running, visit);
        }
        for switch in &self.switches {
            switch
                .counters(&mut |port, counters| visit(&format!("switch.{}.{port}", switch.name()), counters));
        }
    }

    /// Calls `visit` with the name of each thread and the nanoseconds it has spent on a CPU.
    pub fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        for running in &self.routers {
            let io = running.io_threads().iter().map(|io| io.thread());
            for thread in running.router.threads().iter().chain(io) {
                visit(thread.name(), thread.cpu_time().as_nanos() as u64);
            }
        }
        let clock = self.clock().thread();
        visit(clock.name(), clock.cpu_time().as_nanos() as u64);
    }
}

fn router_groups(running: &RunningRouter, visit: &mut dyn FnMut(&str, &dyn Group)) {
    let (router, name) = (&running.router, &running.router.plan().name);
    for ((nic, queues), outside) in router.plan().nics.iter().zip(router.nics()).zip(&running.outside) {
        visit(&format!("{name}.{}.rx", nic.name), queues.rx_ledger());
        visit(&format!("{name}.{}.tx", nic.name), queues.tx_ledger());
        match outside {
            Outside::Tap { read, written } => {
                visit(&format!("{name}.{}.tap.read", nic.name), &**read);
                visit(&format!("{name}.{}.tap.write", nic.name), &**written);
            }
            Outside::Switch(Some(queue)) => visit(&format!("{name}.{}.queue", nic.name), queue.counters()),
            Outside::Switch(None) | Outside::Other => {}
        }
    }
    let vcpus = router.vm().shared().vcpus.iter().zip(router.vm().exits());
    for (number, (vcpu, exits)) in vcpus.enumerate() {
        visit(&format!("{name}.vcpu{number}"), &vcpu.router);
        visit(&format!("{name}.vcpu{number}.exit"), &**exits);
        for (nic, counters) in router.plan().nics.iter().zip(&vcpu.nics) {
            visit(&format!("{name}.vcpu{number}.{}", nic.name), counters);
        }
    }
    for io in running.io_threads() {
        visit(io.thread().name(), &**io.counters());
    }
}
