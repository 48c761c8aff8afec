//! A running firmware, by KVM or in a process, with threads of the test.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bootinfo::{BootInfo, Role};
use libc::siginfo_t;
use vmm::{Forker, Machine, MachineConfig, Process, RouteTable, Spawn, Stopped, Vm};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

/// The engine.
pub(crate) enum By {
    Kvm,
    Process(Arc<Process>),
}

/// A running machine.
pub(crate) struct Running {
    pub(crate) machine: Arc<Machine>,
    pub(crate) by: By,
    threads: Vec<JoinHandle<Stopped>>,
}

pub(crate) fn orders(vcpus: u32) -> BootInfo {
    BootInfo { spin: 100, ring_size: 256, ..BootInfo::new(Role::Echo, vcpus) }
}

fn config(info: BootInfo) -> MachineConfig {
    let table = RouteTable::new(16).expect("a route table");
    MachineConfig {
        name: "ground".into(),
        ram: 16 << 20,
        fib: Some(table.memory().clone()),
        group: None,
        info,
    }
}

/// Runs it by KVM; without KVM returns `None`, after printing why.
pub(crate) fn by_kvm(info: BootInfo) -> Option<Running> {
    by_kvm_with(info, |_| ())
}

/// Runs it by KVM, after `furnish` has added devices to the machine.
pub(crate) fn by_kvm_with(info: BootInfo, furnish: impl FnOnce(&Arc<Machine>)) -> Option<Running> {
    let kvm = match vmm::open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => {
            println!("SKIPPED: {error:#}");
            return None;
        }
    };
    register_signal_handler(SIGRTMIN(), nothing).expect("a handler");
    let vm = Arc::new(Vm::new(&kvm, config(info)).expect("a virtual machine"));
    furnish(vm.machine());
    let threads = (0..vm.machine().vcpus())
        .map(|index| {
            let vm = vm.clone();
            thread::spawn(move || vm.vcpu(index).expect("a vCPU").run())
        })
        .collect();
    Some(Running { machine: vm.machine().clone(), by: By::Kvm, threads })
}

/// Runs it in a process; returns `None` where namespaces are not permitted, after printing why.
pub(crate) fn by_process(info: BootInfo) -> Option<Running> {
    by_process_on(info, &[])
}

/// Runs it in a process, with each vCPU on its CPU.
pub(crate) fn by_process_on(info: BootInfo, cpus: &[u32]) -> Option<Running> {
    by_process_with(info, cpus, |_| ())
}

/// Runs it in a process, after `furnish` has added devices to the machine.
pub(crate) fn by_process_with(
    info: BootInfo,
    cpus: &[u32],
    furnish: impl FnOnce(&Arc<Machine>),
) -> Option<Running> {
    let process = Arc::new(Process::new(config(info)).expect("a machine"));
    furnish(process.machine());
    if let Err(error) = start(&process, "ground", cpus) {
        let line = format!("{error:#}");
        assert!(line.contains("namespace"), "{line}");
        println!("SKIPPED: {line}");
        return None;
    }
    let server = process.clone();
    let threads = vec![thread::spawn(move || server.serve())];
    Some(Running { machine: process.machine().clone(), by: By::Process(process), threads })
}

/// Starts the process of a machine, and hands its memory over.
pub(crate) fn start(process: &Process, name: &str, cpus: &[u32]) -> anyhow::Result<()> {
    let forker: Arc<dyn Spawn> = Arc::new(Forker::new().expect("an image"));
    process.spawn(&forker, name)?;
    process.hand_over(cpus)
}

/// Runs it on every engine that this host has.
pub(crate) fn each(info: &BootInfo) -> impl Iterator<Item = Running> {
    let (kvm, process) = (info.clone(), info.clone());
    [by_kvm as fn(_) -> _, by_process].into_iter().zip([kvm, process]).filter_map(|(start, info)| start(info))
}

impl Running {
    /// Waits until each vCPU serves.
    pub(crate) fn wait_until_ready(&self) {
        wait_for("the firmware to serve", || {
            let vcpus = self.machine.shared().vcpus.iter().take(self.machine.vcpus());
            self.threads.iter().any(JoinHandle::is_finished)
                || vcpus.into_iter().all(|v| v.state.0.load(Acquire) == 1)
        });
        assert!(!self.threads.iter().any(JoinHandle::is_finished), "it ended at once");
    }

    /// Returns the process and its ID.
    pub(crate) fn process(&self) -> (&Arc<Process>, i32) {
        let By::Process(process) = &self.by else { panic!("it runs by KVM") };
        (process, process.pid().expect("it has been started"))
    }

    /// Waits for its end, whatever the cause.
    pub(crate) fn ends(mut self) -> Vec<Stopped> {
        wait_for("the end", || self.threads.iter().all(JoinHandle::is_finished));
        self.threads.drain(..).map(|thread| thread.join().expect("no panic")).collect()
    }

    /// Stops it and returns how each thread ended.
    pub(crate) fn stop(mut self) -> Vec<Stopped> {
        match &self.by {
            By::Kvm => self.machine.stop(),
            By::Process(process) => process.stop(),
        }
        wait_for("the vCPUs to stop", || {
            // Repeatedly: a signal that arrives right before a vCPU enters the guest is lost.
            let kvm = matches!(self.by, By::Kvm);
            self.threads.iter().all(|thread| thread.is_finished() || kvm && thread.kill(SIGRTMIN()).is_err())
        });
        self.threads.drain(..).map(|thread| thread.join().expect("no panic")).collect()
    }
}

pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn nothing(_: c_int, _: *mut siginfo_t, _: *mut c_void) {}
