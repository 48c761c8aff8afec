//! A hostile member of a group, by KVM and in a process: it asks without end and writes to the common neighbours. It ends, the host
//! hears as much as it wants to, and the table is as it was.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bootinfo::{BootInfo, Desk, Hearers, MAX_VCPUS, Misdeed, Role, map};
use frame::Mac;
use router::{Ip, Neighbour, neighbours};
use vmm::{
    GroupMemory, MachineConfig, MemberDesk, NeighbourTable, Process, RouteTable, SharedMemory, Stopped, Vm,
};

use crate::machines::start;

const KNOWN: Neighbour = Neighbour { nic: 0, ip: Ip::v4(0x0a00_0002), mac: Mac([2, 0, 0, 0, 0, 2]) };

/// What the host has of a group.
struct Host {
    memory: SharedMemory,
    table: NeighbourTable,
    desk: MemberDesk,
}

impl Host {
    fn new() -> Self {
        let sparse = |len| SharedMemory::sparse("group", len).expect("memory");
        let memory = sparse(neighbours::shared_len(64));
        let file: OwnedFd = memory.file().expect("a file").try_clone().expect("a descriptor").into();
        let to_write = Arc::new(SharedMemory::adopt(file, true).expect("mapped"));
        let table = NeighbourTable::new(to_write).expect("a table");
        table.learn(KNOWN, true, 0);
        let desk = MemberDesk::new(Arc::new(sparse(Desk::LEN))).expect("a desk");
        Self { memory, table, desk }
    }

    /// Orders for a member that breaks the rules after a moment.
    fn config(&self) -> MachineConfig {
        let mut info = BootInfo::new(Role::Hostile, 1);
        info.misdeed = Misdeed::Tables as u32;
        let routes = RouteTable::new(16).expect("a route table");
        let to_read = SharedMemory::adopt(self.memory.read_only().expect("a descriptor").into(), false);
        let group =
            GroupMemory { neighbours: Arc::new(to_read.expect("mapped")), desk: self.desk.memory().clone() };
        let fib = Some(routes.memory().clone());
        MachineConfig { name: "member".into(), ram: 16 << 20, fib, group: Some(group), info }
    }

    /// After the end of the member.
    fn is_unharmed(&self) {
        assert_eq!((self.table.find(0, KNOWN.ip), self.table.count()), (Some(KNOWN.mac), 1));
        let (mut hearers, mut heard) = (Hearers::default(), 0);
        let told = hearers.hear(&self.desk, 10_000, |_| heard += 1);
        assert_eq!((told.taken, told.lost), (heard, 1000 - heard), "each question is heard or counted");
        assert!((1..=64).contains(&heard), "{heard} questions");
        assert_eq!(self.desk.epochs().len(), MAX_VCPUS);
    }
}

#[test]
fn a_virtual_machine_that_writes_to_the_common_neighbours_ends_and_changes_nothing() {
    let kvm = match vmm::open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let host = Host::new();
    let vm = Arc::new(Vm::new(&kvm, host.config()).expect("a virtual machine"));
    let running = vm.clone();
    let vcpu = std::thread::spawn(move || running.vcpu(0).expect("a vCPU").run());
    let end = vcpu.join().expect("no panic");
    let Stopped::Fault(line) = end else { panic!("{end:?}") };
    assert!(line.contains("exception 14 ") && line.contains(&format!("{:#x}", map::NEIGHBOURS)), "{line}");
    host.is_unharmed();
}

#[test]
fn a_process_that_writes_to_the_common_neighbours_ends_and_changes_nothing() {
    let host = Host::new();
    let process = Process::new(host.config()).expect("a machine");
    if let Err(error) = start(&process, "member", &[]) {
        let line = format!("{error:#}");
        assert!(line.contains("namespace"), "{line}");
        return println!("SKIPPED: {line}");
    }
    let end = process.serve();
    let Stopped::Fault(line) = end else { panic!("{end:?}") };
    assert!(line.contains("SIGSEGV"), "{line}");
    host.is_unharmed();
}
