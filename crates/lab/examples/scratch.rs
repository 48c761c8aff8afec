use config::*;
use engine::*;
use lab::generator::{Generator, Settings};
use lab::sink::{Expected, Sink as LabSink};
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::Sink as _;

fn main() {
    let routes: usize = std::env::args().nth(1).map_or(2, |x| x.parse().unwrap());
    let nic = |name: &str, mac: u8, ip: [u8; 4]| Nic {
        name: name.into(),
        model: NicModel::VirtioNet,
        attach: Attach::Null,
        mac: Mac([2, 0, 0, 0, mac, 0]),
        addresses: vec![Address { ip: ip.into(), len: 24 }],
        queues: 1,
        queue_len: 1000,
        mtu: 1500,
        deliver: Deliver::Queued,
        ring: 1024,
    };
    let plan = Router {
        name: "dut".into(),
        engine: Engine::Kvm,
        vcpus: 1,
        memory: 32 << 20,
        vhost: VhostThreads::Shared,
        pin: Pin { vcpu: Some("1".parse().unwrap()), vhost: Some("0".parse().unwrap()) },
        spin: Spin::Always,
        nics: vec![nic("a", 1, [198, 18, 0, 1]), nic("b", 2, [198, 19, 0, 1])],
        routes: vec![
            Route {
                to: Prefix { network: [198, 18, 1, 0].into(), len: 24 },
                via: Some([198, 19, 0, 2].into()),
                nic: 1,
            },
            Route {
                to: Prefix { network: [0, 0, 0, 0].into(), len: 0 },
                via: Some([198, 19, 0, 2].into()),
                nic: 1,
            },
        ],
        neighbours: vec![Neighbour { address: [198, 19, 0, 2].into(), mac: Mac([2, 0, 0, 0, 9, 9]), nic: 1 }],
    };
    let t0 = Instant::now();
    let mut r = KvmRouter::new(&plan, Duty::default()).unwrap();
    let mut settings = Settings::default();
    if routes > 2 {
        let p = fib::synthetic::prefixes(routes, 1);
        let t = Instant::now();
        let table = r.table().clone();
        let mut rib = table.routes();
        for x in &p {
            rib.add(
                x.prefix,
                x.len,
                fib::NextHop::Gateway { nic: 1, gateway: u32::from_be_bytes([198, 19, 0, 2]) },
            )
            .unwrap();
        }
        rib.publish();
        println!("{} routes in {:?}", p.len(), t.elapsed());
        settings.destinations = fib::synthetic::destinations(&p, 65536, 2);
    }
    r.start().unwrap();
    println!("up after {:?}; exits {:?}", t0.elapsed(), r.vm().exits());
    let g = Generator::new(&settings).unwrap();
    let gc = g.counters();
    let sink = Arc::new(LabSink::new(Expected {
        flows: settings.flow_count(),
        frame: 64,
        ttl: 63,
        destination_mac: Some(frame::Mac([2, 0, 0, 0, 9, 9])),
    }));
    let pumps = vec![
        Pump { source: Box::new(g), sink: r.nics()[0].sink() },
        Pump { source: r.nics()[1].source(), sink: sink.clone() },
        Pump { source: r.nics()[0].source(), sink: Arc::new(switch::null::NullSink::default()) },
    ];
    let c2c = lab::c2c::round_trip_ns(0, 1, 20000);
    let mut io = IoThread::spawn("dut/vhost", &[0], pumps, Idle::Poll).unwrap();
    for _ in 0..5 {
        let (t, n0) = (Instant::now(), sink.counters().frames.get());
        std::thread::sleep(Duration::from_millis(200));
        println!("{:.2} Mpps", (sink.counters().frames.get() - n0) as f64 / t.elapsed().as_secs_f64() / 1e6);
    }
    io.stop();
    println!(
        "c2c {c2c:?} gen {} {:?}\n{:?}\n{:?}\n{:?}",
        gc.frames.get(),
        sink.counters(),
        r.vm().shared().vcpus[0].router,
        r.vm().shared().vcpus[0].nics[0],
        r.vm().shared().vcpus[0].nics[1]
    );
    println!("{:?}", r.nics()[0].rx_ledger());
    println!("{:?}", io.counters());
    r.stop();
}
