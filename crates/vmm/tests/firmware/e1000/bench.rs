//! A firmware with one e1000, a thread that serves it, and a wire to the test.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bootinfo::{BootInfo, NicInfo, NicModel, Role, TrafficInfo, TransmitMode};
use nic::e1000::Config;
use nic_port::NicQueues;
use port::{Frame, Sink};
use ring::{BURST, Bytes};
use vmm::{E1000Nic, Machine, Model, attach};

use crate::machines::{Running, by_kvm_with, by_process_with, orders, wait_for};

pub(super) const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

/// Configuration of a test.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) role: Role,
    pub(super) mode: TransmitMode,
    pub(super) vcpus: u32,
    pub(super) mtu: u32,
    pub(super) itr: u32,
    pub(super) combine: u32,
    pub(super) combine_above: u32,
    pub(super) spin: u32,
    pub(super) traffic: TrafficInfo,
}

impl Default for Wish {
    fn default() -> Self {
        let traffic = TrafficInfo {
            frame_len: 60,
            flows: 1,
            to_ip: 0x0a00_0002,
            from_ip: 0x0a00_0001,
            to_mac: [2, 0, 0, 0, 0, 9, 0, 0],
            ..TrafficInfo::default()
        };
        let (role, mode) = (Role::Echo, TransmitMode::Csb);
        Self { role, mode, vcpus: 1, mtu: 1500, itr: 0, combine: 0, combine_above: 0, spin: 0, traffic }
    }
}

/// Counts of register accesses by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accesses {
    pub(super) icr_read: u64,
    pub(super) imc_write: u64,
    pub(super) status_read: u64,
    pub(super) ims_write: u64,
    pub(super) tdt_write: u64,
    pub(super) rdt_write: u64,
    pub(super) other: u64,
}

impl Accesses {
    pub(super) const NONE: Self = Self {
        icr_read: 0,
        imc_write: 0,
        status_read: 0,
        ims_write: 0,
        tdt_write: 0,
        rdt_write: 0,
        other: 0,
    };

    pub(super) fn zip(&self, with: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            icr_read: f(self.icr_read, with.icr_read),
            imc_write: f(self.imc_write, with.imc_write),
            status_read: f(self.status_read, with.status_read),
            ims_write: f(self.ims_write, with.ims_write),
            tdt_write: f(self.tdt_write, with.tdt_write),
            rdt_write: f(self.rdt_write, with.rdt_write),
            other: f(self.other, with.other),
        }
    }

    pub(super) fn times(&self, n: u64) -> Self {
        self.zip(&Self::NONE, |count, _| count * n)
    }

    pub(super) fn less(&self, others: &Self) -> Self {
        self.zip(others, |all, others| all - others)
    }

    /// Returns the counts without the registers that have no field here.
    pub(super) fn less_others(&self) -> Self {
        Self { other: 0, ..*self }
    }

    /// Returns true if no count is less than in `others`.
    fn reaches(&self, others: &Self) -> bool {
        self.zip(others, |here, there| u64::from(here < there)) == Self::NONE
    }

    /// Asserts the counts, or up to `more` more. ICR may be read twice as often on a host that emulates guest
    /// ring 0: it delivers a level-triggered interrupt again if the line falls before it was acknowledged.
    pub(super) fn assert(&self, wanted: &Self, more: &Self, name: &str) {
        let mut most = wanted.zip(more, |wanted, more| wanted + more);
        most.icr_read *= if name.contains("kvm") { 2 } else { 1 };
        assert!(self.reaches(wanted) && most.reaches(self), "{name}: {self:?}, not {wanted:?}");
    }
}

/// Frames to and from the guest.
#[derive(Default)]
struct Wire {
    to_guest: Mutex<VecDeque<Vec<u8>>>,
    from_guest: Mutex<Vec<Vec<u8>>>,
}

/// Maximum number of frames kept of a source.
const KEPT: usize = 4096;

/// Sink of the frames that the guest sends.
struct Outside(Arc<Wire>);

impl Sink for Outside {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut taken = self.0.from_guest.lock().unwrap();
        let room = KEPT.saturating_sub(taken.len());
        taken.extend(frames.iter().take(room).map(|frame| {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            octets
        }));
        frames.len()
    }
}

/// A firmware that runs, and is served.
pub(super) struct Bench {
    pub(super) name: String,
    machine: Arc<Machine>,
    running: Option<Running>,
    queues: Arc<NicQueues>,
    wire: Arc<Wire>,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
    next: u32,
}

/// Returns one for each engine that can serve the mode.
pub(super) fn benches(wish: &Wish) -> Vec<Bench> {
    let kvm = |info, furnish: &mut dyn FnMut(&Arc<Machine>)| by_kvm_with(info, furnish);
    let process = |info, furnish: &mut dyn FnMut(&Arc<Machine>)| by_process_with(info, &[], furnish);
    let mut benches = vec![Bench::start("kvm", wish, kvm)];
    if wish.mode != TransmitMode::Coalesced {
        benches.push(Bench::start("process", wish, process));
    }
    benches.into_iter().flatten().collect()
}

/// Returns the firmware's boot information.
pub(super) fn info(wish: &Wish) -> BootInfo {
    let mut info = orders(wish.vcpus);
    (info.role, info.spin, info.nic_count) = (wish.role as u32, wish.spin, 1);
    info.traffic = wish.traffic;
    info.nics[0] = NicInfo {
        slot: 1,
        mtu: wish.mtu,
        model: NicModel::E1000 as u32,
        mode: wish.mode as u32,
        itr: wish.itr,
        combine: wish.combine,
        combine_above: wish.combine_above,
        interrupt_vcpu: wish.vcpus - 1,
        ..NicInfo::default()
    };
    info
}

impl Bench {
    fn start(
        ground: &str,
        wish: &Wish,
        start: impl FnOnce(BootInfo, &mut dyn FnMut(&Arc<Machine>)) -> Option<Running>,
    ) -> Option<Self> {
        let info = info(wish);
        let interrupt_vcpu = info.nics[0].interrupt_vcpu;
        let model = Model::E1000(E1000Nic {
            config: Config::new(MAC),
            mode: wish.mode,
            interrupt_vcpu: interrupt_vcpu as usize,
        });
        let mut queues = None;
        let running = start(info, &mut |machine| {
            queues = Some(attach(machine, 1, &model, false).expect("a NIC"));
        })?;
        let queues: Arc<NicQueues> = queues.expect("it was attached");
        let (wire, stop) = (Arc::<Wire>::default(), Arc::<AtomicBool>::default());
        queues.transmit_in_access(Arc::new(Outside(wire.clone())));
        let server = thread::spawn({
            let (queues, wire, stop) = (queues.clone(), wire.clone(), stop.clone());
            move || serve(&queues, &wire, &stop)
        });
        running.wait_until_ready();
        let name = format!("{ground}, {}, {} vCPUs", wish.mode.name(), wish.vcpus);
        let machine = running.machine.clone();
        let bench =
            Self { name, machine, running: Some(running), queues, wire, stop, server: Some(server), next: 0 };
        if wish.role == Role::Echo {
            bench.settle();
        }
        Some(bench)
    }

    /// Sends frames to the guest and waits until they have come back, in order, and everything is idle.
    pub(super) fn there_and_back(&mut self, frames: u32) {
        self.exchange(frames);
        self.settle();
    }

    /// Sends frames to the guest and waits until they have come back, in order.
    pub(super) fn exchange(&mut self, frames: u32) {
        let numbers: Vec<u32> = (self.next..self.next + frames).collect();
        self.next += frames;
        self.wire.to_guest.lock().unwrap().extend(numbers.iter().map(|number| frame(*number)));
        let came = || self.wire.from_guest.lock().unwrap().len() >= numbers.len();
        let start = std::time::Instant::now();
        while !came() {
            assert!(
                start.elapsed().as_secs() < 60,
                "{}: waited in vain for {frames} frames: {}",
                self.name,
                self.state()
            );
            thread::sleep(std::time::Duration::from_millis(1));
        }
        let back: Vec<_> = self.wire.from_guest.lock().unwrap().drain(..).collect();
        assert_eq!(back.iter().map(|octets| number(octets)).collect::<Vec<_>>(), numbers, "{}", self.name);
    }

    /// Sends a frame of this many octets to the guest, which does not come back.
    pub(super) fn lose(&self, octets: usize) {
        let mut long = frame(0);
        long.resize(octets, 0);
        self.wire.to_guest.lock().unwrap().push_back(long);
    }

    /// Returns the received frames that the guest's driver has discarded.
    pub(super) fn discarded(&self) -> u64 {
        self.machine.shared().vcpus[0].nics[0].drop_rx_pieces.get()
    }

    /// Waits until everything is idle: the guest sleeps when it has nothing to do.
    pub(super) fn settle(&self) {
        let look = || (self.accesses(), self.machine.shared().vcpus[0].router.sleeps.get());
        let mut last = look();
        wait_for("silence", || {
            thread::sleep(std::time::Duration::from_millis(5));
            let now = look();
            std::mem::replace(&mut last, now) == now
        });
    }

    /// Waits until a source has sent this many frames, then stops it; returns the first of them.
    pub(super) fn sent(&mut self, frames: usize) -> Vec<Vec<u8>> {
        wait_for(&self.name, || self.wire.from_guest.lock().unwrap().len() >= frames.min(KEPT));
        self.stop_running();
        std::mem::take(&mut *self.wire.from_guest.lock().unwrap())
    }

    /// Describes the state of both sides, for error messages.
    fn state(&self) -> String {
        let shared = self.machine.shared();
        let nics = shared.vcpus.each_ref().map(|vcpu| &vcpu.nics[0]);
        let causes = shared.causes[0].0.load(Relaxed);
        format!(
            "{:?} {:?} causes {causes:#x}\n{:?}\n{:?}\n{:?}",
            nics[0],
            nics[1],
            self.queues.rx_ledger(),
            self.queues.tx_ledger(),
            self.accesses()
        )
    }

    /// Returns the writes of TDT and RDT as counted by the guest, on all its vCPUs.
    pub(super) fn kicks(&self) -> u64 {
        self.machine.shared().vcpus.iter().map(|vcpu| vcpu.nics[0].kicks.get()).sum()
    }

    /// Returns how often each of the first two vCPUs unmasked interrupts.
    pub(super) fn arms(&self) -> [u64; 2] {
        let vcpus = &self.machine.shared().vcpus;
        [vcpus[0].nics[0].arms.get(), vcpus[1].nics[0].arms.get()]
    }

    /// Returns the frames sent as counted by the guest.
    pub(super) fn frames_sent(&self) -> u64 {
        self.machine.shared().vcpus[0].nics[0].tx_frames.get()
    }

    pub(super) fn accesses(&self) -> Accesses {
        let counters = self.queues.registers().expect("an e1000 counts them");
        Accesses {
            icr_read: counters.icr_read.get(),
            imc_write: counters.imc_write.get(),
            status_read: counters.status_read.get(),
            ims_write: counters.ims_write.get(),
            tdt_write: counters.tdt_write.get(),
            rdt_write: counters.rdt_write.get(),
            other: counters.other_read.get() + counters.other_write.get(),
        }
    }

    /// Asserts that each of these frames was announced to the device by a write of its own; the guest may
    /// have been stopped after it had counted the last one and before that write was carried out.
    pub(super) fn assert_told(&self, frames: u64, cost: &Accesses) {
        let told = cost.less(&super::SET_UP).tdt_write;
        assert!((frames - 1..=frames).contains(&told), "{}: {cost:?} for {frames}", self.name);
    }

    /// Waits until there were this many accesses, and checks that there are no more afterwards.
    pub(super) fn assert_accesses(&self, before: &Accesses, wanted: &Accesses) {
        wait_for(&self.name, || self.accesses_since(before).reaches(wanted));
        self.settle();
        self.accesses_since(before).assert(wanted, &Accesses::NONE, &self.name);
    }

    pub(super) fn accesses_since(&self, before: &Accesses) -> Accesses {
        self.accesses().zip(before, |now, before| now - before)
    }

    pub(super) fn stop(mut self) {
        self.stop_running();
    }

    fn stop_running(&mut self) {
        let stopped = self.running.take().expect("it runs").stop();
        assert!(stopped.iter().all(|end| *end == vmm::Stopped::Asked), "{}: {stopped:?}", self.name);
        self.end_server();
    }

    fn end_server(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(server) = self.server.take() {
            server.join().expect("no panic");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// The I/O thread, which always polls.
fn serve(queues: &Arc<NicQueues>, wire: &Arc<Wire>, stop: &AtomicBool) {
    let (mut source, sink, outside) = (queues.source(), queues.sink(), Outside(wire.clone()));
    source.disarm();
    sink.disarm();
    while !stop.load(Relaxed) {
        source.drain(BURST, &mut |frames| {
            outside.deliver(frames);
        });
        let room = sink.room().min(BURST);
        let mut waiting: Vec<Vec<u8>> = {
            let mut queue = wire.to_guest.lock().unwrap();
            let n = queue.len().min(room);
            queue.drain(..n).collect()
        };
        if waiting.is_empty() {
            thread::yield_now();
            continue;
        }
        let frames: Vec<Frame<'_>> =
            waiting.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        assert_eq!(sink.deliver(&frames), frames.len());
    }
}

/// Returns a frame of 60 octets with a number in it.
fn frame(number: u32) -> Vec<u8> {
    let mut octets = vec![0; 60];
    octets[..6].copy_from_slice(&MAC);
    octets[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    octets[12..14].copy_from_slice(&[0x88, 0xb5]);
    octets[20..24].copy_from_slice(&number.to_be_bytes());
    octets
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[20..24].try_into().expect("four octets"))
}
