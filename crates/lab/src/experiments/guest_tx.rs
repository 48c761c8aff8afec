//! `guest-tx`: a firmware sends numbered frames by its NIC as fast as they are accepted. They go to a sink in the measuring
//! thread on the other CPU (`native`), to a sink behind the learning switch (`switch`), or to the kernel through a TAP
//! (`tap`).
//!
//! With `--segment` it sends large TCP packets. An e1000 segments them itself whatever its backend, like the emulated NIC of
//! the papers; virtio-net hands them to the kernel unsegmented.
//!
//! With `--sent-interrupts` the guest sleeps as soon as its ring is full, and an interrupt for sent frames wakes it: at
//! once, or delayed until many have been sent (`interrupts_per_packet`).
//!
//! Where an e1000 sends within the register access (`base`, `send-combining`), the sink runs in the vCPU's thread, and the
//! measuring thread only keeps the interrupt timers. The result is then compared with the rate that the exits alone allow:
//! `model_kpps` is 1 / (exits for each frame x cost of an exit on this host), with separate costs for exits made by the
//! interrupt handler in ring 0 and by the driver in ring 3.

use std::net::UdpSocket;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bootinfo::{Role, TrafficInfo};
use config::{NicModel, Spin};
use engine::{Guest, GuestTask};
use frame::offload::Offloads;
use host::cores;
use vmm::probe::KvmCosts;

use super::Case;
use crate::device::{self, CpuAssignment};
use crate::experiment::{Attachment, Experiment, ExtraFigures, Options, Rig, Sample, TxInterruptPolicy};
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading, accesses, kvm_costs, take_vcpus};
use crate::rig::host_end::{self, HostEnd};
use crate::rig::{Gate, Mover, OpenOnDrop, Through, Way, mover};
use crate::sink::{Expected, Sink};

/// While no one moves the guest's frames: time without a sent frame after which its ring counts as full and the guest as
/// asleep, and the limit for reaching that state. With an exit for each of 1024 frames that takes a tenth of a second.
const REST: Duration = Duration::from_millis(5);
const REST_LIMIT: Duration = Duration::from_secs(1);
/// Limit for emptying the ring, which has filled meanwhile, before a slice is measured.
const LEAD_LIMIT: Duration = Duration::from_millis(20);
/// Warm-up time for the caches.
const WARM_UP: Duration = Duration::from_millis(20);
/// Octets of the Ethernet, IP and TCP headers of a segment without options.
const TCP_HEADERS: usize = 54;

/// Creates the case, with the measuring thread and the guest on the CPUs of the options.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let seats = CpuAssignment::of(options)?;
    let (name, pair, options) = (case(options), seats.pair(), options.clone());
    let described =
        Experiment::new(("guest-tx", "mpps"), name, move || Sender::start(options.clone(), &seats));
    Ok(vec![described.between(pair).built_each_turn().into()])
}

/// Test set-up. The order of the fields is the drop order: the gate opens first, so that no thread waits at it when the
/// guest is stopped.
struct Sender {
    gate: OpenOnDrop,
    guest: Guest,
    mover: Mover,
    end: End,
    /// Exit costs of KVM itself, if the engine is KVM.
    costs: Option<KvmCosts>,
    options: Options,
}

/// Destination of the frames.
enum End {
    Sink(Arc<Sink>, Way),
    /// The kernel, and a socket that receives the frames.
    Kernel(HostEnd, UdpSocket),
}

impl End {
    fn open(options: &Options) -> Result<Self> {
        let through = match options.attach {
            Attachment::Native => Through::Wire,
            Attachment::Switch => Through::Switch,
            Attachment::Tap => {
                let host = HostEnd::open()?;
                let socket = host.datagrams(host_end::DISCARD)?;
                return Ok(Self::Kernel(host, socket));
            }
        };
        let sink = Arc::new(Sink::new(Expected {
            flows: options.flows * u32::from(options.vcpus),
            frame: options.segment.unwrap_or(options.frame),
            six: false,
            ttl: 64,
            destination_mac: Some(frame::Mac(device::STATION_MAC)),
        }));
        let way = Way::new(through, sink.clone(), frame::Mac(device::STATION_MAC))?;
        Ok(Self::Sink(sink, way))
    }

    fn entry(&self) -> Arc<dyn port::Sink> {
        match self {
            Self::Sink(_, way) => way.entry.clone(),
            Self::Kernel(host, _) => host.to.clone(),
        }
    }
}

fn duty(options: &Options) -> GuestTask {
    let to_tap = options.attach == Attachment::Tap;
    let [a, b, c, d, e, f] = if to_tap { host_end::HOST_MAC } else { device::STATION_MAC };
    let traffic = TrafficInfo {
        frame_len: options.frame as u32,
        segment_len: options.segment.unwrap_or(0) as u32,
        delay_sent: u32::from(options.sent_interrupts == Some(TxInterruptPolicy::Delayed)),
        flows: options.flows,
        to_ip: host_end::HOST.to_bits(),
        from_ip: device::NEAR.to_bits(),
        to_mac: [a, b, c, d, e, f, 0, 0],
        ..TrafficInfo::default()
    };
    GuestTask { role: Role::Source, traffic }
}

/// Offloads that the guest may leave to the kernel.
fn left(options: &Options) -> Offloads {
    match options.nic {
        NicModel::VirtioNet if options.segment.is_some() => Offloads::ALL,
        _ => Offloads::NONE,
    }
}

/// Name of the case, such as `kvm/e1000-csb/64/tap/vcpus=2`.
pub(super) fn case(options: &Options) -> String {
    let attach = match options.attach {
        Attachment::Native => String::new(),
        other => format!("/{}", other.name()),
    };
    let segment = options.segment.map_or_else(String::new, |segment| format!("-by-{segment}"));
    format!("{}/{}{segment}{attach}{}", options.device(), options.frame, options.several_vcpus())
}

/// Rate that the exits alone allow, and the measured rate in relation to it.
fn model(costs: &KvmCosts, ledger: &Snapshot, (frames, seconds): (u64, f64)) -> Vec<(&'static str, f64)> {
    let (all, by_ring0) = (accesses::exits(ledger), accesses::by_ring0(ledger));
    if all == 0 || frames == 0 {
        return Vec::new();
    }
    let per_frame = |exits: u64| exits as f64 / frames as f64;
    let us = per_frame(all - by_ring0) * costs.mmio_us + per_frame(by_ring0) * costs.mmio_ring0_us;
    let kpps = 1e3 / us;
    vec![
        ("probe_exit_us", costs.mmio_us),
        ("probe_exit_ring0_us", costs.mmio_ring0_us),
        ("accesses_per_frame", per_frame(all)),
        ("model_kpps", kpps),
        ("measured_over_model", frames as f64 / seconds * 1e-3 / kpps),
    ]
}

impl Rig for Sender {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let share = self.options.frames_a_packet(TCP_HEADERS);
        self.empty_ring();
        let before = Reading::of(self);
        let seconds = self.run(length);
        let counted = before.since(self);
        self.rest();
        let (ledger, exits) = counted?;
        let frames = ledger.count("arrived.frames");
        let whole = ledger.count("arrived.to_segment");
        let packets = whole as f64 + frames.saturating_sub(whole) as f64 / share as f64;
        let octets = ledger.get("arrived.bytes").unwrap_or(frames * self.options.frame as u64);
        let mut more = ExtraFigures::from([
            ("packets_kpps", packets / seconds * 1e-3),
            ("mbps", octets as f64 * 8e-6 / seconds),
        ]);
        if packets > 0.0 {
            more.push("interrupts_per_packet", ledger.count("nic0.interrupts.raised") as f64 / packets);
        }
        if share == 1 {
            more.push("bad", ledger.count("arrived.bad") as f64);
        }
        more.extend(accesses::per_frame(&ledger, frames));
        if let Some(costs) = self.costs.filter(|_| self.options.sends_in_access() && share == 1) {
            more.extend(model(&costs, &ledger, (frames, seconds)));
        }
        let lost = self.lost(&ledger);
        Ok(Sample { lost, exits: Some(exits), more, ledger, ..Sample::mpps(frames, seconds) })
    }
}

impl HasCounters for Sender {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.guest)
    }

    fn count(&self, ledger: &mut Snapshot) {
        match &self.end {
            End::Sink(sink, way) => {
                ledger.take("arrived", sink.counters());
                way.take(ledger);
            }
            End::Kernel(host, _) => ledger.take("arrived", &*host.to.counters()),
        }
        ledger.take("tx", &self.guest.nics()[0].tx_ledger());
        take_vcpus(&self.guest, ledger);
        accesses::take(&self.guest, ledger);
    }
}

impl Sender {
    fn start(options: Options, seats: &CpuAssignment) -> Result<Self> {
        let mut plan = device::end_plan(&options, seats)?;
        if options.sent_interrupts.is_some() {
            plan.spin = Spin::For(Duration::ZERO);
        }
        let mut guest = Guest::new(&plan, duty(&options), &device::backend(&options)?)?;
        let costs = kvm_costs(&guest)?;
        let end = End::open(&options)?;
        let gate = OpenOnDrop(Gate::leaving(left(&options), end.entry()));
        let mover = Mover::new(&guest.nics()[0], gate.0.clone());
        // Start with the gate open: a vCPU that waits in a register access blocks the other vCPUs' access to the device.
        gate.0.set(true);
        guest.start()?;
        cores::pin(seats.host)?;
        let mut sender = Self { gate, guest, mover, end, costs, options };
        sender.run(WARM_UP);
        sender.rest();
        Ok(sender)
    }

    /// Moves the frames queued in the ring since the last slice, so that the next one counts only frames sent in its own
    /// time.
    fn empty_ring(&mut self) {
        self.gate.0.set(true);
        let start = Instant::now();
        while self.mover.pump() > 0 && start.elapsed() < LEAD_LIMIT {}
    }

    /// Opens the gate for about `length`; returns the seconds it took.
    fn run(&mut self, length: Duration) -> f64 {
        self.gate.0.set(true);
        let (seconds, _) = mover::run(slice::from_mut(&mut self.mover), length);
        self.gate.0.set(false);
        seconds
    }

    /// Waits until the guest has sent no frame for a while: then it sleeps, and its CPU is free.
    fn rest(&self) {
        if let End::Kernel(_, socket) = &self.end {
            empty(socket);
        }
        let sent = || self.guest.machine().shared().vcpus[0].nics[0].tx_frames.get();
        let (start, mut before) = (Instant::now(), sent());
        loop {
            std::thread::sleep(REST);
            let now = sent();
            if now == before || start.elapsed() > REST_LIMIT {
                return;
            }
            before = now;
        }
    }

    /// Frames that did not arrive, judged by their numbers: with a TAP, frames dropped by a full TAP or for lack of a
    /// socket.
    fn lost(&self, ledger: &Snapshot) -> u64 {
        match &self.end {
            End::Sink(..) => ledger.count("arrived.missed").saturating_sub(ledger.count("arrived.late")),
            End::Kernel(..) => ledger.total("drop_"),
        }
    }
}

/// Discards the datagrams queued in a socket.
fn empty(socket: &UdpSocket) {
    let mut octets = [0; 2048];
    while socket.recv(&mut octets).is_ok() {}
}
