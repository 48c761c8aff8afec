use bootinfo::*;
use nic::virtio_net::NicConfig;
use ring::Bytes;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use switch::{Frame, Frames, Sink, Source, port::pump};
use vmm::{Vm, VmConfig};

struct Gen {
    mem: Box<[[u8; 64]]>,
    at: usize,
}
impl Source for Gen {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let mut f = Frames::new();
        for _ in 0..budget.min(64) {
            let p = self.mem[self.at].as_mut_ptr();
            f.push(Frame::new(unsafe { Bytes::from_raw(p, 64) }));
            self.at = (self.at + 1) % self.mem.len();
        }
        take(&f);
        f.len()
    }
}
#[derive(Default)]
struct Count {
    n: AtomicU64,
    sum: AtomicU64,
}
impl Sink for Count {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut s = 0u64;
        for f in frames {
            if let Some(b) = f.octets().read::<32>(0) {
                s ^= u64::from_le_bytes(b[16..24].try_into().unwrap());
            }
        }
        self.sum.fetch_add(s, Relaxed);
        self.n.fetch_add(frames.len() as u64, Relaxed);
        frames.len()
    }
}
fn pin(c: usize) {
    let mut s = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    unsafe {
        libc::CPU_SET(c, &mut s);
        libc::sched_setaffinity(0, size_of_val(&s), &s);
    }
}
fn main() {
    let tuned: u32 = std::env::args().nth(1).map_or(1, |x| x.parse().unwrap());
    let mut info = BootInfo {
        magic: 0,
        role: 3,
        vcpus: 1,
        nic_count: 2,
        neighbour_count: 0,
        tsc_khz: 2_300_000,
        ram: 0,
        fib: 0,
        spin: u32::MAX,
        ring_size: 1024,
        traffic: Default::default(),
        nics: Default::default(),
        neighbours: [NeighbourInfo::default(); MAX_NEIGHBOURS],
    };
    for i in 0..2 {
        info.nics[i].slot = 1 + i as u32;
        info.nics[i].mtu = 1500;
        info.nics[i].tuned = tuned;
    }
    let t0 = Instant::now();
    let vm = Vm::new(VmConfig { name: "x".into(), ram: 32 << 20, fib: None, info }).unwrap();
    let mut q = vec![];
    for i in 0..2 {
        let mut c = NicConfig::new([2, 0, 0, 0, 0, i + 1]);
        c.in_order = true;
        q.push(vmm::attach(&vm, 1 + i as usize, &c, false).unwrap());
    }
    let v = vm.clone();
    let t = std::thread::spawn(move || {
        pin(1);
        let r = v.vcpu(0).unwrap().run();
        println!("{r:?}");
    });
    while vm.shared().vcpus[0].state.0.load(Acquire) == 0 && !t.is_finished() {
        std::thread::yield_now();
    }
    println!(
        "state {} after {:?} exits {:?}",
        vm.shared().vcpus[0].state.0.load(Acquire),
        t0.elapsed(),
        vm.exits()
    );
    pin(0);
    let mut mem = vec![[0u8; 64]; 128].into_boxed_slice();
    for (i, m) in mem.iter_mut().enumerate() {
        m[12] = 8;
        m[14] = 0x45;
        m[20] = i as u8;
    }
    let mut g = Gen { mem, at: 0 };
    let rx = q[0].sink();
    let mut tx = q[0].source();
    tx.disarm();
    rx.disarm();
    let out = Count::default();
    for _ in 0..5 {
        let (t, n0) = (Instant::now(), out.n.load(Relaxed));
        let mut empt = 0u64;
        let mut tot = 0u64;
        while t.elapsed() < Duration::from_millis(300) {
            for _ in 0..1000 {
                let a = pump(&mut g, rx.as_ref());
                let b = pump(tx.as_mut(), &out);
                tot += 1;
                if a + b == 0 {
                    empt += 1
                }
            }
        }
        println!(
            "{:.2} Mpps empty {:.2}",
            (out.n.load(Relaxed) - n0) as f64 / t.elapsed().as_secs_f64() / 1e6,
            empt as f64 / tot as f64
        );
    }
    println!("{:?}\n{:?}\n{:?}", q[0].rx_ledger(), q[0].tx_ledger(), vm.shared().vcpus[0].nics[0]);
    vm.stop();
    std::process::exit(0);
}
